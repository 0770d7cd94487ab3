#include "tools/model/program_cost.h"

namespace nacre::tools {
namespace {

uint64_t elements(const TensorRecord& record) {
  uint64_t product = 1;
  for (int i = 0; i < record.rank; ++i) product *= uint64_t(record.dims[i]);
  return product;
}

}  // namespace

uint64_t multiply_accumulates(const Model& model, const StepRecord& step) {
  const OpRule* rule = find_rule(step.op);
  if (rule == nullptr || rule->numerics != Numerics::kMatmul || step.operand_count < 3) return 0;
  const uint32_t* operands = model.operands(step);
  const uint32_t x_id = operands[0] & kOperandIdMask, w_id = operands[1] & kOperandIdMask;
  const uint32_t y_id = operands[step.operand_count - 1] & kOperandIdMask;
  // `open` accepts such a step, `measure` refuses it.
  if (x_id == kNoOperand || w_id == kNoOperand || y_id == kNoOperand) return 0;
  const TensorRecord &x = model.tensors()[x_id], &w = model.tensors()[w_id], &y = model.tensors()[y_id];
  if (step.op == Op::kBatchedMatmul && x.rank > 1) {
    const bool transposed = step.word_count > 0 && model.words(step)[0] != 0;
    return elements(y) * uint64_t(x.dims[x.rank - (transposed ? 2 : 1)]);
  }
  if ((step.op == Op::kLstm || step.op == Op::kGru || step.op == Op::kStreamLstm) && w.rank == 2)
    return elements(x) * uint64_t(w.dims[1]);
  return y.rank == 0 ? 0 : elements(y) / uint64_t(y.dims[y.rank - 1]) * elements(w);
}

StepWork step_work(const Model& model, const StepRecord& step) {
  StepWork work = {.compute = ElementType::kNone, .operations = 2.0 * double(multiply_accumulates(model, step))};
  for (uint32_t i = 0; i < step.operand_count; ++i) {
    const uint32_t word = model.operands(step)[i];
    if (word == kNoOperand) continue;
    const TensorRecord& r = model.tensors()[word & kOperandIdMask];
    if (work.compute == ElementType::kNone) work.compute = r.element;
    work.bytes += double(r.bytes);
  }
  return work;
}

Statistics statistics(const LoadedModel& loaded, uint32_t program) {
  const Model& model = loaded.model();
  const ProgramView view = model.program(program);
  const ProgramNames names = loaded.program_names(program);
  Statistics s = {.layers = loaded.layer_count(),
                  .steps = view.step_count,
                  .tensors = view.tensor_count,
                  .batch = view.batch,
                  .weight_bytes = loaded.weight_bytes(),
                  .file_bytes = model.bytes().size(),
                  .liveness_bound = names.liveness_bound,
                  .banks = {}};
  for (const StepRecord& step : model.steps().subspan(view.first_step, view.step_count))
    s.multiply_accumulates += multiply_accumulates(model, step);
  for (size_t bank = 0; bank < view.banks.size(); ++bank) {
    s.banks.push_back(
        {names.banks[bank].empty() ? "bank" + std::to_string(bank) : names.banks[bank], view.banks[bank]});
    s.arena_bytes += view.banks[bank];
  }
  return s;
}

}  // namespace nacre::tools
