// Tests random numbers against known answers, and dropout, which uses them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "engine/numeric/philox.h"
#include "engine/ops/all.h"
#include "tests/cases_random.h"
#include "tests/ops/differentiated.h"

namespace nacre::test {
namespace {

using namespace differentiated;

// The expected numbers are "philox4x32 10" of Random123's kat_vectors.
TEST(philox, gives_the_known_answers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

Array uint32s(const std::vector<uint32_t>& values) {
  Array array = make_array(kU32, {int32_t(values.size())});
  std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}

Array dropped(double rate, uint32_t layer, const std::vector<uint32_t>& random, const Array& x) {
  std::vector<Operand> operands = {{x, Role::kIn}, {uint32s(random), Role::kIn}};
  EXPECT_EQ(run_op(Op::kDropout, {bits(rate), layer}, operands, 1, x.element), Code::kOk);
  return operands[2].array;
}

Array ones(int count) {
  Array x = make_array(kF32, {count});
  for (int i = 0; i < count; ++i) x.set(i, 1);
  return x;
}

// On average n (1 - rate) elements are kept, with a standard deviation of sqrt(n rate (1 - rate)). Five deviations
// are allowed.
TEST(dropout, drops_at_its_rate_and_scales_what_stays) {
  constexpr int n = 100000;
  for (const double rate : {0.0, 0.1, 0.5, 0.9}) {
    const Array y = dropped(rate, 3, {1, 2, 3, 4}, ones(n));
    int kept = 0;
    for (int i = 0; i < n; ++i) {
      kept += y.real(i) != 0;
      ASSERT_TRUE(y.real(i) == 0 || y.real(i) == double(1 / (1 - float(rate)))) << rate;
    }
    EXPECT_LE(std::abs(kept - n * (1 - rate)), 5 * std::sqrt(n * rate * (1 - rate))) << rate;
  }
}

// Another seed, step, micro-batch or layer gives another mask. Masks of rate 1/2 agree in about half of x.
TEST(dropout, masks_differ_by_everything_they_are_a_function_of) {
  constexpr int n = 10000;
  const Array x = ones(n), first = dropped(0.5, 0, {7, 8, 9, 10}, x);
  EXPECT_EQ(first.bytes, dropped(0.5, 0, {7, 8, 9, 10}, x).bytes);
  const std::vector<uint32_t> others[] = {{8, 8, 9, 10}, {7, 9, 9, 10}, {7, 8, 10, 10}, {7, 8, 9, 11}, {7, 8, 9, 10}};
  for (size_t i = 0; i < 5; ++i) {
    const Array other = dropped(0.5, i == 4 ? 1 : 0, others[i], x);
    int equal = 0;
    for (int e = 0; e < n; ++e) equal += first.real(e) == other.real(e);
    EXPECT_LE(std::abs(equal - n / 2), 5 * std::sqrt(n) / 2) << i;
  }
  Array fewer = make_array(kF32, {n / 2 - 1});  // a smaller batch: its rows have the same numbers
  for (int e = 0; e < n / 2 - 1; ++e) fewer.set(e, 1);
  const Array part = dropped(0.5, 0, {7, 8, 9, 10}, fewer);
  EXPECT_TRUE(std::equal(part.bytes.begin(), part.bytes.end(), first.bytes.begin()));
}

TEST(dropout, the_gradient_is_dropout_of_dy) {
  for (const ElementType type : {kF64, kF32, ElementType::kFloat16, ElementType::kBfloat16}) {
    Random random(5);
    Array x = make_array(type, {3, 7});
    for (int64_t i = 0; i < x.elements(); ++i) x.set(i, between(random, -2, 2));
    Differentiated step = {kDropoutRule, {bits(0.25), 2}, {x, uint32s({1, 0, 5, 0})}};
    const Array dy = random_like(x, random);
    const std::map<int, Array> gradients = step.gradients(dy);
    step.inputs[0] = dy;
    EXPECT_EQ(gradients.at(0).bytes, step.forward(1)[0].bytes);
    if (type == kF64) expect_central_differences({kDropoutRule, step.words, {x, step.inputs[1]}}, random, "dropout");
  }
}

TEST(dropout, rates_outside_its_range_are_refused) {
  for (const double rate : {-0.1, 1.0, 2.0, double(NAN), double(INFINITY)}) {
    std::vector<Operand> operands = {{ones(4), Role::kIn}, {uint32s({1, 2, 3, 4}), Role::kIn}};
    EXPECT_EQ(run_op(Op::kDropout, {bits(rate), 0}, operands, 1, kF32), Code::kAttribute) << rate;
  }
  std::vector<Operand> operands = {{ones(4), Role::kIn}, {uint32s({1, 2, 3}), Role::kIn}};
  EXPECT_EQ(run_op(Op::kDropout, {bits(0.5), 0}, operands, 1, kF32), Code::kShapeInput);
}

}  // namespace
}  // namespace nacre::test
