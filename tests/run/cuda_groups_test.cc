// Tests that cuBLASLt makes the groups of a convolution as one batched product.
#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "engine/ops/conv.h"
#include "tests/cases_random.h"
#include "tests/run/on_device.h"

namespace nacre::test {
namespace {

// A step of a grouped convolution on random numbers, with its result and whether one product made it. `made` has the
// dims of the output, or of a step's sums.
struct GroupedStep {
  Op op;
  ElementType type, sums;
  std::vector<uint32_t> words;
  std::vector<int32_t> left, right, made;

  Draft draft() const {
    Draft d;
    const bool updates = op == Op::kConv2dGradientW;
    const uint32_t dw = updates ? d.global(Region::kStep, sums, made) : kAbsent;
    uint64_t at = 0;
    const auto add = [&](const std::vector<int32_t>& dims, uint16_t flags) {
      const uint64_t offset = std::exchange(at, at + make_array(type, dims).bytes.size());
      return d.arena(type, dims, 0, 0, offset, kNoIndex, flags);
    };
    std::vector<uint32_t> in = {add(left, kInput), add(right, kInput)}, out;
    if (op == Op::kConv2d) in.push_back(kAbsent);
    if (updates) in.push_back(update(dw));
    else out.push_back(add(made, kOutput));
    d.step(op, words, in, out);
    d.program(updates ? Entry::kGradients : Entry::kInfer, "", {at});
    return d;
  }
  void fill(const Program& program) const {
    Random random(7);
    for (uint32_t i = 0; i < 2; ++i) {
      Array numbers = make_array(type, i == 0 ? left : right);
      for (int64_t e = 0; e < numbers.elements(); ++e) numbers.set(e, between(random, -2, 2));
      std::memcpy(program.input(i).data(), numbers.bytes.data(), numbers.bytes.size());
    }
  }
  template <class Bound>
  std::vector<std::byte> run(Bound& bound) const {
    EXPECT_TRUE(bound.bind().ok());
    fill(bound.program);
    EXPECT_TRUE(bound.program.run().ok());
    if (op != Op::kConv2dGradientW) return outputs_of(bound.program);
    const std::span<const std::byte> sums_at = bound.blocks->memory.block[kStepSums];
    return {sums_at.begin(), sums_at.end()};
  }
};

// For windows of one pixel the operands are multiplied in place.
TEST(cuda_products, groups_of_a_convolution_are_a_batch) {
  constexpr int kChannels = 32, kSize = 5;
  for (const ElementType type : {kF32, ElementType::kFloat64, kBf16})
    for (const int groups : {2, 4})
      for (const int kernel : {1, 3}) {
        std::vector<uint32_t> words(19, 0), x_words;
        for (size_t pad = 4; pad < 8; ++pad) words[pad] = uint32_t(kernel / 2);
        words[Conv2d::kGroups] = uint32_t(groups - 1);
        x_words = words;
        words.resize(16);
        x_words[16] = x_words[17] = kSize, x_words[18] = kChannels;
        const std::vector<int32_t> x = {2, kSize, kSize, kChannels},
                                   w = {kChannels, kernel, kernel, kChannels / groups};
        const ElementType sums = type == kBf16 ? kF32 : type;
        for (const GroupedStep& step : {GroupedStep{Op::kConv2d, type, sums, words, x, w, x},
                                        GroupedStep{Op::kConv2dGradientX, type, sums, x_words, x, w, x},
                                        GroupedStep{Op::kConv2dGradientW, type, sums, words, x, x, w}}) {
          const Draft draft = step.draft();
          Placed host(with_places(draft, {0}));
          OnDevice gpu(with_places(draft, {1}), {}, true);
          EXPECT_EQ(step.run(gpu), step.run(host))
              << int(step.op) << " " << int(type) << " " << groups << " " << kernel;
          EXPECT_EQ(gpu.device.counts().products, 1u) << int(step.op) << " " << groups << " " << kernel;
        }
      }
}

}  // namespace
}  // namespace nacre::test
