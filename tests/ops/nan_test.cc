// Puts one NaN among finite numbers, in every float type, and tests which elements of y become NaN (NUMERICS.md eq.
// 49). The rest of y must be equal to the bit to its value without the NaN.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/kernels/reference.h"
#include "engine/kernels/training.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/unary.h"
#include "tests/one_step.h"
#include "tests/short_names.h"

namespace nacre::test {
namespace {

constexpr ElementType kFloats[] = {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBfloat16,
                                   ElementType::kFloat64};

uint32_t bits(float v) { return std::bit_cast<uint32_t>(v); }

// Returns the kernel of the op whose operands all have this type.
const KernelEntry& kernel(Op op, ElementType type) {
  for (const KernelSet* set : {&reference::kernels(), &reference::training_kernels()})
    for (const KernelEntry* entry : set->entries) {
      bool fits = entry->op == op;
      for (int i = 0; fits && i < entry->operand_count; ++i) fits = entry->operands[i].element == type;
      if (fits) return *entry;
    }
  throw std::runtime_error("no kernel of op " + std::to_string(int(op)) + " for " + type_name(type));
}

Array one_output(Op op, const std::vector<uint32_t>& words, const std::vector<Array>& inputs) {
  const Execution execution = execute(kernel(op, inputs[0].element), words, inputs);
  EXPECT_EQ(execution.code, Code::kOk) << int(op) << inputs[0].text();
  return execution.outputs.at(0);
}

// Returns multiples of 1/8 in [-4, 4). They are exact in every type, and neighbours differ.
Array numbers(ElementType type, const std::vector<int32_t>& dims) {
  Array x = make_array(type, dims);
  for (int64_t i = 0; i < x.elements(); ++i) x.set(i, double(i * 29 % 64 - 32) / 8);
  return x;
}

bool is_nan(const Array& x, int64_t i) { return std::isnan(x.real(i)); }

struct NanRow {
  Op op;
  std::vector<uint32_t> words;
  std::vector<int32_t> dims;
  int inputs;                                     // of the same dims; the NaN is in the last
  std::function<bool(int64_t, int64_t)> reaches;  // whether element i of x reaches element o of y
};

bool itself(int64_t i, int64_t o) { return i == o; }
// Returns whether the window of output o reads i, for x [2, 4, 5, 3], kernel 2 x 3, stride 2 x 1: y [2, 2, 3, 3].
bool in_window(int64_t i, int64_t o) {
  const int64_t c = i % 3, v = i / 3 % 5, h = i / 15 % 4, n = i / 60;
  const int64_t oc = o % 3, ov = o / 3 % 3, oh = o / 9 % 2, on = o / 18;
  return n == on && c == oc && h / 2 == oh && v >= ov && v < ov + 3;
}

std::vector<NanRow> rows() {
  const std::vector<uint32_t> window = {1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0},
                              clamped = {1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 1, bits(-1), bits(1)};
  const std::vector<uint32_t> relu = {1, bits(0), bits(std::numeric_limits<float>::infinity())},
                              relu6 = {1, bits(0), bits(6)};
  const std::vector<int32_t> maps = {2, 4, 5, 3}, flat = {5, 7};
  const auto same_row = [](int64_t i, int64_t o) { return i / 7 == o / 7; };
  std::vector<NanRow> all;
  for (uint32_t function = 1; function <= Unary::kLast; ++function)
    if (function != Unary::kLog && function != Unary::kSqrt && function != Unary::kRsqrt)  // these give NaN below 0
      all.push_back({Op::kUnary, {function, bits(1), bits(1)}, flat, 1, itself});
  for (const uint32_t function : {Binary::kMaximum, Binary::kMinimum, Binary::kSquaredDifference})
    all.push_back({Op::kBinary, {function}, flat, 2, itself});
  for (uint32_t function = 1; function <= Reduce::kLast; ++function)
    all.push_back({Op::kReduce, {function, 2}, flat, 1, [](int64_t i, int64_t o) { return i / 7 == o; }});
  all.push_back({Op::kLogSoftmax, {1}, flat, 1, same_row});
  const std::vector<NanRow> rest = {{Op::kMaxPool, window, maps, 1, in_window},
                                    {Op::kMaxPool, clamped, maps, 1, in_window},
                                    {Op::kAveragePool, window, maps, 1, in_window},
                                    {Op::kAveragePool, clamped, maps, 1, in_window},
                                    {Op::kMean, {2}, flat, 1, [](int64_t i, int64_t o) { return i / 7 == o; }},
                                    {Op::kSoftmax, {1, bits(1)}, flat, 1, same_row},
                                    {Op::kClamp, relu, flat, 1, itself},
                                    {Op::kClamp, relu6, flat, 1, itself},
                                    {Op::kLeakyRelu, {bits(0)}, flat, 1, itself},
                                    {Op::kLeakyRelu, {bits(0.25f)}, flat, 1, itself},
                                    {Op::kHardSwish, {}, flat, 1, itself},
                                    {Op::kSigmoid, {}, flat, 1, itself},
                                    {Op::kTanh, {}, flat, 1, itself},
                                    {Op::kGelu, {}, flat, 1, itself},
                                    {Op::kGelu, {1}, flat, 1, itself},
                                    {Op::kSilu, {}, flat, 1, itself},
                                    {Op::kAdd, relu, flat, 2, itself},
                                    {Op::kSub, relu6, flat, 2, itself},
                                    {Op::kMul, relu, flat, 2, itself}};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

TEST(nan, reaches_all_that_its_element_has_a_part_in) {
  int64_t reached = 0;
  for (const NanRow& row : rows())
    for (const ElementType type : kFloats) {
      std::vector<Array> inputs(size_t(row.inputs), numbers(type, row.dims));
      const Array before = one_output(row.op, row.words, inputs);
      for (int64_t i = 0; i < inputs.back().elements(); ++i) {
        const Array kept = inputs.back();
        for (const double nan : {kNan, -kNan}) {
          inputs.back().set(i, nan);
          const Array y = one_output(row.op, row.words, inputs);
          for (int64_t o = 0; o < y.elements(); ++o) {
            const bool reaches = row.reaches(i, o);
            reached += reaches ? 1 : 0;
            ASSERT_EQ(reaches, is_nan(y, o)) << int(row.op) << ' ' << type_name(type) << ' ' << i << " to " << o;
            if (reaches) continue;
            ASSERT_EQ(y.real(o), before.real(o)) << int(row.op) << ' ' << type_name(type) << ' ' << i << " to " << o;
          }
        }
        inputs.back() = kept;
      }
    }
  EXPECT_GT(reached, 10000);
}

// NaN taps of a window of 1 x 4 decide where dy goes. All 16 choices of NaN taps are tried.
TEST(nan, takes_the_gradient_of_its_window) {
  const std::vector<uint32_t> words = {0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0};
  for (const ElementType type : kFloats)
    for (unsigned nans = 0; nans < 16; ++nans) {
      const double values[] = {1, 3, 3, 2};
      Array x = make_array(type, {1, 1, 4, 1});
      for (int i = 0; i < 4; ++i) x.set(i, (nans >> i & 1) != 0 ? kNan : values[i]);
      const int taker = nans == 0 ? 1 : 31 - std::countl_zero(nans);
      EXPECT_EQ(is_nan(one_output(Op::kMaxPool, words, {x}), 0), nans != 0);
      const Array dx = one_output(Op::kMaxPoolGradient, words, {array_of<double>(type, {1, 1, 1, 1}, {5}), x});
      for (int i = 0; i < 4; ++i)
        EXPECT_EQ(dx.real(i), i == taker ? 5 : 0) << type_name(type) << ' ' << nans << ' ' << i;
    }
}

// The gradient of relu reads y; that of leaky_relu reads x.
TEST(nan, lets_the_gradient_of_clamps_through) {
  for (const ElementType type : kFloats) {
    const Array nan = array_of<double>(type, {2}, {kNan, 1}), dy = array_of<double>(type, {2}, {2, 4});
    EXPECT_EQ(one_output(Op::kClampGradient, {1, bits(0), bits(6)}, {dy, nan}).real(0), 2);
    EXPECT_EQ(one_output(Op::kLeakyReluGradient, {bits(0.25f)}, {dy, nan}).real(0), 0.5);
    for (const Op op : {Op::kHardSwishGradient, Op::kSigmoidGradient, Op::kTanhGradient})
      EXPECT_TRUE(is_nan(one_output(op, {}, {dy, nan}), 0)) << int(op);
    EXPECT_TRUE(is_nan(one_output(Op::kSoftmaxGradient, {0, bits(1)}, {dy, nan}), 1));
  }
}

// Codes cannot represent NaN. The range of a row is that of its other numbers.
TEST(nan, has_no_part_in_a_range_and_becomes_code_0_or_the_zero_point) {
  const KernelEntry* const entry = &reference::kDynamicQuantizeI8;
  const std::vector<float> values = {0.5f, 3, 1, 0.25f};
  for (const std::vector<uint32_t>& words : {std::vector<uint32_t>{0, 1, 0}, {0, 0, 0}, {0, 0, 1}})
    for (int64_t i = 0; i < 4; ++i) {
      Array x = array_of<float>(ElementType::kFloat32, {4}, values), zero = x;
      x.set(i, kNan), zero.set(i, 0);
      const Execution with = execute(*entry, words, {x}), without = execute(*entry, words, {zero});
      ASSERT_TRUE(with.code == Code::kOk && without.code == Code::kOk);
      EXPECT_EQ(with.outputs[1].bytes, without.outputs[1].bytes) << "scale";
      EXPECT_EQ(with.outputs[2].bytes, without.outputs[2].bytes) << "zero point";
      for (int64_t j = 0; j < 4; ++j)
        EXPECT_EQ(with.outputs[0].integer(j), j != i          ? without.outputs[0].integer(j)
                                              : words[2] != 0 ? with.outputs[2].integer(0)
                                                              : 0);
    }
}

}  // namespace
}  // namespace nacre::test
