// Tests gradients of convolutions of float8 codes by cuBLASLt, of any size, and in groups if the library's rules
// allow.
#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "tests/random_conv.h"
#include "tests/run/on_device.h"

namespace nacre::test {
namespace {

constexpr ElementType kE4M3 = ElementType::kFloat8E4M3, kE5M2 = ElementType::kFloat8E5M2;

// A step with random codes and two scales. It adds to dw, or makes dx of `type`.
struct CodesStep {
  Op op;
  ElementType type;
  std::vector<uint32_t> words;
  std::vector<int32_t> left, right, made;

  bool updates() const { return op == Op::kConv2dFloat8GradientW; }
  Draft draft() const {
    Draft d;
    const uint32_t dw = updates() ? d.global(Region::kStep, type, made) : kAbsent;
    uint64_t at = 0;
    const auto add = [&](ElementType element, const std::vector<int32_t>& dims, uint16_t flags) {
      const uint64_t offset = std::exchange(at, at + (make_array(element, dims).bytes.size() + 15) / 16 * 16);
      return d.arena(element, dims, 0, 0, offset, kNoIndex, flags);
    };
    std::vector<uint32_t> in = {add(kE5M2, left, kInput), add(kE4M3, right, kInput), add(kF32, {1}, kInput),
                                add(kF32, {1}, kInput)},
                          out;
    if (updates()) in.push_back(update(dw));
    else out.push_back(add(type, made, kOutput));
    d.step(op, words, in, out);
    d.program(updates() ? Entry::kGradients : Entry::kInfer, "", {at});
    return d;
  }
  void fill(const Program& program) const {
    Random random(7);
    for (uint32_t i = 0; i < 4; ++i) {
      Array numbers = i > 1 ? make_array(kF32, {1}) : i == 0 ? make_array(kE5M2, left) : make_array(kE4M3, right);
      for (int64_t e = 0; e < numbers.elements(); ++e)
        numbers.set(e, i > 1 ? between(random, 0.01, 1) : between(random, -2, 2));
      std::memcpy(program.input(i).data(), numbers.bytes.data(), numbers.bytes.size());
    }
  }
  template <class Bound>
  std::vector<std::byte> run(Bound& bound) const {
    EXPECT_TRUE(bound.bind().ok());
    for (int times = 0; times < 2; ++times) {
      fill(bound.program);
      EXPECT_TRUE(bound.program.run().ok());
    }
    if (!updates()) return outputs_of(bound.program);
    const std::span<const std::byte> sums_at = bound.blocks->memory.block[kStepSums];
    return {sums_at.begin(), sums_at.end()};
  }

  // Expects the host's bytes. Returns how many library products made them in two runs.
  uint64_t compare() const {
    const Draft made_of = draft();
    Placed host(with_places(made_of, {0}));
    OnDevice gpu(with_places(made_of, {1}), {}, true);
    EXPECT_EQ(run(gpu), run(host));
    return gpu.device.counts().products;
  }
};

TEST(cuda_float8, gradients_of_convolutions_of_any_size_give_the_hosts_bytes) {
  Random random(11);
  for (int trial = 0; trial < 60; ++trial) {
    const RandomConv conv(random, 20);
    SCOPED_TRACE(trial);
    for (const ElementType type : {kF32, kF16, kBf16}) {
      const uint64_t products =
          CodesStep{Op::kConv2dGradientX, type, conv.words_x, conv.y_dims, conv.w_dims, conv.x_dims}.compare();
      if (conv.groups == 1) {
        EXPECT_EQ(products, 2u);
      }
    }
    const uint64_t products =
        CodesStep{Op::kConv2dFloat8GradientW, kF32, conv.words, conv.y_dims, conv.x_dims, conv.w_dims}.compare();
    if (conv.groups == 1) {
      EXPECT_EQ(products, 2u);
    }
  }
}

// Groups are one batched product if their channels, and for dw the pixels, are multiples of 16.
TEST(cuda_float8, groups_of_a_convolution_are_a_batch) {
  for (const int size : {4, 5})
    for (const int groups : {2, 4})
      for (const int kernel : {1, 3}) {
        const int channels = 16 * groups;
        std::vector<uint32_t> words(16, 0);
        for (size_t pad = 4; pad < 8; ++pad) words[pad] = uint32_t(kernel / 2);
        words[13] = uint32_t(groups - 1);
        std::vector<uint32_t> words_x = words;
        for (const int n : {size, size, channels}) words_x.push_back(uint32_t(n));
        const std::vector<int32_t> x = {2, size, size, channels}, w = {channels, kernel, kernel, 16};
        SCOPED_TRACE(testing::Message() << size << " " << groups << " " << kernel);
        EXPECT_EQ((CodesStep{Op::kConv2dGradientX, kBf16, words_x, x, w, x}.compare()), 2u);
        EXPECT_EQ((CodesStep{Op::kConv2dFloat8GradientW, kF32, words, x, x, w}.compare()), size == 4 ? 2u : 0u);
      }
}

}  // namespace
}  // namespace nacre::test
