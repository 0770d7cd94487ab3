// Tells which kernels a bound program runs, and which packed copies they read. It is a file of its own, so a firmware
// that does not ask links none of it.
#include "engine/run/find_entry.h"
#include "engine/run/placed_call.h"
#include "engine/run/program.h"

namespace nacre {

const Call* Program::call_of(uint32_t step) const {
  if (!bound() || step >= view_.step_count) return nullptr;
  const Call* call = calls_;
  for (uint32_t i = 0; i < step; ++i) {
    const StepRecord& record = *call->step;
    const int tensors = record.operand_count + (record.guard != kNoIndex ? 1 : 0);
    call = places_ != nullptr ? next(call) : reinterpret_cast<const Call*>(call->operands() + tensors);
  }
  return call;
}

Kernel Program::kernel(uint32_t step) const {
  const Call* const call = call_of(step);
  return call == nullptr ? nullptr : call->run;
}

// With Places, the kernel's entry tells whether an operand is packed: a port may have copied all weights.
uint32_t Program::packed_operands(uint32_t step) const {
  const Call* const call = call_of(step);
  uint32_t bits = 0;
  for (int i = 0; call != nullptr && i < call->step->operand_count; ++i) {
    const Tensor& tensor = call->operands()[i];
    if (tensor.record == nullptr || tensor.record->region != Region::kWeights) continue;
    const auto id = uint32_t(tensor.record - model_->tensors().data());
    const bool packed = places_ == nullptr
                            ? tensor.data != model_->weights(id)
                            : packs(*tensor.record, operand_type(*placed(call)->entry, i, call->step->operand_count));
    bits |= packed ? 1u << i : 0;
  }
  return bits;
}

}  // namespace nacre
