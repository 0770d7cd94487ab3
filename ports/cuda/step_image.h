// Image of a step: all that a kernel of the device knows of it. It is one of the launch's parameters, by value, because
// the model's records are in the host's memory. Compiled for the host, the device and the tests' simulated device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/kernel.h"

namespace nacre::cuda {

// Most words and operands of a step on the device: an image then fits a launch's 4 KiB. Other steps stay on the host.
inline constexpr int kMostWords = 40, kMostOperands = 24;
// The grid of a launch: blocks of so many threads.
inline constexpr uint32_t kBlockThreads = 128, kMostBlocks = 2048;

struct StepHead {
  const uint32_t* guard;  // null: none
  std::byte* scratch;
  uint32_t* failure;  // takes the Code of a kernel that failed
  uint64_t scratch_bytes;
  StepRecord step;
  int32_t rows;
  int32_t phase;  // 0, or that of this launch (ops/parts.h)
  uint32_t blocks;
  uint32_t words[kMostWords];
};

struct StepOperand {
  void* data;
  TensorRecord record;  // element kNone: an optional operand that is absent
};

template <int kCount>
struct StepImage {
  StepHead head;
  StepOperand operand[size_t(kCount)];
};
static_assert(sizeof(StepImage<kMostOperands>) <= 4096);

// Operands that the image of an entry has room for.
NACRE_SHARED constexpr int image_operands(const OperandType* types, int count) {
  for (int i = 0; i < count; ++i)
    if ((types[i].role & kVariadic) != 0) return kMostOperands;
  return count;
}

// Blocks of a launch whose threads take so many elements, and of one whose blocks do.
uint32_t blocks_of(uint64_t elements);
uint32_t blocks_of_teams(uint64_t elements);

// Writes the image of a step with room for so many operands: what bind knows. `failure` as the device sees it.
void write_image(const Args& args, int room, uint32_t* failure, StepHead* image);

// A kernel of the simulated device (tests/fake): runs one thread; `bytes` of its image.
struct SimulatedKernel {
  void (*run)(const void* image);
  size_t bytes;
};

// Runs the step as the thread that NACRE_THREAD names (ops/independent.h). A: an Adapter.
template <class A, int kCount>
NACRE_SHARED inline void run_image(const StepImage<kCount>& image) {
  const StepHead& head = image.head;
  if (head.guard != nullptr && *head.guard == 0) return;
  struct {
    Call call;
    Tensor operands[size_t(kCount)];
  } bound = {{nullptr, &head.step, nullptr}, {}};
  static_assert(offsetof(decltype(bound), operands) == sizeof(Call));
  for (int i = 0; i < kCount && i < head.step.operand_count; ++i) {
    const StepOperand& operand = image.operand[i];
    bound.operands[i] = {operand.data, operand.record.element == ElementType::kNone ? nullptr : &operand.record};
  }
  const Words words = {head.words, head.step.word_count};
  const Args args = {bound.call, words,   head.rows, {head.scratch, size_t(head.scratch_bytes)},
                     nullptr,    nullptr, head.phase};
  const Code code = A::run(args);
  if (code != Code::kOk) *head.failure = uint32_t(code);
}

}  // namespace nacre::cuda
