#include "engine/run/bound_calls.h"

namespace nacre {

Code BoundCalls::run(uint32_t begin, uint32_t end, uint32_t rows, uint32_t* at) const {
  const Call* call = first;
  for (uint32_t i = 0; i < end; ++i) {
    const StepRecord& step = *call->step;
    const Tensor* behind = call->operands() + step.operand_count;
    bool runs = i >= begin;
    if (step.guard != kNoIndex) runs = *static_cast<const uint32_t*>((behind++)->data) != 0 && runs;
    if (runs) {
      const Code code = call->run({*call, {words + step.first_word, step.word_count}, int(rows), scratch, workers});
      if (code != Code::kOk) {
        *at = i;
        return code;
      }
    }
    call = reinterpret_cast<const Call*>(behind);
  }
  return Code::kOk;
}

}  // namespace nacre
