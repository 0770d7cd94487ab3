#include "tools/graph/bound_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace nacre::tools {
namespace {

// An op whose y is words[0], which prepare() stored. Its run writes words[1] bytes of scratch.
constexpr size_t kScratchBytes = 32;
size_t scratch_bytes(const Words&, const Operands&) { return kScratchBytes; }
size_t prepared_bytes(const Words& words, const Operands&) { return sizeof words[0]; }
Code prepare(const Args& args) {
  const uint32_t kept = args.words[0];
  std::memcpy(args.call.prepared, &kept, sizeof kept);
  return Code::kOk;
}
Code run(const Args& args) {
  if (args.scratch.size() != kScratchBytes || args.call.step->word_count != 2) return Code::kAttribute;
  std::fill_n(args.scratch.data(), args.words[1], std::byte{1});
  std::memcpy(args.call.operands()[0].data, args.call.prepared, sizeof(uint32_t));
  return Code::kOk;
}
uint64_t work(const Words& words, const Operands& operands) { return words[1] * uint64_t(operands.count); }

constexpr OperandType kOperands[] = {{ElementType::kUint32, uint8_t(Role::kOut)}};
constexpr Preparation kPreparation = {prepared_bytes, prepare, nullptr};
const KernelEntry kEntry = {.op = Op::kGelu,
                            .rounding = Rounding::kNone,
                            .in_place = 0,
                            .operand_count = 1,
                            .operands = kOperands,
                            .shapes = nullptr,
                            .run = run,
                            .accepts = nullptr,
                            .scratch_bytes = scratch_bytes,
                            .preparation = &kPreparation,
                            .work = work};

TEST(bound_step, gives_a_kernel_what_it_asked_for) {
  uint32_t y = 0;
  const TensorRecord record = {};
  const Tensor operand = {&y, &record};
  const uint32_t words[] = {77, kScratchBytes};
  BoundStep step(kEntry, {words, 2}, {&operand, 1});
  EXPECT_EQ(step.work(), kScratchBytes);
  ASSERT_EQ(step.prepare(), Code::kOk);
  ASSERT_EQ(step.run(), Code::kOk);
  EXPECT_EQ(y, 77u);
  EXPECT_FALSE(step.overran());
}

TEST(bound_step, tells_that_a_kernel_wrote_behind_its_scratch) {
  uint32_t y = 0;
  const TensorRecord record = {};
  const Tensor operand = {&y, &record};
  const uint32_t words[] = {77, kScratchBytes + 1};
  BoundStep step(kEntry, {words, 2}, {&operand, 1});
  ASSERT_EQ(step.prepare(), Code::kOk);
  ASSERT_EQ(step.run(), Code::kOk);
  EXPECT_TRUE(step.overran());
}

}  // namespace
}  // namespace nacre::tools
