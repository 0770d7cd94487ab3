// Which kernels a bound program runs. A file of its own: a firmware that does not ask links none of it.
#include "engine/run/placed_call.h"
#include "engine/run/program.h"

namespace nacre {

Kernel Program::kernel(uint32_t step) const {
  if (!bound() || step >= view_.step_count) return nullptr;
  const Call* call = calls_;
  for (uint32_t i = 0; i < step; ++i) {
    const StepRecord& record = *call->step;
    const int tensors = record.operand_count + (record.guard != kNoIndex ? 1 : 0);
    call = places_ != nullptr ? next(call) : reinterpret_cast<const Call*>(call->operands() + tensors);
  }
  return call->run;
}

}  // namespace nacre
