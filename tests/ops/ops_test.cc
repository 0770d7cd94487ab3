// Tests facts about single ops that the random cases of the op table do not cover.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/kernels/reference.h"
#include "engine/numeric/fixed_point_functions.h"
#include "tests/cases.h"
#include "tests/sanitized.h"
#include "tests/short_names.h"
#include "tools/graph/graph.h"

namespace nacre::test {
namespace {

Code refusal(const KernelEntry& entry, const std::vector<uint32_t>& words,
             const std::vector<std::vector<int32_t>>& dims) {
  std::vector<Array> inputs;
  for (size_t i = 0; i < dims.size(); ++i)
    inputs.push_back(make_array(entry.operands[variadic(entry) ? 0 : i].element, dims[i]));
  return execute(entry, words, inputs).code;
}

uint32_t minus(int v) { return uint32_t(-v); }

TEST(shape_rules, refuse_windows_that_cannot_be) {
  const auto conv = [](std::vector<uint32_t> words) {
    return refusal(reference::kConv2dF32, words, {{1, 5, 5, 4}, {6, 3, 3, 2}, {6}});
  };
  const auto with = [](int word, uint32_t value) {
    std::vector<uint32_t> words(14);
    words[13] = 1;
    words[size_t(word)] = value;
    return words;
  };
  EXPECT_EQ(conv(with(0, 0)), Code::kOk);
  EXPECT_EQ(conv(with(0, minus(1))), Code::kStride);  // stride 0
  EXPECT_EQ(conv(with(3, 1 << 14)), Code::kStride);   // dilation over the limit
  EXPECT_EQ(conv(with(4, 3)), Code::kPadding);        // as large as the kernel
  EXPECT_EQ(conv(with(6, minus(1))), Code::kPadding);
  EXPECT_EQ(conv(with(2, 2)), Code::kWindow);          // span 7 over 5
  EXPECT_EQ(conv(with(13, 0)), Code::kShapeWeights);   // groups 1, weights of 2 groups
  EXPECT_EQ(conv(with(13, 2)), Code::kGroups);         // 3 groups of 4 channels
  EXPECT_EQ(conv(with(13, minus(1))), Code::kGroups);  // 0 groups
  EXPECT_EQ(conv(with(8, 2)), Code::kAttribute);       // kind of clamp
  EXPECT_EQ(conv(with(11, 5)), Code::kAttributeZero);  // a zero point of float32
  std::vector<uint32_t> clamp = with(8, 1);
  clamp[9] = 0x7FC00000;  // NaN
  EXPECT_EQ(conv(clamp), Code::kClamp);
  clamp[9] = 0x3F800000, clamp[10] = 0x3F000000;  // 1 over 0.5
  EXPECT_EQ(conv(clamp), Code::kClamp);
  EXPECT_EQ(refusal(reference::kConv2dF32, with(0, 0), {{1, 5, 5, 4}, {6, 3, 3, 2}, {5}}), Code::kShapeBias);
  EXPECT_EQ(refusal(reference::kConv2dF32, with(0, 0), {{5, 5, 4}, {6, 3, 3, 2}, {6}}), Code::kShapeRank);
  EXPECT_EQ(refusal(reference::kConv2dI8Double, with(0, 0), {{1, 5, 5, 4}, {6, 3, 3, 2}, {6}, {4, 2}}),
            Code::kShapeScale);
  EXPECT_EQ(refusal(reference::kDepthwiseConv2dF32, with(13, 0), {{1, 5, 5, 4}, {3, 3, 6}, {6}}), Code::kShapeWeights);
  EXPECT_EQ(refusal(reference::kDepthwiseConv2dF32, with(13, 1), {{1, 5, 5, 4}, {3, 3, 8}, {8}}), Code::kGroups);
}

TEST(shape_rules, refuse_pools_with_empty_windows) {
  // With kernel 2 and dilation 3 over 2 columns with 2 pads on the left, the taps are at -2 and 1, then at -1 and 2.
  std::vector<uint32_t> words(14);
  words[3] = 2, words[5] = 2, words[7] = 1, words[9] = 1;
  EXPECT_EQ(refusal(reference::kAveragePoolF32, words, {{1, 1, 2, 1}}), Code::kWindow);
  EXPECT_EQ(refusal(reference::kAveragePoolF32, words, {{1, 1, 3, 1}}), Code::kOk);
  words = std::vector<uint32_t>(14);
  words[9] = 1, words[5] = 1, words[10] = 1;
  EXPECT_EQ(refusal(reference::kAveragePoolI8, words, {{1, 1, 3, 1}}),
            Code::kAttribute);  // padding has no code
  words[8] = words[9] = 8191, words[5] = 0;
  EXPECT_EQ(refusal(reference::kAveragePoolI8, words, {{1, 8192, 8192, 1}}), Code::kAccumulator);
}

TEST(shape_rules, refuse_shapes_and_attributes_of_the_rest) {
  const std::vector<uint32_t> sum = {0, 0, 0, 0, 0, 0, 23};
  EXPECT_EQ(refusal(reference::kAddI8Double, sum, {{4}, {4}, {3, 2}}), Code::kAttribute);
  EXPECT_EQ(refusal(reference::kAddI8Double, {0, 0, 0, 128}, {{4}, {4}, {3, 2}}), Code::kAttributeZero);
  EXPECT_EQ(refusal(reference::kAddI8Double, {}, {{4}, {4}, {1, 2}}), Code::kShapeScale);
  EXPECT_EQ(refusal(reference::kMulF32, {}, {{4, 3}, {2, 3}}), Code::kShapeInput);
  EXPECT_EQ(refusal(reference::kMulF32, {}, {{1 << 15, 1}, {1, 1 << 16}}), Code::kOverflow);
  EXPECT_EQ(refusal(reference::kLeakyReluF32, {0x7F800000}, {{4}}), Code::kAttribute);
  EXPECT_EQ(refusal(reference::kLookupI8, {}, {{4}, {255}}), Code::kShapeWeights);
  EXPECT_EQ(refusal(reference::kSoftmaxF32, {2, 0x3F800000}, {{4, 4}}), Code::kAttributeAxis);
  EXPECT_EQ(refusal(reference::kSoftmaxF32, {0, 0}, {{}}), Code::kAttributeAxis);
  EXPECT_EQ(refusal(reference::kSoftmaxI8Double, {0, 0, 1 << 30, 20, minus(5)}, {{4, 4}}), Code::kAttributeAxis);
  EXPECT_EQ(refusal(reference::kSoftmaxI8Double, {1, 0, 1 << 30, 20, 1}, {{4, 4}}), Code::kAttribute);
  EXPECT_EQ(refusal(reference::kSoftmaxI8Double, {1, 0, 1 << 30, 32, 0}, {{4, 4}}), Code::kAttribute);
  EXPECT_EQ(refusal(reference::kSoftmaxI8Double, {0, 0, 1 << 30, 20, 0}, {{4096}}), Code::kAccumulator);
  EXPECT_EQ(refusal(reference::kBatchNormF32, {0xBF800000}, {{4, 3}, {3}, {3}, {3}, {3}}), Code::kAttribute);
  EXPECT_EQ(refusal(reference::kBatchNormF32, {0}, {{4, 3}, {3}, {3}, {4}, {3}}), Code::kShapeWeights);
  EXPECT_EQ(refusal(reference::kMeanF32, {4}, {{4, 3}}), Code::kAttributeAxis);
  EXPECT_EQ(refusal(reference::kReshapeF32, {1, 11}, {{4, 3}}), Code::kElements);
  EXPECT_EQ(refusal(reference::kReshapeF32, {2, minus(3), minus(4)}, {{4, 3}}), Code::kAttribute);
  EXPECT_EQ(refusal(reference::kReshapeF32, {9, 12}, {{4, 3}}), Code::kShapeRank);
  EXPECT_EQ(refusal(reference::kTransposeF32, {0, 0}, {{4, 3}}), Code::kPermutation);
  EXPECT_EQ(refusal(reference::kTransposeF32, {0, 2}, {{4, 3}}), Code::kPermutation);
  EXPECT_EQ(refusal(reference::kConcatF32, {1}, {{4, 3}, {3, 3}}), Code::kShapeInput);
  EXPECT_EQ(refusal(reference::kConcatF32, {2}, {{4, 3}, {4, 3}}), Code::kAttributeAxis);
  EXPECT_EQ(refusal(reference::kConcatF32, {0}, {}), Code::kOperandCount);
  EXPECT_EQ(refusal(reference::kPadF32, {minus(1)}, {{4}}), Code::kPadding);
  EXPECT_EQ(refusal(reference::kPadF32, {4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, {{4}}), Code::kPadding);
  EXPECT_EQ(refusal(reference::kPadF32, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}, {{4}}),
            Code::kAttribute);
  EXPECT_EQ(refusal(reference::kPadI8, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 128}, {{4}}), Code::kAttribute);
  EXPECT_EQ(refusal(reference::kSliceF32, {1, 0, 0, 0, 0, 0, 0, 0, 4}, {{4}}), Code::kBounds);
  EXPECT_EQ(refusal(reference::kSliceF32, {1, 0, 0, 0, 0, 0, 0, 0, 3}, {{4}}), Code::kOk);
  EXPECT_EQ(refusal(reference::kSliceF32, {3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0x7FFFFFFE}, {{4}}),
            Code::kBounds);
  EXPECT_EQ(refusal(reference::kSliceF32, {3, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, minus(2)}, {{4}}),
            Code::kBounds);
  EXPECT_EQ(refusal(reference::kSliceF32, {0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, minus(1)}, {{4}}),
            Code::kStride);  // step 0
  EXPECT_EQ(refusal(reference::kQuantizeI8HalfAway, {1}, {{4, 3}, {4}, {4}}), Code::kShapeScale);
  EXPECT_EQ(refusal(reference::kQuantizeI8HalfAway, {2}, {{4, 3}, {4}, {4}}), Code::kAttributeAxis);
  EXPECT_EQ(refusal(reference::kQuantizeI8HalfAway, {0}, {{4, 3}, {4}, {1}}), Code::kShapeScale);
  EXPECT_EQ(refusal(reference::kDynamicQuantizeI8, {3}, {{4, 3}}), Code::kAttributeAxis);
}

// No attribute word is trusted: if a rule accepts a step, the kernel must not access bytes outside its operands.
// Under ASan and UBSan this covers every entry.
TEST(shape_rules, random_words_are_refused_or_run) {
  std::mt19937_64 random(7);
  const auto pick = [&](int n) { return int(random() % uint64_t(n)); };
  int accepted = 0;
  for (const reference::NamedEntry& named : reference::list())
    for (int trial = 0; trial < generated(200); ++trial) {
      std::vector<uint32_t> words(size_t(pick(19)));
      constexpr uint32_t kWords[] = {
          0, 1, 2, 3, 4, 127, 255, uint32_t(-1), uint32_t(-2), uint32_t(-128), 1u << 31, 1u << 30, 0x3F800000};
      for (uint32_t& word : words) word = pick(3) > 0 ? uint32_t(pick(3)) : kWords[pick(13)];
      std::vector<Array> inputs;
      for (int i = 0; i < (variadic(*named.entry) ? 1 + pick(3) : input_count(*named.entry)); ++i) {
        const OperandType type = named.entry->operands[variadic(*named.entry) ? 0 : i];
        std::vector<int32_t> dims(size_t(pick(4) == 0 ? 4 : pick(7)));
        for (int32_t& dim : dims) dim = 1 + pick(3);
        if ((type.role & kOptional) != 0 && pick(2) == 0) inputs.emplace_back();
        else inputs.push_back(make_array(type.element, dims));
        for (uint8_t& byte : inputs.back().bytes) byte = uint8_t(random());
      }
      const Execution run = execute(*named.entry, words, inputs);
      accepted += run.code == Code::kOk;
      ASSERT_FALSE(run.overrun || run.impure) << named.name << " trial " << trial;
    }
  EXPECT_GT(accepted, generated(3000));
}

TEST(softmax, int8_is_within_a_code_and_a_half_of_the_real_one) {
  // The code is rounded by half a code. Each term of the sum is rounded to 2^-20, exp is accurate to 2.6e-7, and
  // terms below exp(-31) are dropped: together less than a code.
  std::mt19937 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    Array x = make_array(kI8, {1, 1 + int32_t(random() % 30)});
    for (uint8_t& byte : x.bytes) byte = uint8_t(random());
    const double scale = std::exp2(-double(random() % 100) / 20 - 1);
    const int shift = 26 + int(std::floor(std::log2(scale))) + 1;
    const auto multiplier = uint32_t(std::ldexp(scale, 31 + 26 - shift));
    const auto diff_min = int(std::floor(std::ldexp(31.0, 26 - shift)));
    const Execution run =
        execute(reference::kSoftmaxI8Double, {1, 0, multiplier, uint32_t(shift), minus(diff_min)}, {x});
    ASSERT_EQ(run.code, Code::kOk);
    double sum = 0;
    for (int64_t i = 0; i < x.elements(); ++i) sum += std::exp(scale * (x.real(i) - 127));
    for (int64_t i = 0; i < x.elements(); ++i) {
      const double y = std::exp(scale * (x.real(i) - 127)) / sum;
      EXPECT_NEAR(run.outputs[0].real(i), std::min(127.0, 256 * y - 128), 1.5) << "trial " << trial;
    }
  }
}

