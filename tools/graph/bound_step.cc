#include "tools/graph/bound_step.h"

#include <algorithm>
#include <memory>
#include <new>

namespace nacre::tools {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr auto kGuard = std::byte{0xA5};

// `bytes` that a kernel asked for: nothing is promised about what is in them.
std::vector<std::byte> guarded(size_t bytes) { return std::vector<std::byte>(bytes + kGuardBytes, kGuard); }

size_t bytes_or_zero(size_t (*bytes)(const Words&, const Operands&), const Words& words, const Operands& operands) {
  return bytes == nullptr ? 0 : bytes(words, operands);
}

bool intact(const std::vector<std::byte>& memory) {
  return std::all_of(memory.end() - ptrdiff_t(kGuardBytes), memory.end(), [](std::byte b) { return b == kGuard; });
}

}  // namespace

BoundStep::BoundStep(const KernelEntry& entry, Words words, std::span<const Tensor> tensors)
    : entry_(entry), words_(words), block_((sizeof(Call) + tensors.size_bytes()) / sizeof(std::max_align_t) + 1) {
  step_.op = entry.op;
  step_.word_count = uint8_t(words.count);
  step_.operand_count = uint8_t(tensors.size());
  step_.rounding = entry.rounding;
  Tensor* const operands = (new (block_.data()) Call{entry.run, &step_, nullptr})->operands();
  std::uninitialized_copy(tensors.begin(), tensors.end(), operands);
  operands_ = {operands, int(tensors.size()), 0};
  scratch_ = guarded(bytes_or_zero(entry.scratch_bytes, words, operands_));
  prepared_ = guarded(bytes_or_zero(entry.prepared_bytes, words, operands_));
  call().prepared = prepared_.data();
}

Args BoundStep::args() {
  return {.call = call(),
          .words = words_,
          .rows = 0,
          .scratch = std::span(scratch_).first(scratch_.size() - kGuardBytes),
          .workers = nullptr};
}

Code BoundStep::prepare() { return entry_.prepare == nullptr ? Code::kOk : entry_.prepare(args()); }
Code BoundStep::run() { return entry_.run(args()); }
uint64_t BoundStep::work() const { return entry_.work == nullptr ? 0 : entry_.work(words_, operands_); }
bool BoundStep::overran() const { return !intact(scratch_) || !intact(prepared_); }

}  // namespace nacre::tools
