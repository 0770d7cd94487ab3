// Learning rates as functions of the step. The caller writes one into `learning_rate` before each update.
//
// Example:
//   const Schedule schedule = {.kind = ScheduleKind::kCosine, .rate = 0.1f, .steps = 1000, .warmup_steps = 50};
//   if (!schedule.valid()) return {Code::kArgument};
//   NACRE_TRY(trainer.commit(schedule.at(steps_done), &report));   // steps_done: updates applied so far
//
// Let W = warmup_steps, w = warmup_start, r = rate, T = steps, e = end, and let s = step - W be the step after the
// warm-up:
//
//   warm-up    step < W: r (w + (1 - w) step / W)                Keras' CosineDecay(initial_learning_rate = w r,
//                                                                warmup_target = r);
//                                                                torch's LinearLR(w, 1, W)
//   constant   r
//   step       r gamma^floor(s / T)                              torch's StepLR, Keras' ExponentialDecay(staircase)
//   linear     r (1 + (e - 1) min(s, T) / T)                     torch's LinearLR(1, e, T), Keras'
//                                                                PolynomialDecay(power 1)
//   cosine     r (e + (1 - e) (1 + cos(pi min(s, T) / T)) / 2)   Loshchilov & Hutter 2017, eq. 5; Keras'
//                                                                CosineDecay(alpha = e),
//                                                                torch's CosineAnnealingLR(eta_min = e r) up to T
//   one-cycle  r is the peak: the rate goes from r w to r in the first pct of the steps, then to r w e, along a cosine
//              (Smith & Topin 2018, in torch's form, OneCycleLR: div_factor = 1 / w, final_div_factor = 1 / e):
//              a = pct T - 1, b = T - 1;   step <= a: between r w and r at step / a;   else between r and r w e at
//              (step - a) / (b - a), at most 1;   between x and y at q: y + (x - y) (1 + cos(pi q)) / 2
//
// One-cycle has its own warm-up, so W is 0 there. Rates are computed in float64 without libm, the same number on
// every machine, and rounded once.
#pragma once

#include <cstdint>

#include "engine/base/isa.h"
#include "engine/numeric/integer_power.h"

namespace nacre::inline NACRE_ISA {

// The formulas above.
enum class ScheduleKind : uint8_t { kConstant = 0, kStep = 1, kCosine = 2, kLinear = 3, kOneCycle = 4, kCount };

// Returns cos(pi x) for 0 <= x <= 1, within 2^-50. The angle has an error of 1.6 2^-52, the last products have 2^-51,
// and the first omitted term of Taylor's series is below 2^-55 on [0, pi / 2].
constexpr double cosine_of_half_turns(double x) {
  constexpr double kPi = 3.14159265358979323846;
  const bool beyond = x > 0.5;
  const double angle = kPi * (beyond ? 1 - x : x), square = angle * angle;
  double sum = 1;
  for (int k = 20; k > 0; k -= 2) sum = 1 - square / double(k * (k - 1)) * sum;
  return beyond ? -sum : sum;
}

struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  float rate = 0.01f;         // r: the highest rate, 0 to 1e30
  uint32_t steps = 1;         // T, at least 1; for `step`: steps from one factor to the next
  float gamma = 0.1f;         // for `step`: the factor, 0 to 1
  float end = 0;              // e, 0 to 1: for linear and cosine r e is the last rate, for one-cycle r w e
  uint32_t warmup_steps = 0;  // W; 0 for one-cycle
  float warmup_start = 0;     // w, 0 to 1: the share of r at step 0 of a warm-up or one-cycle
  float pct = 0.3f;           // for one-cycle, the share of the steps in which the rate rises; 1 < pct T < T

  // Returns whether everything is finite and in range, so that at() is finite and not negative for every step.
  constexpr bool valid() const {
    const auto within = [](float v, float low, float high) { return v >= low && v <= high; };  // false for NaN
    if (kind >= ScheduleKind::kCount || steps == 0 || !within(rate, 0, 1e30f)) return false;
    if (!within(gamma, 0, 1) || !within(end, 0, 1) || !within(warmup_start, 0, 1)) return false;
    if (kind != ScheduleKind::kOneCycle) return true;
    const double rise = double(pct) * steps - 1;
    return warmup_steps == 0 && within(pct, 0, 1) && rise > 0 && rise < double(steps) - 1;
  }

  // Returns the rate of a step, counted from 0. The schedule must be valid.
  constexpr float at(uint32_t step) const {
    const double r = double(rate), w = double(warmup_start);
    if (step < warmup_steps) return float(r * (w + (1 - w) * (double(step) / warmup_steps)));
    return float(r * share(step - warmup_steps));
  }

 private:
  static constexpr double between(double x, double y, double q) {
    return y + (x - y) * (1 + cosine_of_half_turns(q < 1 ? q : 1)) / 2;
  }

  constexpr double share(uint32_t s) const {
    const double q = s < steps ? double(s) / steps : 1, e = double(end), w = double(warmup_start);
    switch (kind) {
      case ScheduleKind::kStep: return integer_power(double(gamma), s / steps);
      case ScheduleKind::kCosine: return between(1, e, q);
      case ScheduleKind::kLinear: return 1 + (e - 1) * q;
      case ScheduleKind::kOneCycle: {
        const double rise = double(pct) * steps - 1;
        return s <= rise ? between(w, 1, s / rise) : between(1, w * e, (s - rise) / (steps - 1 - rise));
      }
      default: return 1;
    }
  }
};

}  // namespace nacre::inline NACRE_ISA