TEST(fixed_point_functions, follow_the_real_ones) {
  // Taylor's remainder of exp after t^4 / 24 is (1/8)^5 / 120 = 2.55e-7 at most; all roundings together are below
  // 2^-27. The logistic is 1 / (1 + e) of an exponential e, with a slope of at most 1. tanh is (1 - e) / (1 + e),
  // with a slope of at most 2.
  constexpr double kTaylor = 2.55e-7 + 0x1p-27;
  for (int32_t x = -(15 << 27); x < 15 << 27; x += 1234567) {
    const double real = std::ldexp(double(x), -27);
    EXPECT_NEAR(std::ldexp(double(logistic<4>(x)), -31), 1 / (1 + std::exp(-real)), kTaylor) << real;
    EXPECT_NEAR(std::ldexp(double(fixed_tanh<4>(x)), -31), std::tanh(real), 2 * kTaylor) << real;
    if (x <= 0) {
      EXPECT_NEAR(std::ldexp(double(exp_of_negative<4>(x)), -31), std::exp(real), kTaylor) << real;
    }
  }
}

TEST(cast, saturates_reals_and_wraps_integers) {
  const Array x = array_of<double>(kF32, {8}, {1.9, -1.9, 300, -300, NAN, INFINITY, -INFINITY, 127.99});
  const Execution run = execute(reference::kCastF32I8, {}, {x});
  const int expected[] = {1, -1, 127, -128, 0, 127, -128, 127};
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(run.outputs[0].integer(i), expected[i]) << i;
  const Execution wide = execute(reference::kCastF32I64, {}, {array_of<double>(kF32, {2}, {0x1p63, -0x1p63})});
  EXPECT_EQ(wide.outputs[0].integer(0), INT64_MAX);
  EXPECT_EQ(wide.outputs[0].integer(1), INT64_MIN);
  EXPECT_EQ(execute(reference::kCastI32I8, {}, {array_of<int>(kI32, {1}, {200})}).outputs[0].integer(0), -56);
}

