// Compares one step of every optimizer, from random states, with its published formula in long double. The bounds
// follow from the engine's order of operations. u is half an epsilon of A, the relative error of one operation.
#include "engine/ops/optimize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/kernels/training.h"
#include "tests/ops/step_in_place.h"
#include "tests/oracle_rounding.h"

namespace nacre::test {
namespace {

using Real = long double;
using namespace reference;

enum Kind { kSgd, kMomentum, kNesterov, kAdam, kAdamW, kRmsprop, kAdagrad, kKinds };
constexpr const char* kNames[] = {"sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop", "adagrad"};

struct Hyper {
  float clip, decay, a, b, epsilon, rate;  // a, b: momentum, the betas, or alpha
  bool in_root = false;                    // for rmsprop and adagrad
};
Hyper hyper_of(Kind kind, std::mt19937_64& random) {
  const auto one_of = [&](std::initializer_list<float> list) { return list.begin()[random() % list.size()]; };
  Hyper h = {one_of({0, 0, 0.5f}),       one_of({0, 0.01f}),        one_of({0, 0.9f, 0.5f}),
             one_of({0.999f, 0.99f, 0}), one_of({1e-8f, 1e-3f, 1}), one_of({1e-3f, 0.1f, 0})};
  if (kind == kRmsprop) h.a = one_of({0.99f, 0.9f});
  if (kind == kRmsprop || kind == kAdagrad) h.in_root = random() % 2 == 1;
  return h;
}
std::vector<uint32_t> words_of(Kind kind, const Hyper& h) {
  switch (kind) {
    case kSgd: return {bits(h.clip), bits(h.decay)};
    case kMomentum:
    case kNesterov: return {bits(h.clip), bits(h.decay), bits(h.a)};
    case kAdam:
    case kAdamW: return {bits(h.clip), bits(h.decay), bits(h.a), bits(h.b), bits(h.epsilon)};
    case kRmsprop: return {bits(h.clip), bits(h.decay), bits(h.a), bits(h.epsilon), h.in_root};
    default: return {bits(h.clip), bits(h.decay), bits(h.epsilon), h.in_root};
  }
}

struct Bounded {  // a value and the bound of its error
  Real value, error;
};
struct Stepped {
  Bounded p, m, v;
};

// Returns a bound on the relative error of the bias correction 1 - beta^t, whose power integer_power.h
// computes.
Real correction_error(Real beta, uint32_t t) {
  const Real power = std::pow(beta, Real(t));
  return std::ldexp(Real(1), -53) * (1 + (Real(t) + 34) * power / (1 - power));
}

// Returns rate x / (sqrt(square) / root + epsilon), with the errors of its parts.
Bounded quotient(Real rate, Bounded x, Bounded square, Real root, Real epsilon, Real relative, Real u) {
  const Real size = std::sqrt(square.value) / root + epsilon;
  const Real size_error =
      square.value > 0 ? square.error / (2 * std::sqrt(square.value)) / root + 3 * u * size : u * size;
  const Real update = rate * x.value / size;
  return {update, rate * x.error / size + std::abs(update) * (size_error / size + relative + 4 * u)};
}

// Returns rate g / sqrt(square + epsilon). The sum costs u / 2; root, product and quotient cost u each.
Bounded quotient_by_root(Real rate, Bounded g, Bounded square, Real epsilon, Real u) {
  const Real sum = square.value + epsilon, size = std::sqrt(sum), update = rate * g.value / size;
  return {update, rate * g.error / size + std::abs(update) * (square.error / (2 * sum) + 4 * u)};
}

Stepped formula(Kind kind, const Hyper& h, uint32_t step, Real raw, Real factor, Real p, Real m, Real v, Real u) {
  const Real limit = h.clip, decay = kind == kAdamW ? 0 : Real(h.decay), rate = h.rate;
  Real g = raw * factor;
  if (limit > 0) g = std::max(-limit, std::min(limit, g));
  const Bounded grad = {g + decay * p, 3 * u * (std::abs(raw * factor) + std::abs(decay * p))};
  Stepped made = {{p, 0}, {m, 0}, {v, 0}};
  Bounded update = {};
  const auto squares = [&](Real keep, Real take) {
    const Real next = keep * v + take * grad.value * grad.value;
    return Bounded{next, 4 * u * next + 2 * take * (std::abs(grad.value) + grad.error) * grad.error};
  };
  const auto along = [&](Bounded square) {
    return h.in_root ? quotient_by_root(rate, grad, square, h.epsilon, u)
                     : quotient(rate, grad, square, 1, h.epsilon, 0, u);
  };
  const Real t = Real(step) + 1, b1 = h.a, b2 = h.b;
  switch (kind) {
    case kSgd: update = {rate * grad.value, rate * grad.error + u * rate * std::abs(grad.value)}; break;
    case kMomentum:
    case kNesterov: {
      made.m.value = b1 * m + grad.value;
      made.m.error = grad.error + u * std::abs(b1 * m) + u * std::abs(made.m.value);
      Bounded way = made.m;
      if (kind == kNesterov)
        way = {grad.value + b1 * way.value,
               grad.error + b1 * way.error + 2 * u * (std::abs(grad.value) + std::abs(b1 * way.value))};
      update = {rate * way.value, rate * way.error + u * rate * std::abs(way.value)};
      break;
    }
    case kAdam:
    case kAdamW: {
      made.m.value = b1 * m + (1 - b1) * grad.value;
      made.m.error =
          (1 - b1) * (grad.error + 3 * u * (std::abs(grad.value) + std::abs(m))) + u * std::abs(made.m.value);
      made.v = squares(b2, 1 - b2);
      const Real first = 1 - std::pow(b1, t), second = 1 - std::pow(b2, t);
      const Real relative = correction_error(b1, step + 1) + correction_error(b2, step + 1) + 3 * u;
      update = quotient(rate / first, made.m, made.v, std::sqrt(second), h.epsilon, relative, u);
      if (kind == kAdamW) made.p = {p * (1 - rate * h.decay), 3 * u * std::abs(p)};
      break;
    }
    case kRmsprop:
      made.v = squares(b1, 1 - b1);
      update = along(made.v);
      break;
    default: made.v = squares(1, 1); update = along(made.v);
  }
  made.p.value -= update.value;
  made.p.error += update.error + u * std::abs(made.p.value);
  return made;
}

template <class T>
void expect_near(T given, const Bounded& expected, Kind kind, const char* what) {
  const Real value = Real(double(given)), room = std::abs(expected.value) + expected.error;
  EXPECT_LE(std::abs(value - expected.value),
            expected.error + (sizeof(T) == 2 ? quantum(Element<T>::kType, room) / 2 : 0))
      << kNames[kind] << ", " << what << ": expected " << double(expected.value) << ", got " << double(value);
}

template <class A, class P, class M>
void check(Kind kind, const KernelEntry& entry) {
  std::mt19937_64 random(uint64_t(kind) + 1);
  std::normal_distribution<double> normal;
  for (int trial = 0; trial < 40; ++trial) {
    const Hyper h = hyper_of(kind, random);
    const uint32_t step_now = trial == 0 ? 0 : uint32_t(random() % 1000);
    const size_t n = 1 + random() % 20;
    std::vector<A> gradient, report = {A(0.125 + double(random() % 8)), 0, 0, 0};
    std::vector<P> p;
    std::vector<M> m, v;
    for (size_t i = 0; i < n; ++i) {
      gradient.push_back(random() % 8 == 0 ? A(0) : A(normal(random)));
      p.push_back(P(A(normal(random))));
      m.push_back(trial == 0 ? M(A(0)) : M(A(normal(random))));
      v.push_back(trial == 0 ? M(A(0)) : M(A(std::abs(normal(random)))));
    }
    std::vector<float> rate = {h.rate};
    std::vector<uint32_t> step_count = {step_now};
    const std::vector<P> p_before = p;
    const std::vector<M> m_before = m, v_before = v;
    const auto size = int32_t(n);
    Step step(&entry, words_of(kind, h));
    step.operand(gradient, {size}).operand(report, {4}).operand(rate, {1});
    if (kind == kAdam || kind == kAdamW) step.operand(step_count, {1});
    step.operand(p, {size});
    if (kind == kMomentum || kind == kNesterov || kind == kAdam || kind == kAdamW) step.operand(m, {size});
    if (kind >= kAdam) step.operand(v, {size});
    ASSERT_EQ(step.run(), Code::kOk) << kNames[kind];
    for (size_t i = 0; i < n; ++i) {
      const Stepped expected =
          formula(kind, h, step_now, gradient[i], report[0], Real(A(p_before[i])), Real(A(m_before[i])),
                  Real(A(v_before[i])), std::numeric_limits<A>::epsilon() / 2);
      expect_near(p[i], expected.p, kind, "parameter");
      expect_near(m[i], expected.m, kind, "first moment");
      expect_near(v[i], expected.v, kind, "second moment");
    }
    EXPECT_EQ(step_count[0], step_now);
  }
}

#define CHECK_ALL(name)                                  \
  check<float, float, float>(k##name, k##name##F32);     \
  check<float, Bfloat16, float>(k##name, k##name##Bf16); \
  check<float, Float16, float>(k##name, k##name##F16);   \
  check<double, double, double>(k##name, k##name##F64)

TEST(optimizers, are_their_formulas) {
  check<float, float, float>(kSgd, kSgdF32);
  check<float, Bfloat16, float>(kSgd, kSgdBf16);
  check<float, Float16, float>(kSgd, kSgdF16);
  check<double, double, double>(kSgd, kSgdF64);
  CHECK_ALL(Momentum);
  CHECK_ALL(Nesterov);
  CHECK_ALL(Adam);
  CHECK_ALL(AdamW);
  CHECK_ALL(Rmsprop);
  CHECK_ALL(Adagrad);
}

TEST(optimizers, keep_moments_in_bfloat16) {
  check<float, float, Bfloat16>(kMomentum, kMomentumF32MomentsBf16);
  check<float, float, Bfloat16>(kNesterov, kNesterovF32MomentsBf16);
  check<float, float, Bfloat16>(kAdam, kAdamF32MomentsBf16);
  check<float, float, Bfloat16>(kAdamW, kAdamWF32MomentsBf16);
  check<float, float, Bfloat16>(kRmsprop, kRmspropF32MomentsBf16);
  check<float, float, Bfloat16>(kAdagrad, kAdagradF32MomentsBf16);
}

// Adam's first step is the rate times the sign of the gradient, whatever the gradient's size. At step 2^32 - 1, t
// must not wrap to 0.
TEST(adam, is_right_at_the_first_step_and_the_last) {
  for (const uint32_t at : {0u, 0xFFFFFFFFu}) {
    std::vector<float> g = {1e-3f, -200}, report = {1, 0, 0, 0}, rate = {0.5f}, p = {1, 1}, m = {0, 0}, v = {0, 0};
    std::vector<uint32_t> step = {at};
    ASSERT_EQ(Step(&kAdamF32, {0, 0, bits(0.9), bits(0.999), bits(1e-12)})
                  .operand(g, {2})
                  .operand(report, {4})
                  .operand(rate, {1})
                  .operand(step, {1})
                  .operand(p, {2})
                  .operand(m, {2})
                  .operand(v, {2})
                  .run(),
              Code::kOk);
    const float update = at == 0 ? 0.5f : 0.5f * (1 - 0.9f) / std::sqrt(1 - 0.999f);
    EXPECT_NEAR(p[0], 1 - update, 4e-7);
    EXPECT_NEAR(p[1], 1 + update, 4e-7);
  }
}

TEST(integer_power, loses_what_its_header_says) {
  for (const double b : {0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, double(0.999f)})
    for (uint32_t n = 0; n < 3000; n = n < 40 ? n + 1 : n * 5 / 4) {
      const Real exact = std::pow(Real(b), Real(n));
      EXPECT_LE(std::abs(Real(integer_power(b, n)) - exact),
                (n + 32) * std::ldexp(exact, -53) + std::ldexp(exact, -60) + Real(std::numeric_limits<double>::min()))
          << b << "^" << n;
    }
  EXPECT_EQ(integer_power(0.999, 0xFFFFFFFF), 0);
}

TEST(optimizers, refuse_attributes_and_shapes) {
  std::vector<float> g(4), report(4), rate(2), p(4), m(4), v(4);
  std::vector<uint32_t> count(2);
  const auto adam = [&](std::vector<uint32_t> words, int32_t n = 4, int32_t r = 4, int32_t s = 1, int32_t k = 4) {
    return Step(&kAdamF32, words)
        .operand(g, {n})
        .operand(report, {r})
        .operand(rate, {s})
        .operand(count, {s})
        .operand(p, {4})
        .operand(m, {k})
        .operand(v, {4})
        .run();
  };
  const std::vector<uint32_t> good = {bits(0), bits(0), bits(0.9), bits(0.999), bits(1e-8)};
  EXPECT_EQ(adam(good), Code::kOk);
  for (size_t word = 0; word < 5; ++word)
    for (const double bad : {-0.5, 1.0, double(NAN), double(INFINITY), -double(INFINITY), 2e38}) {
      std::vector<uint32_t> words = good;
      words[word] = bits(bad);
      const bool allowed = bad == 1.0 && word != 2 && word != 3;  // clipping, decay, epsilon
      EXPECT_EQ(adam(words), allowed ? Code::kOk : Code::kAttribute) << word << ": " << bad;
    }
  EXPECT_EQ(adam({}), Code::kAttribute);  // epsilon 0
  EXPECT_EQ(adam(good, 3), Code::kShapeWeights);
  EXPECT_EQ(adam(good, 4, 3), Code::kShapeInput);
  EXPECT_EQ(adam(good, 4, 4, 2), Code::kShapeInput);
  EXPECT_EQ(adam(good, 4, 4, 1, 2), Code::kShapeWeights);
  const auto one_moment = [&](const KernelEntry& entry, const std::vector<uint32_t>& words) {
    return Step(&entry, words)
        .operand(g, {4})
        .operand(report, {4})
        .operand(rate, {1})
        .operand(p, {4})
        .operand(m, {4})
        .run();
  };
  for (const double bad : {-0.1, 1.1, double(NAN)})
    EXPECT_EQ(one_moment(kMomentumF32, {0, 0, bits(bad)}), Code::kAttribute);
  EXPECT_EQ(one_moment(kRmspropF32, {0, 0, bits(0.9), bits(1e-8), 1}), Code::kOk);
  EXPECT_EQ(one_moment(kRmspropF32, {0, 0, bits(1), bits(1e-8)}), Code::kAttribute);
  EXPECT_EQ(one_moment(kRmspropF32, {0, 0, bits(0.9), bits(1e-8), 2}), Code::kAttribute);
  EXPECT_EQ(one_moment(kAdagradF32, {0, 0, bits(1e-8), 1}), Code::kOk);
  EXPECT_EQ(one_moment(kAdagradF32, {0, 0, 0}), Code::kAttribute);
  EXPECT_EQ(one_moment(kAdagradF32, {0, 0, bits(1e-8), 2}), Code::kAttribute);
}

}  // namespace
}  // namespace nacre::test
