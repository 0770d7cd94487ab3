// Tests losses against their definitions in long double (probabilities, then logarithms). The bounds follow from the
// operations of the engine's form. u is half an epsilon of the accumulator, the error of one operation.
#include "engine/ops/loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/kernels/training.h"
#include "engine/ops/loss_elementwise.h"
#include "tests/cases_losses.h"
#include "tests/ops/step_in_place.h"
#include "tests/oracle_rounding.h"

namespace nacre::test {
namespace {

using Real = long double;
using namespace reference;

template <class T>
using Sum = typename Element<T>::Accumulator;
template <class T>
constexpr Real kUnit = std::numeric_limits<Sum<T>>::epsilon() / 2;

template <class T>
struct Kernels {
  const KernelEntry *labels, *labels_gradient, *targets, *targets_gradient;
  const KernelEntry *elementwise[4], *elementwise_gradient[4];  // sigmoid, squared, absolute, huber
};
#define KERNELS(type, t)                                                                          \
  template <>                                                                                     \
  const Kernels<type>& kernels_of() {                                                             \
    static const Kernels<type> kernels = {                                                        \
        &kSoftmaxCrossEntropy##t,                                                                 \
        &kSoftmaxCrossEntropyGradient##t,                                                         \
        &kDenseCrossEntropy##t,                                                                   \
        &kDenseCrossEntropyGradient##t,                                                           \
        {&kSigmoidCrossEntropy##t, &kSquaredError##t, &kAbsoluteError##t, &kHuber##t},            \
        {&kSigmoidCrossEntropyGradient##t, &kSquaredErrorGradient##t, &kAbsoluteErrorGradient##t, \
         &kHuberGradient##t}};                                                                    \
    return kernels;                                                                               \
  }
template <class T>
const Kernels<T>& kernels_of();
KERNELS(float, F32)
KERNELS(Float16, F16)
KERNELS(Bfloat16, Bf16)
KERNELS(double, F64)

template <class T>
std::vector<T> random_values(std::mt19937_64& random, size_t count, double low, double high) {
  std::uniform_real_distribution<double> draw(low, high);
  std::vector<T> made;
  for (size_t i = 0; i < count; ++i) made.push_back(T(Sum<T>(draw(random))));
  return made;
}

// The loss and gradient of one row, each with an absolute bound of its error.
struct Row {
  Real loss = 0, bound = 0;
  std::vector<Real> gradient, gradient_bound;
};

// q is the exact target distribution. The engine sums C exponentials e^d to S, each with an error of 2 u and |d| u;
// then T log S, T = sum q, and a sum of C products q d of three to five roundings. Its q has 3 roundings.
Row row_of(const std::vector<Real>& x, const std::vector<Real>& q, Real u) {
  const auto classes = Real(x.size());
  Real largest = x[0], sum = 0, total = 0, sum_error = 0;
  for (const Real v : x) largest = std::max(largest, v);
  for (size_t k = 0; k < x.size(); ++k) {
    const Real e = std::exp(x[k] - largest);
    sum += e;
    sum_error += e * (largest - x[k] + 2);
    total += q[k];
  }
  const Real relative = u * (classes + sum_error / sum);
  Row row;
  row.bound = total * (relative + u * (4 + classes) * std::log(sum));
  for (size_t k = 0; k < x.size(); ++k) {
    const Real p = std::exp(x[k] - largest) / sum;
    if (q[k] > 0) row.loss -= q[k] * std::log(p);
    if (q[k] > 0) row.bound += u * (8 + classes) * q[k] * (largest - x[k]);
    row.gradient.push_back(total * p - q[k]);
    row.gradient_bound.push_back(total * p * (relative + u * (largest - x[k] + 10 + classes)) + 6 * u * q[k] +
                                 4 * u * std::abs(row.gradient.back()));
  }
  row.bound += u * (2 + classes) * std::abs(row.loss);
  return row;
}

template <class T>
void expect_gradient(T given, Real value, Real bound, Real seed) {
  const Real scaled = seed * value, error = std::abs(seed) * bound;
  EXPECT_LE(std::abs(Real(Sum<T>(given)) - scaled), error + quantum(Element<T>::kType, std::abs(scaled) + error) / 2)
      << "expected " << double(scaled);
}

template <class T>
class losses : public testing::Test {};
using Types = testing::Types<float, Float16, Bfloat16, double>;
TYPED_TEST_SUITE(losses, Types);

TYPED_TEST(losses, softmax_cross_entropy_is_the_formula) {
  using T = TypeParam;
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 60; ++trial) {
    const int rows = 1 + int(random() % 7), classes = 1 + int(random() % 13);
    const float smoothing = trial % 3 == 0 ? 0 : float(random() % 11) / 10,
                seed = std::ldexp(1.0f, int(random() % 9) - 2);
    const bool ignores = trial % 2 == 0, of_labels = trial % 5 < 3;
    const int ignored = trial % 4 == 0 ? -100 : 0;
    auto x = random_values<T>(random, size_t(rows * classes), -9, 9),
         t = random_values<T>(random, size_t(rows * classes), 0, 1);
    std::vector<int32_t> y;
    for (int r = 0; r < rows; ++r)
      y.push_back(ignores && random() % 3 == 0 ? ignored : int32_t(random() % uint64_t(classes)));
    std::vector<Sum<T>> loss = {Sum<T>(0.5)};
    std::vector<float> count = {3}, seeds = {seed};
    std::vector<T> dx(x.size());
    const std::vector<int32_t> dims = {rows, classes};
    Code forward, backward;
    if (of_labels) {
      const std::vector<uint32_t> words = {bits(smoothing), ignores ? 1u : 0u, uint32_t(ignored)};
      forward = Step(kernels_of<T>().labels, words)
                    .operand(x, dims, true)
                    .operand(y, {rows}, true)
                    .operand(loss, {1})
                    .operand(count, {1})
                    .run();
      backward = Step(kernels_of<T>().labels_gradient, words)
                     .operand(x, dims, true)
                     .operand(y, {rows}, true)
                     .operand(seeds, {1})
                     .operand(dx, dims, true)
                     .run();
    } else {
      const std::vector<uint32_t> words = {bits(smoothing)};
      forward = Step(kernels_of<T>().targets, words)
                    .operand(x, dims)
                    .operand(t, dims)
                    .operand(loss, {1})
                    .operand(count, {1})
                    .run();
      backward = Step(kernels_of<T>().targets_gradient, words)
                     .operand(x, dims)
                     .operand(t, dims)
                     .operand(seeds, {1})
                     .operand(dx, dims)
                     .run();
    }
    ASSERT_EQ(forward, Code::kOk);
    ASSERT_EQ(backward, Code::kOk);
    const Real s = smoothing, u = kUnit<T>;
    Real sum = 0, bound = 0, counted = 0;
    for (int r = 0; r < rows; ++r) {
      const bool skipped = of_labels && ignores && y[size_t(r)] == ignored;
      std::vector<Real> row, q;
      for (int k = 0; k < classes; ++k) {
        const auto i = size_t(r * classes + k);
        row.push_back(Real(Sum<T>(x[i])));
        const Real target = of_labels ? Real(y[size_t(r)] == k) : Real(Sum<T>(t[i]));
        q.push_back(target * (1 - s) + s / classes);
      }
      const Row expected = row_of(row, q, u);
      for (int k = 0; k < classes; ++k) {
        const T given = dx[size_t(r * classes + k)];
        if (skipped) EXPECT_EQ(Sum<T>(given), 0);
        else expect_gradient(given, expected.gradient[size_t(k)], expected.gradient_bound[size_t(k)], seed);
      }
      if (skipped) continue;
      sum += expected.loss, bound += expected.bound, ++counted;
    }
    EXPECT_EQ(count[0], 3 + float(counted));
    EXPECT_LE(std::abs(Real(loss[0]) - (sum + 0.5L)), bound + u * (rows + 1) * (sum + 0.5L)) << "trial " << trial;
  }
}

// The loss f of one number y, and f'. The sizes are the sums of the magnitudes that the engine adds up.
struct Term {
  Real value, size, gradient, gradient_size;
};
Term term_of(int kind, Real y, Real t, Real delta) {
  const Real d = y - t, a = std::abs(d);
  switch (kind) {
    case 0: {
      const Real p = 1 / (1 + std::exp(-y));
      const Real value = -(t * std::log(p) + (1 - t) * std::log1p(-p));
      const Real soft = std::log1p(std::exp(-std::abs(y)));  // for y < -1 almost e^y: relative error 2 u (1 + of log1p)
      return {std::abs(y) < 20 ? value : std::max<Real>(y, 0) - y * t + soft,
              std::max<Real>(y, 0) + std::abs(y * t) + 3 * soft, p - t, 6 * p + std::abs(t)};
    }
    case 1: return {d * d, 3 * d * d, 2 * d, 2 * a};
    case 2: return {a, a, Real((d > 0) - (d < 0)), 1};
    default:
      return {a > delta ? delta * a - delta * delta / 2 : d * d / 2,
              a > delta ? 2 * delta * a + delta * delta : 2 * d * d, std::max(-delta, std::min(delta, d)),
              std::min(a, delta)};
  }
}

TYPED_TEST(losses, elementwise_losses_are_the_formulas) {
  using T = TypeParam;
  std::mt19937_64 random(2);
  for (int kind = 0; kind < 4; ++kind)
    for (int trial = 0; trial < 25; ++trial) {
      const int rows = 1 + int(random() % 5), width = 1 + int(random() % 9);
      const double high = kind == 0 ? 1 : 3, low = kind == 0 ? 0 : -3;
      auto y = random_values<T>(random, size_t(rows * width), -8, 8),
           t = random_values<T>(random, size_t(rows * width), low, high);
      if (kind == 2) t[0] = y[0];
      const float delta = float(random() % 5 + 1) / 2, seed = 4;
      std::vector<Sum<T>> loss = {Sum<T>(0.25)};
      std::vector<float> count = {1}, seeds = {seed};
      std::vector<T> dy(y.size());
      const std::vector<int32_t> dims =
          trial % 2 == 0 ? std::vector<int32_t>{rows, width} : std::vector<int32_t>{rows, 1, width, 1};
      const std::vector<uint32_t> words = kind == 3 ? std::vector<uint32_t>{bits(delta)} : std::vector<uint32_t>{};
      ASSERT_EQ(Step(kernels_of<T>().elementwise[kind], words)
                    .operand(y, dims)
                    .operand(t, dims)
                    .operand(loss, {1})
                    .operand(count, {1})
                    .run(),
                Code::kOk);
      ASSERT_EQ(Step(kernels_of<T>().elementwise_gradient[kind], words)
                    .operand(y, dims)
                    .operand(t, dims)
                    .operand(seeds, {1})
                    .operand(dy, dims)
                    .run(),
                Code::kOk);
      // For large y, long double loses the sigmoid's 1 - p: its error is 2^-64 relative to 1, times 1 / p, which is
      // below every bound here.
      Real sum = 0.25L, size = 0.25L;
      for (size_t i = 0; i < y.size(); ++i) {
        const Term term = term_of(kind, Real(Sum<T>(y[i])), Real(Sum<T>(t[i])), delta);
        sum += term.value / width, size += term.size / width;
        expect_gradient(dy[i], term.gradient / width,
                        kUnit<T> * (3 * std::abs(term.gradient) + term.gradient_size) / width, seed);
      }
      const Real own = kind == 0 ? std::exp(Real(8)) * std::numeric_limits<Real>::epsilon() * rows : 0;
      EXPECT_LE(std::abs(Real(loss[0]) - sum), kUnit<T> * (width + rows + 3) * size + own) << "kind " << kind;
      EXPECT_EQ(count[0], 1 + float(rows));
    }
}

// Gradients meet central differences of the loss in float64, on random cases of the table of gradients; seed 1.
//
//   D(h) = (L(x + h) - L(x - h)) / 2 h = dL/dx + h^2 L''' / 6 + O(h^4);   |D(2 h) - D(h)| is three times its error
//
// and L is within 100 u of its value for these sizes. Kinks (y = t, |y - t| = delta) within 3 h are stepped over.
TEST(losses, gradients_are_those_of_differences) {
  const std::pair<const KernelEntry*, const KernelEntry*> kernels[] = {
      {&kSoftmaxCrossEntropyF64, &kSoftmaxCrossEntropyGradientF64},
      {&kDenseCrossEntropyF64, &kDenseCrossEntropyGradientF64},
      {&kSigmoidCrossEntropyF64, &kSigmoidCrossEntropyGradientF64},
      {&kSquaredErrorF64, &kSquaredErrorGradientF64},
      {&kAbsoluteErrorF64, &kAbsoluteErrorGradientF64},
      {&kHuberF64, &kHuberGradientF64}};
  constexpr double kStep = 1.0 / 1024;
  Random random(3);
  int compared = 0;
  for (const auto& [forward, backward] : kernels)
    for (int trial = 0; trial < 40; ++trial) {
      Case made;
      find_loss_case_maker(forward->op)(*forward, random, made);
      ASSERT_EQ(made.inputs.size(), 4u);
      const std::vector<int32_t> dims = made.inputs[0].dims;
      size_t count = 1, others = 1;
      for (const int32_t dim : dims) count *= size_t(dim);
      for (const int32_t dim : made.inputs[1].dims) others *= size_t(dim);
      const bool labels = forward->op == Op::kSoftmaxCrossEntropy;
      auto x = random_values<double>(random, count, made.inputs[0].low, made.inputs[0].high);
      auto t = random_values<double>(random, others, made.inputs[1].low, made.inputs[1].high);
      std::vector<int32_t> y;
      for (const double v : t) y.push_back(int32_t(std::lround(v)));
      std::vector<double> dx(count);
      std::vector<float> seed = {1};
      Step step(backward, made.words);
      step.operand(x, dims);
      if (labels) step.operand(y, made.inputs[1].dims);
      else step.operand(t, made.inputs[1].dims);
      ASSERT_EQ(step.operand(seed, {1}).operand(dx, dims).run(), Code::kOk);
      for (size_t i = 0; i < count; ++i) {
        const double delta = forward->op == Op::kHuber ? double(std::bit_cast<float>(made.words[0])) : 0;
        const bool kinks = forward->op == Op::kHuber || forward->op == Op::kAbsoluteError;
        if (kinks && std::abs(std::abs(x[i] - t[i]) - delta) < 3 * kStep) continue;
        const auto loss_at = [&](double h) {
          std::vector<double> moved = x, loss = {0};
          std::vector<float> rows = {0};
          moved[i] += h;
          Step run(forward, made.words);
          run.operand(moved, dims);
          if (labels) run.operand(y, made.inputs[1].dims);
          else run.operand(t, made.inputs[1].dims);
          EXPECT_EQ(run.operand(loss, {1}).operand(rows, {1}).run(), Code::kOk);
          return loss[0];
        };
        const double one = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep),
                     two = (loss_at(2 * kStep) - loss_at(-2 * kStep)) / (4 * kStep);
        const double rounding =
            100 * std::numeric_limits<double>::epsilon() * std::max(1.0, std::abs(loss_at(0))) / kStep;
        EXPECT_NEAR(dx[i], one, std::abs(two - one) + rounding) << int(forward->op) << ", trial " << trial;
        ++compared;
      }
    }
  EXPECT_GT(compared, 2000);
}

}  // namespace
}  // namespace nacre::test
