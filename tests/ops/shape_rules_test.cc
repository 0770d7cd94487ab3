// Tests that shape rules refuse attributes that do not fit a step (form of the scales, block of grouped weights,
// function, clamp, zero point, axis) and scales of a wrong shape, and that no step fits two entries of the reference
// kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "engine/kernels/reference.h"
#include "engine/ops/move.h"
#include "tests/cases.h"

namespace nacre::test {
namespace {

Code refused_by(const KernelEntry& entry, const std::vector<uint32_t>& words,
                const std::vector<std::vector<int32_t>>& dims) {
  std::vector<Array> inputs;
  for (size_t i = 0; i < dims.size(); ++i) inputs.push_back(make_array(entry.operands[i].element, dims[i]));
  return execute(entry, words, inputs).code;
}

TEST(shape_rules, refuse_forms_blocks_and_scales_that_do_not_fit) {
  const std::vector<uint32_t> reciprocal = {0, 0, 0, 0, 0, 1}, form2 = {0, 0, 0, 0, 0, 2};
  const auto block = [](uint32_t value) { return std::vector<uint32_t>{0, 0, 0, 0, 0, 0, value}; };
  EXPECT_EQ(refused_by(reference::kDenseF16, reciprocal, {{2, 8}, {4, 8}, {4}}), Code::kAttribute);  // nothing to scale
  EXPECT_EQ(refused_by(reference::kDenseW8F32, form2, {{2, 8}, {4, 8}, {4}, {4}}), Code::kAttribute);
  EXPECT_EQ(refused_by(reference::kDenseW4F64, reciprocal, {{2, 8}, {4, 8}, {4}, {4}}), Code::kOk);
  EXPECT_EQ(refused_by(reference::kDenseW4F64, block(8), {{2, 8}, {4, 8}, {4}, {4}}), Code::kAttribute);
  EXPECT_EQ(refused_by(reference::kDenseW4F64, {}, {{2, 8}, {4, 8}, {4}, {3}}), Code::kShapeScale);
  const auto grouped = [&](uint32_t size, std::vector<int32_t> scale, std::vector<int32_t> zero) {
    return refused_by(reference::kDenseGroupedBf16, block(size), {{2, 9}, {4, 9}, {4}, scale, zero});
  };
  EXPECT_EQ(grouped(4, {4, 3}, {4, 3}), Code::kOk);
  EXPECT_EQ(grouped(1u << 28, {4, 1}, {4, 1}), Code::kOk);
  EXPECT_EQ(grouped(0, {4, 3}, {4, 3}), Code::kAttribute);
  EXPECT_EQ(grouped((1u << 28) + 1, {4, 1}, {4, 1}), Code::kAttribute);
  EXPECT_EQ(grouped(0xFFFFFFFF, {4, 1}, {4, 1}), Code::kAttribute);
  EXPECT_EQ(grouped(4, {4, 2}, {4, 2}), Code::kShapeScale);
  EXPECT_EQ(grouped(4, {4, 3}, {4, 2}), Code::kShapeScale);
  EXPECT_EQ(grouped(4, {1, 3}, {1, 3}), Code::kShapeScale);
  EXPECT_EQ(grouped(4, {12}, {4, 3}), Code::kShapeScale);
  const auto dynamic = [&](std::vector<int32_t> x, std::vector<int32_t> x_scale) {
    return refused_by(reference::kDenseDynamicF64, {}, {x, {4, 8}, {4}, {4}, x_scale});
  };
  EXPECT_EQ(dynamic({2, 3, 8}, {2, 3}), Code::kOk);
  EXPECT_EQ(dynamic({2, 3, 8}, {1}), Code::kOk);
  EXPECT_EQ(dynamic({8}, {1}), Code::kOk);
  EXPECT_EQ(dynamic({8}, {}), Code::kShapeScale);
  EXPECT_EQ(dynamic({2, 3, 8}, {6}), Code::kShapeScale);
  EXPECT_EQ(dynamic({2, 3, 8}, {3, 2}), Code::kShapeScale);
  EXPECT_EQ(dynamic({2, 8}, {}), Code::kShapeScale);
  EXPECT_EQ(refused_by(reference::kDenseDynamicF32, reciprocal, {{2, 8}, {4, 8}, {4}, {4}, {2}}),
            Code::kAttribute);  // it always divides
  EXPECT_EQ(refused_by(reference::kDenseDynamicF32, {0, 0, 0, 5}, {{2, 8}, {4, 8}, {4}, {4}, {2}}),
            Code::kAttributeZero);
  EXPECT_EQ(refused_by(reference::kDenseDynamicF32, {}, {{1, 65794}, {1, 65794}, {1}, {1}, {1}}), Code::kAccumulator);
  const auto float8 = [&](std::vector<int32_t> x_scale, std::vector<int32_t> y_scale) {
    return refused_by(reference::kConv2dFloat8Quantized, {}, {{2, 3, 3, 1}, {4, 1, 1, 1}, {4}, {1}, x_scale, y_scale});
  };
  EXPECT_EQ(float8({2}, {1}), Code::kOk);
  EXPECT_EQ(float8({1}, {1}), Code::kOk);
  EXPECT_EQ(float8({3}, {1}), Code::kShapeScale);
  EXPECT_EQ(float8({2}, {2}), Code::kShapeScale);
  EXPECT_EQ(float8({2}, {}), Code::kShapeScale);
  EXPECT_EQ(refused_by(reference::kDenseHybrid, {}, {{2, 3, 8}, {4, 8}, {4}, {4}, {2, 3}, {2, 3}}), Code::kShapeScale);
  EXPECT_EQ(refused_by(reference::kDenseHybrid, {}, {{2, 3, 8}, {4, 8}, {4}, {4}, {2}, {2}}), Code::kOk);
  EXPECT_EQ(refused_by(reference::kDenseHybrid, {}, {{2, 3, 8}, {4, 8}, {4}, {4}, {2}, {1}}), Code::kShapeScale);
  EXPECT_EQ(refused_by(reference::kQuantizeE4M3, {0, 2}, {{4}, {1}}), Code::kAttribute);
  EXPECT_EQ(refused_by(reference::kQuantizeE4M3, {1}, {{4, 3}, {4}}), Code::kShapeScale);
  EXPECT_EQ(refused_by(reference::kDynamicQuantizeAbsMaxBf16, {3}, {{4, 3}}), Code::kAttributeAxis);
  const std::vector<uint32_t> nan_clamp = {1, 0x7FC00000, 0};
  for (const KernelEntry* entry : {&reference::kDenseF16, &reference::kDenseBf16, &reference::kDenseF64})
    EXPECT_EQ(refused_by(*entry, nan_clamp, {{2, 8}, {4, 8}, {4}}), Code::kClamp);
  EXPECT_EQ(refused_by(reference::kDenseFloat8Quantized, nan_clamp, {{2, 8}, {4, 8}, {4}, {1}, {1}, {1}}),
            Code::kClamp);
}

TEST(shape_rules, refuse_functions_and_residuals_that_do_not_fit) {
  const auto dense = [](std::vector<uint32_t> words, std::vector<int32_t> residual) {
    return refused_by(reference::kDenseFusedF16, words, {{2, 8}, {4, 8}, {4}, residual});
  };
  const auto alone = [](std::vector<uint32_t> words) {
    std::vector<Array> inputs;
    for (const std::vector<int32_t>& dims : {std::vector<int32_t>{2, 8}, {4, 8}, {4}})
      inputs.push_back(make_array(ElementType::kFloat64, dims));
    inputs.emplace_back();
    return execute(reference::kDenseFusedF64, words, inputs).code;
  };
  constexpr uint32_t kNan = 0x7FC00000, kInfinity = 0x7F800000, kHalf = 0x3F000000;
  EXPECT_EQ(dense({}, {2, 4}), Code::kOk);
  EXPECT_EQ(dense({1, 0, kInfinity}, {2, 4}), Code::kOk);
  EXPECT_EQ(dense({2, kHalf}, {2, 4}), Code::kOk);
  for (const uint32_t kind : {3u, 4u, 5u, 6u, 7u, 8u}) {
    EXPECT_EQ(dense({kind}, {2, 4}), Code::kOk) << kind;
    EXPECT_EQ(alone({kind}), Code::kOk) << kind;
    EXPECT_EQ(dense({kind, 1}, {2, 4}), Code::kAttribute) << kind;
    EXPECT_EQ(dense({kind, 0, 1}, {2, 4}), Code::kAttribute) << kind;
    // The other forms have bounds alone.
    EXPECT_EQ(refused_by(reference::kDenseF16, {kind}, {{2, 8}, {4, 8}, {4}}), Code::kAttribute) << kind;
    EXPECT_EQ(refused_by(reference::kDenseI8Double, {kind}, {{2, 8}, {4, 8}, {4}, {1, 2}}), Code::kAttribute) << kind;
    EXPECT_EQ(refused_by(reference::kAddF32, {kind}, {{4}, {4}}), Code::kAttribute) << kind;
    EXPECT_EQ(refused_by(reference::kClampF32, {kind}, {{4}}), Code::kAttribute) << kind;
  }
  for (const uint32_t kind : {9u, 10u, 0x80000003u, 0xFFFFFFFFu}) EXPECT_EQ(dense({kind}, {2, 4}), Code::kAttribute);
  for (const uint32_t alpha : {kNan, kInfinity, kInfinity | 1u << 31})
    EXPECT_EQ(dense({2, alpha}, {2, 4}), Code::kAttribute);
  EXPECT_EQ(dense({1, kNan, kInfinity}, {2, 4}), Code::kClamp);
  EXPECT_EQ(dense({1, kInfinity, 0}, {2, 4}), Code::kClamp);
  EXPECT_EQ(dense({6}, {4}), Code::kShapeInput);
  EXPECT_EQ(dense({6}, {1, 4}), Code::kShapeInput);
  EXPECT_EQ(dense({6}, {2, 4, 1}), Code::kShapeInput);
  EXPECT_EQ(dense({6}, {4, 2}), Code::kShapeInput);
  EXPECT_EQ(dense({6}, {}), Code::kShapeInput);
  EXPECT_EQ(alone({}), Code::kAttribute);  // nothing is fused: this is the plain form
  EXPECT_EQ(alone({1, 0, kInfinity}), Code::kAttribute);
  EXPECT_EQ(dense({6, 0, 0, 5}, {2, 4}), Code::kAttributeZero);
  EXPECT_EQ(dense({6, 0, 0, 0, 5}, {2, 4}), Code::kAttributeZero);
  EXPECT_EQ(dense({6, 0, 0, 0, 0, 1}, {2, 4}), Code::kAttribute);     // form
  EXPECT_EQ(dense({6, 0, 0, 0, 0, 0, 1}, {2, 4}), Code::kAttribute);  // block
  EXPECT_EQ(refused_by(reference::kConv2dFusedF32, {0, 0, 0, 0, 0, 0, 0, 0, 6},
                       {{2, 3, 3, 1}, {4, 1, 1, 1}, {4}, {2, 3, 3, 4}}),
            Code::kOk);
  EXPECT_EQ(refused_by(reference::kConv2dFusedF32, {0, 0, 0, 0, 0, 0, 0, 0, 6},
                       {{2, 3, 3, 1}, {4, 1, 1, 1}, {4}, {2, 3, 2, 4}}),
            Code::kShapeInput);
  EXPECT_EQ(refused_by(reference::kDepthwiseConv2dFusedBf16, {0, 0, 0, 0, 0, 0, 0, 0, 9},
                       {{1, 3, 3, 2}, {1, 1, 2}, {2}, {1, 3, 3, 2}}),
            Code::kAttribute);
}

TEST(shape_rules, codes_of_16_bits_have_their_range_and_no_zero_point) {
  const auto dense = [](const std::vector<uint32_t>& words) {
    return refused_by(reference::kDenseI16Wide, words, {{2, 8}, {4, 8}, {4}, {1, 2}});
  };
  EXPECT_EQ(dense({1, uint32_t(-32768), 32767}), Code::kOk);
  EXPECT_EQ(dense({1, uint32_t(-32769), 0}), Code::kClamp);
  EXPECT_EQ(dense({1, 0, 32768}), Code::kClamp);
  EXPECT_EQ(dense({0, 0, 0, 1}), Code::kAttributeZero);
  EXPECT_EQ(dense({0, 0, 0, 0, 1}), Code::kAttributeZero);
  EXPECT_EQ(dense({0, 0, 0, 0, 0, 1}), Code::kAttribute);  // form
  const auto add = [](uint32_t shift) {
    return refused_by(reference::kAddI16Double, {0, 0, 0, 0, 0, 0, shift}, {{4}, {4}, {3, 2}});
  };
  EXPECT_EQ(add(15), Code::kOk);
  EXPECT_EQ(add(16), Code::kAttribute);
  const auto pad = [](uint32_t value) {
    std::vector<uint32_t> words(Pad::kMode + 1);
    words[Pad::kValue] = value;
    return refused_by(reference::kPadI16, words, {{4}});
  };
  EXPECT_EQ(pad(uint32_t(-32768)), Code::kOk);
  EXPECT_EQ(pad(32768), Code::kAttribute);
  EXPECT_EQ(refused_by(reference::kLeakyReluI16Double, {}, {{4}, {2, 2}}), Code::kOk);
  EXPECT_EQ(refused_by(reference::kLeakyReluI16Double, {}, {{4}, {1, 2}}), Code::kShapeScale);
  EXPECT_EQ(refused_by(reference::kMeanI16Double, {1}, {{32768}, {1, 2}}), Code::kOk);
  EXPECT_EQ(refused_by(reference::kMeanI16Double, {1}, {{32769}, {1, 2}}), Code::kAccumulator);
  EXPECT_EQ(refused_by(reference::kAveragePoolI16, {0, 0, 0, 0, 0, 0, 0, 0, 255, 128}, {{1, 256, 129, 1}}),
            Code::kAccumulator);
  EXPECT_EQ(refused_by(reference::kRequantizeI16I32Double, {uint32_t(-32768)}, {{4}, {1, 2}}), Code::kOk);
  EXPECT_EQ(refused_by(reference::kRequantizeI16I32Double, {32768}, {{4}, {1, 2}}), Code::kAttributeZero);
  EXPECT_EQ(refused_by(reference::kRequantizeI8I16Double, {256}, {{4}, {1, 2}}), Code::kAttributeZero);
}

// Changes one word or one dim of good cases. The rule refuses them, or they run within their operands.
TEST(shape_rules, cases_with_one_wrong_number_are_refused_or_run) {
  constexpr uint32_t kWords[] = {0, 1, 2, 3, 7, 1u << 28, (1u << 28) + 1, 0x7FFFFFFF, 1u << 31, 0xFFFFFFFF};
  int refused = 0, ran = 0;
  for (const reference::NamedEntry& named : reference::list()) {
    const Op op = named.entry->op;
    if (op != Op::kDense && op != Op::kConv2d && op != Op::kDepthwiseConv2d && op != Op::kQuantize &&
        op != Op::kDequantize && op != Op::kDynamicQuantize)
      continue;
    for (uint64_t seed = 0; seed < 100; ++seed) {
      Random random(seed);
      Case made = random_case(*named.entry, random);
      std::vector<int32_t>& dims = made.inputs[random() % made.inputs.size()].dims;
      if (seed % 2 == 0) made.words[random() % made.words.size()] = kWords[random() % std::size(kWords)];
      else if (dims.empty() || (seed % 3 == 0 && dims.size() < size_t(kMaxRank))) dims.push_back(2);
      else dims[random() % dims.size()] += seed % 5 == 0 ? 1 : int32_t(random() % 3);
      for (Input& input : made.inputs)
        if (input.fill != Input::kUniform && (input.dims.size() != 2 || input.dims[1] != 2))
          input.fill = Input::kUniform;
      const Execution execution = execute(*named.entry, made.words, random_inputs(made, random));
      ASSERT_FALSE(execution.overrun || execution.impure) << named.name << " seed " << seed;
      ++(execution.code == Code::kOk ? ran : refused);
    }
  }
  EXPECT_GT(refused, 3000);
  EXPECT_GT(ran, 1000);
}

// No step may fit two entries: bind takes the first one whose count, roles and types fit, and the tools cut absent
// operands at the end. A fused form without a residual has the operands of the float form. Only the function tells
// them apart: the float form refuses it, and the fused form requires it.
bool apart(const OperandType& a, const OperandType& b) {
  if ((a.role & 3) != (b.role & 3)) return true;
  return a.element != b.element && ((a.role & kOptional) == 0 || (b.role & kOptional) == 0);
}

bool is_fused_form(const KernelEntry& plain, const KernelEntry& entry) {
  return std::ranges::any_of(reference::list(), [&](const reference::NamedEntry& named) {
    return named.entry == &entry && std::string_view(named.name).find("Fused") != std::string_view::npos &&
           input_count(plain) == 3;
  });
}

bool apart(const KernelEntry& a, const KernelEntry& b) {  // a has at most as many inputs
  if (is_fused_form(a, b)) return true;                   // see refuse_functions_and_residuals_that_do_not_fit
  const int inputs_a = input_count(a), inputs_b = input_count(b);
  if (int(a.operand_count) - inputs_a != int(b.operand_count) - inputs_b) return true;
  for (int i = 0; i < inputs_a; ++i)
    if (apart(a.operands[i], b.operands[i])) return true;
  for (int i = inputs_a; i < inputs_b; ++i)
    if ((b.operands[i].role & kOptional) == 0) return true;
  for (int i = 0; i < int(a.operand_count) - inputs_a; ++i)
    if (a.operands[inputs_a + i].element != b.operands[inputs_b + i].element) return true;
  return false;
}

TEST(reference, no_step_fits_two_entries) {
  for (const reference::NamedEntry& a : reference::list())
    for (const reference::NamedEntry& b : reference::list()) {
      if (a.entry == b.entry || a.entry->op != b.entry->op || a.entry->rounding != b.entry->rounding) continue;
      if (input_count(*a.entry) > input_count(*b.entry)) continue;
      EXPECT_TRUE(apart(*a.entry, *b.entry)) << a.name << " and " << b.name;
    }
}

}  // namespace
}  // namespace nacre::test