TEST(reference, every_entry_is_named_once_and_has_a_rule) {
  std::vector<std::string> names;
  for (const reference::NamedEntry& named : reference::list()) {
    names.push_back(named.name);
    ASSERT_NE(find_rule(named.entry->op), nullptr) << named.name;
    KernelEntry by_rule = *named.entry;
    by_rule.shapes = find_rule(named.entry->op)->shapes;
    if (by_rule.shapes != named.entry->shapes) {  // the rule of a matmul chooses the form by the operands
      EXPECT_TRUE(tools::is_matmul(named.entry->op)) << named.name;
      for (uint64_t seed = 0; seed < 20; ++seed) {
        Random random(seed);
        const Case made = random_case(*named.entry, random);
        const std::vector<Array> inputs = random_inputs(made, random);
        const Execution a = execute(*named.entry, made.words, inputs), b = execute(by_rule, made.words, inputs);
        ASSERT_EQ(a.code, Code::kOk) << named.name << " seed " << seed;
        ASSERT_EQ(b.code, Code::kOk) << named.name << " seed " << seed;
        EXPECT_EQ(a.outputs[0].dims, b.outputs[0].dims) << named.name << " seed " << seed;
      }
    }
    EXPECT_EQ(find_rule(find_rule(named.entry->op)->name)->op, named.entry->op) << named.name;
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_EQ(reference::kernels().entries.size(), names.size());
}

}  // namespace
}  // namespace nacre::test
