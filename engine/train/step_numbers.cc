#include "engine/train/step_numbers.h"

namespace nacre {

StepNumbers step_numbers(const Model& model, const ProgramView& update) {
  StepNumbers found;
  for (const StepRecord& step : model.steps().subspan(update.first_step, update.step_count)) {
    const bool codes = step.op == Op::kVerdictCodes, verdict = codes || step.op == Op::kVerdict;
    const int operand = verdict ? 2 : 3;
    if ((!verdict && step.op != Op::kAdjustLossScale) || step.operand_count <= operand) continue;
    const uint32_t id = model.operands(step)[operand] & kOperandIdMask;
    if (id >= model.tensors().size()) continue;
    const TensorRecord& r = model.tensors()[id];
    const ElementType counted = codes ? ElementType::kInt32 : ElementType::kFloat32;
    if (verdict && r.element == counted && r.bytes == 4 && r.region == Region::kStep) found.samples = id;
    if (!verdict && r.element == ElementType::kUint32 && r.bytes == 12 && r.region == Region::kState) found.floor = id;
  }
  return found;
}

}  // namespace nacre
