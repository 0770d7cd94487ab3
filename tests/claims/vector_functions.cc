// Claim vector_functions: the functions of engine/simd/math.h have the accuracy that it states, in every tier that
// runs here. They are compared with float64 over all float32 numbers (one in `step`; all with step 1), in units of
// the last place of the exact result. NaN, infinities and results that overflow are compared too.
//
//   vector_functions [step]
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/ops/unary.h"
#include "ports/vector/tiers.h"
#include "tests/claims/claims.h"
#include "tests/one_step.h"
#include "tools/graph/bound_step.h"

namespace nacre::test {
namespace {

struct Function {
  const char *name, *entry;
  uint32_t word;
  double (*exact)(double x);
  double ulp;  // largest allowed error
};

// Returns 0 if e^-x is infinite, as the reference does.
double sigmoid(double x) { return std::isinf(float(std::exp(-x))) ? 0 : 1 / (1 + std::exp(-x)); }

const uint32_t kOne = std::bit_cast<uint32_t>(1.0f);
constexpr Function kFunctions[] = {
    {"exp", "kUnaryF32", Unary::kExp, [](double x) { return std::exp(x); }, 1.1},
    {"expm1 (elu)", "kUnaryF32", Unary::kElu, [](double x) { return x > 0 ? x : std::expm1(x); }, 1.2},
    {"log", "kUnaryF32", Unary::kLog, [](double x) { return std::log(x); }, 0.9},
    {"log1p (softplus)", "kUnaryF32", Unary::kSoftplus,
     [](double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }, 1.8},
    {"sigmoid", "kSigmoidF32", 0, &sigmoid, 2.5},
    {"tanh", "kTanhF32", 0, [](double x) { return std::tanh(x); }, 2.6},
    {"erf", "kUnaryF32", Unary::kErf, [](double x) { return std::erf(x); }, 1.7},
    {"sine (sin)", "kUnaryF32", Unary::kSin, [](double x) { return std::sin(x); }, 2.3},
    {"sine (cos)", "kUnaryF32", Unary::kCos, [](double x) { return std::cos(x); }, 2.3},
};

// Returns the distance of `got` from `exact` in units of exact's last place. Subnormal numbers use the smallest
// number's unit.
double distance(float got, double exact) {
  constexpr double kPast = 0x1p128 - 0x1p103;  // larger numbers round to infinity
  if (std::isnan(exact)) return std::isnan(got) ? 0 : HUGE_VAL;
  if (std::isnan(got)) return HUGE_VAL;
  const double bounded = std::fabs(exact) >= kPast ? std::copysign(0x1p128, exact) : exact,
               value = std::isinf(got) ? std::copysign(0x1p128, double(got)) : double(got);
  const int exponent = bounded == 0 ? -126 : std::max(-126, std::min(127, std::ilogb(bounded)));
  return std::fabs(value - bounded) / std::ldexp(1.0, exponent - 23);
}

// One step of an entry, over rows of `count` numbers.
class Row {
 public:
  Row(const KernelEntry& entry, const Function& f, int count)
      : words_{f.word, kOne, kOne}, x_(make_array(ElementType::kFloat32, {count})), y_(x_),
        records_{record_of(x_), record_of(y_)}, tensors_{{x_.bytes.data(), records_}, {y_.bytes.data(), records_ + 1}},
        step_(entry, {words_, 3}, tensors_) {
    if (step_.prepare() != Code::kOk) std::abort();
  }
  const float* run(const std::vector<float>& x) {
    std::memcpy(x_.bytes.data(), x.data(), x_.bytes.size());
    if (step_.run() != Code::kOk) std::abort();
    return reinterpret_cast<const float*>(y_.bytes.data());
  }

 private:
  uint32_t words_[3];
  Array x_, y_;
  TensorRecord records_[2];
  Tensor tensors_[2];
  tools::BoundStep step_;
};

struct Worst {
  double ulp = 0;
  float x = 0, y = 0;
};

const KernelEntry* find(const VectorTier& tier, const char* name) {
  for (const reference::NamedEntry& named : tier.list)
    if (std::strcmp(named.name, name) == 0) return named.entry;
  return nullptr;
}

// NEON of ARMv7 takes subnormal numbers for 0 and makes none, so these do not count there.
bool counts(const VectorTier& tier, float x, double exact) {
  const bool normal = std::fabs(x) >= 0x1p-126f && std::fabs(exact) >= 0x1p-126;
  return normal || std::strcmp(tier.name, "armv7") != 0;
}

std::vector<Worst> measure(const Function& f, const std::vector<VectorTier>& tiers, uint64_t step) {
  constexpr int kCount = 1 << 14;
  std::vector<Worst> worst(tiers.size());
  std::vector<std::unique_ptr<Row>> rows;
  for (const VectorTier& tier : tiers) rows.push_back(std::make_unique<Row>(*find(tier, f.entry), f, kCount));
  std::vector<float> x(kCount);
  std::vector<double> exact(kCount);
  for (uint64_t bits = 0; bits < uint64_t{1} << 32;) {
    for (int i = 0; i < kCount; ++i, bits += step) x[size_t(i)] = std::bit_cast<float>(uint32_t(bits));
    for (size_t i = 0; i < x.size(); ++i) exact[i] = f.exact(double(x[i]));
    for (size_t t = 0; t < tiers.size(); ++t) {
      const float* const y = rows[t]->run(x);
      for (size_t i = 0; i < x.size(); ++i)
        if (const double ulp = distance(y[i], exact[i]); ulp > worst[t].ulp && counts(tiers[t], x[i], exact[i]))
          worst[t] = {ulp, x[i], y[i]};
    }
  }
  return worst;
}

}  // namespace

NACRE_CLAIM(vector_functions) {
  const uint64_t step = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 509;  // a prime
  std::vector<VectorTier> tiers;
  each_vector_tier([&](const VectorTier& tier) {
    if (tier.runs_here && !tier.emulated) tiers.push_back(tier);
  });
  int failures = 0;
  for (const Function& f : kFunctions) {
    const std::vector<Worst> worst = measure(f, tiers, step);
    std::printf("%-18s", f.name);
    for (size_t t = 0; t < tiers.size(); ++t) {
      std::printf("  %s %.3f (x = %.9g)", tiers[t].name, worst[t].ulp, double(worst[t].x));
      if (worst[t].ulp <= f.ulp) continue;
      ++failures;
      std::printf(" ABOVE %.1f: %.9g", f.ulp, double(worst[t].y));
    }
    std::printf("\n");
  }
  if (failures > 0) {
    std::printf("CLAIM vector_functions NOT SHOWN: %d are less accurate than stated\n", failures);
    return 1;
  }
  std::printf("CLAIM vector_functions shown: %zu functions in %zu tiers, one float32 number in %llu\n",
              std::size(kFunctions), tiers.size(), static_cast<unsigned long long>(step));
  return 0;
}

}  // namespace nacre::test
