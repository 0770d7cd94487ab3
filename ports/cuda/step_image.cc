#include "ports/cuda/step_image.h"

#include <algorithm>
#include <cstring>

namespace nacre::cuda {
namespace {

// Returns the number of blocks. Threads share the elements of the last operand, which the step makes or updates.
// Teams share what the op says.
uint32_t blocks_for(Op op, const Operands& operands) {
  const DeviceThreads& threads = find_rule(op)->threads;
  const auto teams = threads.teams != nullptr ? threads.teams : threads.parts;
  if (teams != nullptr && teams(operands) > 0) return blocks_of_teams(uint64_t(teams(operands)));
  if (operands.count == 0 || !operands.has(operands.count - 1)) return 1;
  return blocks_of(uint64_t(operands[operands.count - 1].elements()));
}

}  // namespace

uint32_t blocks_of(uint64_t elements) {
  return uint32_t(std::clamp<uint64_t>((elements + kBlockThreads - 1) / kBlockThreads, 1, kMostBlocks));
}

uint32_t blocks_of_teams(uint64_t elements) { return uint32_t(std::clamp<uint64_t>(elements, 1, kMostBlocks)); }

void write_image(const Args& args, int room, uint32_t* failure, StepHead* image) {
  const Operands operands = {args.call.operands(), args.call.step->operand_count, 0};
  const bool guarded = args.call.step->guard != kNoIndex;
  StepHead head = {};
  head.guard = guarded ? static_cast<const uint32_t*>(operands.tensor[operands.count].data) : nullptr;
  head.scratch = args.scratch.data();
  head.failure = failure;
  head.scratch_bytes = args.scratch.size();
  head.step = *args.call.step;
  head.rows = args.rows;
  head.blocks = blocks_for(args.call.step->op, operands);
  std::copy_n(args.words.data, args.words.count, head.words);
  std::memcpy(static_cast<void*>(image), &head, sizeof head);
  auto* const operand = reinterpret_cast<StepOperand*>(image + 1);
  for (int i = 0; i < room; ++i) {
    StepOperand made = {};
    if (operands.has(i)) made = {operands.tensor[i].data, *operands.tensor[i].record};
    std::memcpy(static_cast<void*>(operand + i), &made, sizeof made);
  }
}

}  // namespace nacre::cuda
