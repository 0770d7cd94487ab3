// Tests the ops that commit a training step: the verdict, which accepts or refuses its gradients, ranges and counters.
#include "engine/ops/commit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "engine/kernels/training.h"
#include "tests/ops/step_in_place.h"
#include "tests/short_names.h"

namespace nacre::test {
namespace {

using Real = long double;
using namespace reference;

template <class A>
struct Judged {
  uint32_t apply = 9, amax = 9;
  std::vector<A> report = {9, 9, 9, 9};
};
template <class A>
const KernelEntry& verdict_entry() {
  if constexpr (sizeof(A) == 4) return kVerdictF32;
  else return kVerdictF64;
}

template <class A>
Judged<A> judge(std::vector<A> gradients, float count = 1, float scale = 1, double clip = 0, A loss = 1) {
  std::vector<A> losses = {loss}, report(4, A(9));
  std::vector<float> counts = {count}, scales = {scale};
  std::vector<uint32_t> apply = {9}, amax = {9};
  EXPECT_EQ(Step(&verdict_entry<A>(), {bits(clip)})
                .operand(gradients, {int32_t(gradients.size())})
                .operand(losses, {1})
                .operand(counts, {1})
                .operand(scales, {1})
                .operand(apply, {1})
                .operand(amax, {1})
                .operand(report, {4})
                .run(),
            Code::kOk);
  return {apply[0], amax[0], report};
}

template <class A>
class verdict : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(verdict, Types);

TYPED_TEST(verdict, gives_norm_factor_and_mean_loss) {
  using A = TypeParam;
  const Real u = std::numeric_limits<A>::epsilon() / 2;
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  for (int trial = 0; trial < 40; ++trial) {
    const int n = trial < 20 ? 1 + trial : 1000 * (trial - 19), exponent = int(random() % 60) - 30;
    std::vector<A> gradients;
    Real squares = 0;
    for (int i = 0; i < n; ++i) {
      gradients.push_back(A(std::ldexp(normal(random), exponent)));
      squares += Real(gradients.back()) * Real(gradients.back());
    }
    const float count = float(1 + random() % 200), scale = std::ldexp(1.0f, int(random() % 20)),
                clip = trial % 2 == 0 ? 0 : 0.5f;
    const Judged<A> seen = judge<A>(gradients, count, scale, clip, A(7));
    const Real norm = std::sqrt(squares) / scale / count;
    // A square errs by u, so the sum by 2 u + n u^2. The root halves that and adds u; the quotient by the count adds
    // u.
    const Real relative = u * (1.5L + n * u + 2) + 8 * u * u;
    EXPECT_LE(std::abs(Real(seen.report[1]) - norm), relative * norm) << n;
    const Real factor = (clip > 0 && norm > clip ? clip / norm : 1) / scale / count;
    EXPECT_LE(std::abs(Real(seen.report[0]) - factor), (relative + 3 * u) * factor);
    EXPECT_EQ(seen.report[2], A(7) / A(count));
    EXPECT_EQ(seen.report[3], A(scale));
    EXPECT_EQ(seen.apply, 1u);
  }
}

TYPED_TEST(verdict, sees_every_infinity_and_nan) {
  using A = TypeParam;
  const A inf = std::numeric_limits<A>::infinity(), nan = std::numeric_limits<A>::quiet_NaN();
  for (const size_t at : {0u, 1u, 8u})
    for (const A bad : {inf, -inf, nan, -nan, std::numeric_limits<A>::signaling_NaN()}) {
      std::vector<A> gradients(9, A(-1));
      gradients[at] = bad;
      const Judged<A> seen = judge<A>(gradients);
      EXPECT_EQ(seen.apply, 0u);
      EXPECT_EQ(seen.report[0], 0);
      const Gradients what = gradients_of(seen.amax);
      EXPECT_EQ(what.nan, bad != bad);
      EXPECT_EQ(what.infinite, bad == bad);
      EXPECT_FALSE(std::isfinite(seen.report[1]));
    }
  std::vector<A> both = {inf, nan, 0};
  EXPECT_TRUE(gradients_of(judge<A>(both).amax).nan);
}

TYPED_TEST(verdict, passes_zeros_and_the_ends_of_the_range) {
  using A = TypeParam;
  Judged<A> seen = judge<A>({A(-0.0), A(0)});
  EXPECT_EQ(seen.amax, 0u);
  EXPECT_EQ(seen.apply, 1u);
  EXPECT_EQ(seen.report[1], 0);
  const A tiny = std::numeric_limits<A>::denorm_min(), most = std::numeric_limits<A>::max();
  seen = judge<A>({tiny, -tiny, tiny, tiny});
  EXPECT_EQ(seen.report[1], 2 * tiny);  // the squares would all be 0
  EXPECT_EQ(seen.apply, 1u);
  EXPECT_EQ(seen.amax, sizeof(A) == 4 ? 1u : 0u);
  seen = judge<A>({most, most, -most, most}, 1, 4);
  EXPECT_EQ(seen.apply, 1u);
  EXPECT_EQ(seen.report[1], most / 2);  // the sum of squares would be infinite
  EXPECT_EQ(seen.amax, std::bit_cast<uint32_t>(kLargest));
  EXPECT_TRUE(gradients_of(seen.amax).finite());
  seen = judge<A>({most / 8}, 1, 0x1p127f);  // neither the scale nor the product of scale and count overflows
  EXPECT_EQ(seen.report[1], std::ldexp(most, -130));
  EXPECT_EQ(judge<A>({most / 8}, 4, 0x1p127f).report[0], std::ldexp(A(1), -129));
}

TYPED_TEST(verdict, refuses_what_cannot_be_divided) {
  using A = TypeParam;
  const std::vector<A> gradients = {1, 2};
  for (const float count : {0.0f, -1.0f, kNan, kInf}) EXPECT_EQ(judge<A>(gradients, count).apply, 0u) << count;
  for (const float scale : {0.0f, -1.0f, kNan, kInf, 1e-45f})
    EXPECT_EQ(judge<A>(gradients, 1, scale).apply, sizeof(A) == 8 && scale > 0 && scale < 1 ? 1u : 0u) << scale;
  for (const A loss : {std::numeric_limits<A>::quiet_NaN(), std::numeric_limits<A>::infinity()}) {
    const Judged<A> seen = judge<A>(gradients, 1, 1, 0, loss);
    EXPECT_EQ(seen.apply, 0u);
    EXPECT_TRUE(gradients_of(seen.amax).finite());
  }
  EXPECT_EQ(judge<A>(gradients, 0).report, (std::vector<A>{0, 0, 0, 1}));
}

// The sums are finite, but the mean gradient or its norm is beyond the type. An optimizer would write infinities or,
// with a clip_norm, take a step of gradient 0.
TYPED_TEST(verdict, refuses_a_mean_gradient_beyond_the_type) {
  using A = TypeParam;
  const A most = std::numeric_limits<A>::max();
  EXPECT_EQ(judge<A>({most / 8}, 1, 0x1p-3f).apply, 1u);
  for (const double clip : {0.0, 1.0}) {
    EXPECT_EQ(judge<A>({most / 8}, 1, 0x1p-4f, clip).apply, 0u);
    EXPECT_EQ(judge<A>({most, most}, 1, 1, clip).apply, 0u);
    EXPECT_EQ(judge<A>({most, most}, 1, 1, clip).report[0], 0);
  }
}

TEST(verdict, refuses_attributes_and_shapes) {
  std::vector<float> g(4), loss(2), count(1), scale(1), report(4);
  std::vector<uint32_t> apply(1), amax(1);
  const auto run = [&](double clip, int32_t losses = 1, int32_t reports = 4) {
    return Step(&kVerdictF32, {bits(clip)})
        .operand(g, {4})
        .operand(loss, {losses})
        .operand(count, {1})
        .operand(scale, {1})
        .operand(apply, {1})
        .operand(amax, {1})
        .operand(report, {reports})
        .run();
  };
  EXPECT_EQ(run(0), Code::kOk);
  for (const double bad : {-1.0, double(NAN), double(INFINITY)}) EXPECT_EQ(run(bad), Code::kAttribute);
  EXPECT_EQ(run(0, 2), Code::kShapeInput);
  EXPECT_EQ(run(0, 1, 3), Code::kShapeOutput);
}

TEST(update_statistics, moves_by_keras_formula) {
  std::vector<float> sum = {6, -3}, batches = {3}, running = {1, 10};
  const auto run = [&] {
    return Step(&kUpdateStatisticsF32, {bits(0.75)})
        .operand(sum, {2})
        .operand(batches, {1})
        .operand(running, {2})
        .run();
  };
  EXPECT_EQ(run(), Code::kOk);
  EXPECT_EQ(running, (std::vector<float>{0.75f + 0.25f * 2, 7.5f - 0.25f}));
  batches = {0};
  EXPECT_EQ(run(), Code::kOk);
  EXPECT_EQ(running, (std::vector<float>{1.25f, 7.25f}));
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    batches = {1}, sum = {bad, 7.25f};
    EXPECT_EQ(run(), Code::kOk);
    EXPECT_EQ(running, (std::vector<float>{1.25f, 7.25f})) << bad;
  }
  std::vector<double> sum64 = {6}, running64 = {1};
  batches = {3};
  EXPECT_EQ(
      Step(&kUpdateStatisticsF64, {bits(0.75)}).operand(sum64, {1}).operand(batches, {1}).operand(running64, {1}).run(),
      Code::kOk);
  EXPECT_EQ(running64[0], 1.25);
  EXPECT_EQ(
      Step(&kUpdateStatisticsF64, {bits(1.5)}).operand(sum64, {1}).operand(batches, {1}).operand(running64, {1}).run(),
      Code::kAttribute);
  EXPECT_EQ(Step(&kUpdateStatisticsF32, {0}).operand(sum, {2}).operand(batches, {1}).operand(running, {1}).run(),
            Code::kShapeWeights);
}

TEST(update_range, starts_at_the_first_mean) {
  std::vector<float> sum = {-4, 8}, batches = {2}, range = {0, 0};
  const auto run = [&](double decay = 0.5) {
    return Step(&kUpdateRangeF32, {bits(decay)}).operand(sum, {2}).operand(batches, {1}).operand(range, {2}).run();
  };
  EXPECT_EQ(run(), Code::kOk);
  EXPECT_EQ(range, (std::vector<float>{-2, 4}));
  sum = {0, 0};
  EXPECT_EQ(run(), Code::kOk);
  EXPECT_EQ(range, (std::vector<float>{-1, 2}));
  batches = {0};
  EXPECT_EQ(run(), Code::kOk);
  EXPECT_EQ(range, (std::vector<float>{-1, 2}));
  EXPECT_EQ(run(-0.5), Code::kAttribute);
}

// Codes saturate, so after an activation that overflowed, gradients and loss are finite and the step commits.
TEST(update_range, takes_nothing_that_is_not_finite) {
  for (const std::vector<float>& first : {std::vector<float>{-2, 4}, std::vector<float>{0, 0}})
    for (std::vector<float> sum : {std::vector<float>{-1, kInf}, {-kInf, 1}, {kNan, 1}, {-1, kNan}}) {
      std::vector<float> batches = {1}, range = first;
      const Code code =
          Step(&kUpdateRangeF32, {bits(0.5)}).operand(sum, {2}).operand(batches, {1}).operand(range, {2}).run();
      EXPECT_EQ(code, Code::kOk);
      EXPECT_EQ(range, first);
    }
}

TEST(count_step, stops_at_the_end) {
  std::vector<uint32_t> step = {0xFFFFFFFD};
  for (const uint32_t expected : {0xFFFFFFFEu, 0xFFFFFFFFu, 0xFFFFFFFFu}) {
    EXPECT_EQ(Step(&kCountStepU32).operand(step, {1}).run(), Code::kOk);
    EXPECT_EQ(step[0], expected);
  }
}

}  // namespace
}  // namespace nacre::test
