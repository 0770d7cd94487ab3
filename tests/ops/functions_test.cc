// Tests the functions that an attribute names: where they overflow or are undefined, their values at 0, and unknown
// functions. Claim op_table tests the values in between.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/kernels/reference.h"
#include "engine/kernels/training.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/select.h"
#include "engine/ops/unary.h"
#include "tests/one_step.h"
#include "tests/short_names.h"

namespace nacre::test {
namespace {

const KernelEntry* const kUnaryEntries[] = {&reference::kUnaryF32, &reference::kUnaryF16, &reference::kUnaryBf16,
                                            &reference::kUnaryF64};

uint32_t word_of(float v) { return std::bit_cast<uint32_t>(v); }

double at(const KernelEntry& entry, uint32_t function, double x) {
  const Array input = array_of<double>(entry.operands[0].element, {1}, {x});
  const Execution run = execute(entry, {function, word_of(0.5f), word_of(2)}, {input});
  EXPECT_EQ(run.code, Code::kOk) << function;
  return run.outputs.at(0).real(0);
}

TEST(unary, leaves_the_real_numbers_as_ieee_754_says) {
  const struct {
    uint32_t function;
    double x, y;
  } rows[] = {{Unary::kExp, -kInf, 0},    {Unary::kExp, kInf, kInf},     {Unary::kLog, 0, -kInf},
              {Unary::kLog, -1, kNan},    {Unary::kLog, 1, 0},           {Unary::kSqrt, -1, kNan},
              {Unary::kSqrt, kInf, kInf}, {Unary::kRsqrt, 0, kInf},      {Unary::kRsqrt, -1, kNan},
              {Unary::kRsqrt, 4, 0.5},    {Unary::kReciprocal, 0, kInf}, {Unary::kReciprocal, -0.0, -kInf},
              {Unary::kSign, 0, 0},       {Unary::kSign, -kInf, -1},     {Unary::kFloor, -0.5, -1},
              {Unary::kCeil, 1.5, 2},     {Unary::kRound, 0.5, 0},       {Unary::kRound, 1.5, 2},
              {Unary::kRound, -2.5, -2},  {Unary::kSoftplus, -kInf, 0},  {Unary::kSoftplus, 1000, 1000},
              {Unary::kElu, -kInf, -0.5}, {Unary::kSelu, -kInf, -1},     {Unary::kSelu, 3, 6},
              {Unary::kErf, kInf, 1},     {Unary::kErf, -kInf, -1},      {Unary::kSin, kInf, kNan},
              {Unary::kCos, 0, 1}};
  for (const KernelEntry* entry : kUnaryEntries) {
    for (const auto& row : rows) {
      const double y = at(*entry, row.function, row.x);
      EXPECT_TRUE(std::isnan(row.y) ? std::isnan(y) : y == row.y) << row.function << " of " << row.x << ": " << y;
    }
    for (uint32_t function = 1; function <= Unary::kLast; ++function)
      EXPECT_TRUE(std::isnan(at(*entry, function, kNan))) << function;
  }
}

TEST(unary, refuses_what_is_no_function) {
  const Array x = array_of<double>(ElementType::kFloat32, {1}, {1});
  for (const uint32_t function : {0u, Unary::kLast + 1, 0x80000001u})
    EXPECT_EQ(execute(reference::kUnaryF32, {function}, {x}).code, Code::kAttribute) << function;
  for (const float parameter : {kInf, kNan}) {
    EXPECT_EQ(execute(reference::kUnaryF32, {Unary::kElu, word_of(parameter)}, {x}).code, Code::kAttribute);
    EXPECT_EQ(execute(reference::kUnaryF32, {Unary::kSelu, 0, word_of(parameter)}, {x}).code, Code::kAttribute);
  }
}

TEST(binary, leaves_the_real_numbers_as_ieee_754_says) {
  const struct {
    uint32_t function;
    double a, b, y;
  } rows[] = {{Binary::kDiv, 1, 0, kInf},        {Binary::kDiv, -1, 0, -kInf},
              {Binary::kDiv, 0, 0, kNan},        {Binary::kDiv, 1, kNan, kNan},
              {Binary::kDiv, 3, kInf, 0},        {Binary::kPow, -2, 2, 4},
              {Binary::kPow, -2, 0.5, kNan},     {Binary::kPow, 0, -1, kInf},
              {Binary::kPow, kNan, 0, 1},        {Binary::kPow, 1, kNan, 1},
              {Binary::kPow, 2, kNan, kNan},     {Binary::kMaximum, kNan, 1, kNan},
              {Binary::kMaximum, 1, kNan, kNan}, {Binary::kMinimum, kNan, 1, kNan},
              {Binary::kMinimum, 1, kNan, kNan}, {Binary::kMaximum, -kInf, 1, 1},
              {Binary::kFloorDiv, -1, 2, -1},    {Binary::kFloorDiv, 7, 2, 3},
              {Binary::kFloorDiv, 1, 0, kInf},   {Binary::kSquaredDifference, 1, kInf, kInf}};
  for (const KernelEntry* entry :
       {&reference::kBinaryF32, &reference::kBinaryF16, &reference::kBinaryBf16, &reference::kBinaryF64})
    for (const auto& row : rows) {
      const ElementType type = entry->operands[0].element;
      const Execution run =
          execute(*entry, {row.function}, {array_of<double>(type, {1}, {row.a}), array_of<double>(type, {1}, {row.b})});
      ASSERT_EQ(run.code, Code::kOk);
      const double y = run.outputs.at(0).real(0);
      EXPECT_TRUE(std::isnan(row.y) ? std::isnan(y) : y == row.y)
          << row.function << " of " << row.a << " and " << row.b << ": " << y;
    }
}

TEST(binary, refuses_what_is_no_function) {
  const Array x = array_of<double>(ElementType::kFloat32, {1}, {1});
  for (const uint32_t function : {0u, Binary::kLast + 1, 0x80000001u})
    EXPECT_EQ(execute(reference::kBinaryF32, {function}, {x, x}).code, Code::kAttribute) << function;
}

// Tests integers at which a plain division or shift is undefined in C++, and other edge cases.
template <class T>
void expect_whole_ends(const KernelEntry& entry) {
  constexpr T kLow = std::numeric_limits<T>::min(), kHigh = std::numeric_limits<T>::max(), kBits = 8 * sizeof(T);
  const struct {
    uint32_t function;
    T a, b, y;
  } rows[] = {{Binary::kDiv, kLow, -1, kLow},      {Binary::kDiv, 7, 0, 0},
              {Binary::kDiv, -7, 2, -3},           {Binary::kFloorDiv, kLow, -1, kLow},
              {Binary::kFloorDiv, -7, 2, -4},      {Binary::kFloorDiv, -7, 0, 0},
              {Binary::kPow, -1, -3, -1},          {Binary::kPow, 0, -3, 0},
              {Binary::kPow, 2, kBits - 1, kLow},  {Binary::kPow, 3, 0, 1},
              {Binary::kMaximum, kLow, -1, -1},    {Binary::kMinimum, kLow, kHigh, kLow},
              {Binary::kAnd, -1, kHigh, kHigh},    {Binary::kOr, kLow, kHigh, -1},
              {Binary::kXor, -1, 5, -6},           {Binary::kShiftLeft, -1, kBits - 1, kLow},
              {Binary::kShiftLeft, 1, kBits, 0},   {Binary::kShiftLeft, 1, -1, 0},
              {Binary::kShiftRight, -1, 1, kHigh}, {Binary::kShiftRight, -1, kBits, 0},
              {Binary::kShiftRight, -1, kLow, 0},  {Binary::kSquaredDifference, kLow, kHigh, 1}};
  for (const auto& row : rows) {
    Array a = make_array(Element<T>::kType, {1}), b = a;
    std::memcpy(a.bytes.data(), &row.a, sizeof(T));
    std::memcpy(b.bytes.data(), &row.b, sizeof(T));
    const Execution run = execute(entry, {row.function}, {a, b});
    ASSERT_EQ(run.code, Code::kOk) << row.function;
    EXPECT_EQ(run.outputs.at(0).integer(0), int64_t{row.y}) << row.function << " of " << row.a << " and " << row.b;
  }
}

TEST(binary, of_whole_numbers_has_a_result_for_all_of_them) {
  expect_whole_ends<int32_t>(reference::kBinaryI32);
  expect_whole_ends<int64_t>(reference::kBinaryI64);
  const Array x = array_of<int>(ElementType::kInt32, {1}, {1});
  for (const uint32_t function : {0u, Binary::kLastOfWhole + 1, 0x80000001u})
    EXPECT_EQ(execute(reference::kBinaryI32, {function}, {x, x}).code, Code::kAttribute) << function;
}

// Tests kinks that central differences cannot test: equal operands, a base of 0 or below, an exponent of 0.
TEST(binary, has_the_gradients_of_tensorflow_at_its_kinks) {
  const auto gradient = [](uint32_t function, uint32_t input, double a, double b) {
    const auto one = [](double v) { return array_of<double>(ElementType::kFloat64, {1}, {v}); };
    return execute(reference::kBinaryGradientF64, {function, input}, {one(1), one(a), one(b)}).outputs.at(0).real(0);
  };
  for (const uint32_t function : {Binary::kMaximum, Binary::kMinimum}) {
    EXPECT_EQ(gradient(function, 0, 2, 2), 1);
    EXPECT_EQ(gradient(function, 1, 2, 2), 0);
  }
  EXPECT_EQ(gradient(Binary::kPow, 0, 0, 0), 0);
  EXPECT_EQ(gradient(Binary::kPow, 0, -3, 2), -6);
  EXPECT_EQ(gradient(Binary::kPow, 1, 0, 2), 0);
  EXPECT_EQ(gradient(Binary::kPow, 1, -3, 2), 0);
}

TEST(reduce, refuses_what_is_no_function_or_axis) {
  const Array x = array_of<double>(ElementType::kFloat32, {2, 1}, {1, 2});
  for (const uint32_t function : {0u, Reduce::kLast + 1, 0x80000001u})
    EXPECT_EQ(execute(reference::kReduceF32, {function, 1}, {x}).code, Code::kAttribute) << function;
  EXPECT_EQ(execute(reference::kReduceF32, {Reduce::kSum, 4}, {x}).code, Code::kAttributeAxis);
  EXPECT_EQ(execute(reference::kReduceF32, {Reduce::kSum, 1, 2}, {x}).code, Code::kAttribute);
}

// Tests cases that central differences cannot test: equal extremes, which share dy, and a product with zeros.
TEST(reduce, has_the_gradients_of_tensorflow_at_its_kinks) {
  const auto gradient = [](uint32_t function, const std::vector<double>& values) {
    const std::vector<int32_t> dims = {int32_t(values.size())};
    const Array x = array_of<double>(ElementType::kFloat64, dims, values);
    const Execution forward = execute(reference::kReduceF64, {function, 1}, {x});
    const Array dy = array_of<double>(ElementType::kFloat64, {}, {6});
    const Execution run = execute(reference::kReduceGradientF64, {function, 1}, {dy, x, forward.outputs.at(0)});
    std::vector<double> dx;
    for (int64_t i = 0; i < x.elements(); ++i) dx.push_back(run.outputs.at(0).real(i));
    return dx;
  };
  using Reals = std::vector<double>;
  EXPECT_EQ(gradient(Reduce::kMax, {3, 1, 3}), (Reals{3, 0, 3}));
  EXPECT_EQ(gradient(Reduce::kMin, {3, 1, 3}), (Reals{0, 6, 0}));
  EXPECT_EQ(gradient(Reduce::kMax, {3, kNan, 4}), (Reals{0, 6, 0}));
  EXPECT_EQ(gradient(Reduce::kProd, {2, 3, 5}), (Reals{90, 60, 36}));
  EXPECT_EQ(gradient(Reduce::kProd, {2, 0, 5}), (Reals{0, 60, 0}));
  EXPECT_EQ(gradient(Reduce::kProd, {0, 0, 5}), (Reals{0, 0, 0}));
  EXPECT_EQ(gradient(Reduce::kSum, {0, 0, 5}), (Reals{6, 6, 6}));
}

TEST(arg_max, takes_the_first_or_the_last_of_equals_and_nan_before_all) {
  const struct {
    std::vector<double> x;
    int first, last, least, last_least;
  } rows[] = {
      {{1, 3, 2, 3, 1}, 1, 3, 0, 4}, {{kNan, 3}, 0, 0, 0, 0}, {{3, kNan, 4, kNan, 1}, 1, 3, 1, 3}, {{7}, 0, 0, 0, 0}};
  for (const auto& row : rows) {
    const std::vector<int32_t> dims = {int32_t(row.x.size())};
    const auto index = [&](uint32_t minimum, uint32_t last) {
      const Array x = array_of<double>(ElementType::kFloat32, dims, row.x);
      return int(execute(reference::kArgMaxF32I64, {0, 0, minimum, last}, {x}).outputs.at(0).integer(0));
    };
    EXPECT_EQ(index(0, 0), row.first);
    EXPECT_EQ(index(0, 1), row.last);
    EXPECT_EQ(index(1, 0), row.least);
    EXPECT_EQ(index(1, 1), row.last_least);
  }
  const Array x = array_of<double>(ElementType::kFloat32, {2}, {1, 2});
  EXPECT_EQ(execute(reference::kArgMaxF32, {1}, {x}).code, Code::kAttributeAxis);
  for (const std::vector<uint32_t>& words : {std::vector<uint32_t>{0, 2}, {0, 0, 2}, {0, 0, 0, 2}})
    EXPECT_EQ(execute(reference::kArgMaxF32, words, {x}).code, Code::kAttribute);
}

TEST(log_softmax, is_finite_where_the_logarithm_of_softmax_is_not) {
  const Array x = array_of<double>(ElementType::kFloat32, {2}, {-1000, 0});
  const Array y = execute(reference::kLogSoftmaxF32, {0}, {x}).outputs.at(0);
  EXPECT_EQ(y.real(0), -1000);
  EXPECT_EQ(y.real(1), 0);
  EXPECT_EQ(execute(reference::kLogSoftmaxF32, {1}, {x}).code, Code::kAttributeAxis);
}

TEST(comparison, is_false_with_a_nan_but_for_not_equal) {
  const auto result = [](uint32_t function, double a, double b) {
    const auto one = [](double v) { return array_of<double>(ElementType::kFloat32, {1}, {v}); };
    return execute(reference::kCompareF32, {function}, {one(a), one(b)}).outputs.at(0).integer(0) != 0;
  };
  for (uint32_t function = 1; function <= Compare::kLast; ++function)
    for (const auto& [a, b] : {std::pair(double(kNan), 1.0), std::pair(1.0, double(kNan))})
      EXPECT_EQ(result(function, a, b), function == Compare::kNotEqual) << function;
  EXPECT_TRUE(result(Compare::kEqual, 0, -0.0));
  EXPECT_TRUE(result(Compare::kLess, -kInf, kInf));
  const Array x = array_of<double>(ElementType::kFloat32, {1}, {1});
  for (const uint32_t function : {0u, Compare::kLast + 1, 0x80000001u})
    EXPECT_EQ(execute(reference::kCompareF32, {function}, {x, x}).code, Code::kAttribute) << function;
}

// Any byte but 0 is true. An operand that is not chosen has no effect on the result, even if it is NaN.
TEST(choice, chooses_and_drops_what_it_does_not_choose) {
  Array c = make_array(ElementType::kBool, {3});
  c.bytes = {0, 1, 0x80};
  const Array a = array_of<double>(ElementType::kFloat32, {3}, {kNan, 2, 3}),
              b = array_of<double>(ElementType::kFloat32, {1}, {7});
  const Array y = execute(reference::kSelectF32, {}, {a, b, c}).outputs.at(0);
  EXPECT_EQ(y.real(0), 7);
  EXPECT_EQ(y.real(1), 2);
  EXPECT_EQ(y.real(2), 3);
}

}  // namespace
}  // namespace nacre::test
