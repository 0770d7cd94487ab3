// The image of a step: all that a device kernel knows about the step, whose records lie in host memory. It is passed
// by value or copied to the device. Compiled for the host, the device and the tests' simulated device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/kernel.h"

namespace nacre::cuda {

// The most words and operands of a step on the device, so that an image fits in a launch's 4 KiB. Other steps stay on
// the host.
inline constexpr int kMostWords = 40, kMostOperands = 24;
// The grid of a launch: threads in a block, and the most blocks.
inline constexpr uint32_t kBlockThreads = 128, kMostBlocks = 2048;

struct StepHead {
  const uint32_t* guard;  // null if the step has no guard
  std::byte* scratch;
  uint32_t* failure;  // takes the Code of a kernel that failed
  uint64_t scratch_bytes;
  StepRecord step;
  int32_t rows;
  int32_t phase;  // 0, or the phase of this launch (ops/parts.h)
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

// Returns the number of operands that the image of an entry has room for.
NACRE_SHARED constexpr int image_operands(const OperandType* types, int count) {
  for (int i = 0; i < count; ++i)
    if ((types[i].role & kVariadic) != 0) return kMostOperands;
  return count;
}

// Returns the blocks of a launch in which each thread takes one element, or in which each block does.
uint32_t blocks_of(uint64_t elements);
uint32_t blocks_of_teams(uint64_t elements);

// Writes all that bind knows about a step to an image with room for `room` operands. `failure` is an address on the
// device.
void write_image(const Args& args, int room, uint32_t* failure, StepHead* image);

// A kernel of the simulated device (tests/fake). It runs one thread. `bytes` is the size of its image.
struct SimulatedKernel {
  void (*run)(const void* image);
  size_t bytes;
};

// Runs the step as the thread that NACRE_THREAD names (ops/independent.h). A is an Adapter.
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
