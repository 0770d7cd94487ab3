#include "tools/graph/bound_step.h"

#include <algorithm>
#include <memory>

#include "engine/run/bound_step.h"

namespace nacre::tools {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr auto kGuard = std::byte{0xA5};

// Returns memory of the `bytes` that a kernel asked for, and guard bytes behind them. Its content is arbitrary for the
// kernel.
std::vector<std::byte> guarded(size_t bytes) { return std::vector<std::byte>(bytes + kGuardBytes, kGuard); }

bool intact(const std::vector<std::byte>& memory) {
  return std::all_of(memory.end() - ptrdiff_t(kGuardBytes), memory.end(), [](std::byte b) { return b == kGuard; });
}

}  // namespace

BoundStep::BoundStep(const KernelEntry& entry, Words words, std::span<const Tensor> tensors, const Workers* workers)
    : entry_(entry), words_(words), workers_(workers),
      block_(size_t(call_bytes(uint32_t(tensors.size()))) / sizeof(std::max_align_t) + 1) {
  step_.op = entry.op;
  step_.word_count = uint8_t(words.count);
  step_.operand_count = uint8_t(tensors.size());
  step_.rounding = entry.rounding;
  step_.layer = step_.guard = kNoIndex;
  Tensor* const operands = write_call(block_.data(), entry, step_, nullptr)->operands();
  std::uninitialized_copy(tensors.begin(), tensors.end(), operands);
  operands_ = {operands, int(tensors.size()), 0};
  scratch_bytes_ = size_t(nacre::scratch_bytes(entry, words, operands_));
  const size_t further = workers == nullptr ? 0 : size_t(workers->count - 1);
  scratch_ = guarded(scratch_bytes_ + further * scratch_stride(scratch_bytes_));
  prepared_ = guarded(size_t(nacre::prepared_bytes(entry, words, operands_)));
  call().prepared = prepared_.data();
}

Args BoundStep::args(int rows) {
  return {.call = call(),
          .words = words_,
          .rows = rows,
          .scratch = std::span(scratch_).first(scratch_bytes_),
          .workers = workers_};
}

Code BoundStep::prepare() { return prepare_step(entry_, args(0)); }
Code BoundStep::run(int rows) { return entry_.run(args(rows)); }
uint64_t BoundStep::work() const { return work_of(entry_, words_, operands_); }
bool BoundStep::overran() const { return !intact(scratch_) || !intact(prepared_); }

}  // namespace nacre::tools
