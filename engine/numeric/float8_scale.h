// Makes one scale from one amax, for float8 tensors. NUMERICS.md section 9.
//
//   delayed_scale   TransformerEngine: the scale multiplies, q = saturated(x * scale)
//   keras_step      Keras: the scale is a step, q = saturated(x / step)
//   current_scale   TransformerEngine's current scaling, from this tensor's own amax; the scale multiplies
//
// Each of these returns what happened, for the counters. The caller stores the scale. amax is a magnitude or NaN.
// format_max is the largest number of the format: 448 for E4M3, 57344 for E5M2.
//
// Example:
//   ScaleCounters counters;
//   const NewScale made = delayed_scale(amax_value(amax_bits(pixels)), 1, 448, 0, true);   // the scale before was 1
//   counters.count(made.event);
//   const Float8E4M3 code = Float8E4M3::saturated(pixels[0] * made.scale);
//   std::printf("%g, %u overflows\n", double(code) / double(made.scale), unsigned(counters[ScaleEvent::kOverflow]));
#pragma once

#include <cstdint>
#include <limits>

#include "engine/base/isa.h"
#include "engine/numeric/amax.h"
#include "engine/numeric/power_of_two.h"

namespace nacre::inline NACRE_ISA {

enum class ScaleEvent : uint8_t {
  kUpdated,    // the scale was made from the amax
  kZero,       // amax is 0: no information
  kInfinite,   // amax is infinite
  kNan,        // amax is NaN
  kOverflow,   // amax is tiny: the multiplying scale was beyond float32, or its inverse not a normal number
  kUnderflow,  // amax is huge, or the margin: the multiplying scale was not a normal number
  kCount
};

struct ScaleCounters {  // counters start at 0 and are part of the state
  uint32_t events[int(ScaleEvent::kCount)] = {};

  constexpr void count(ScaleEvent event) { ++events[int(event)]; }
  constexpr uint32_t operator[](ScaleEvent event) const { return events[int(event)]; }
};

// The scale to use from now on, and how it came about.
struct NewScale {
  float scale;
  ScaleEvent event;
};

inline constexpr float kLargest = std::numeric_limits<float>::max();
inline constexpr float kSmallestNormal = std::numeric_limits<float>::min();

// Returns kZero, kInfinite or kNan for such an amax, else kUpdated.
constexpr ScaleEvent event_of(float amax) {
  if (is_nan(amax)) return ScaleEvent::kNan;
  if (is_infinite(amax)) return ScaleEvent::kInfinite;
  return amax > 0 ? ScaleEvent::kUpdated : ScaleEvent::kZero;
}

// Does NUMERICS.md eq. 24. Returns max 2^-margin / amax, at most the largest float32. If amax is 0, infinite or NaN,
// returns the old scale. With `guard` the scale is at least the smallest normal number, whose reciprocal is finite.
// TransformerEngine has no guard.
constexpr NewScale delayed_scale(float amax, float old_scale, float format_max, int margin, bool guard) {
  ScaleEvent event = event_of(amax);
  float scale = event == ScaleEvent::kUpdated ? format_max * power_of_two(-margin) / amax : old_scale;
  if (is_infinite(scale)) {
    scale = kLargest;
    if (event == ScaleEvent::kUpdated) event = ScaleEvent::kOverflow;
  } else if (scale < kSmallestNormal && event == ScaleEvent::kUpdated) {
    event = ScaleEvent::kUnderflow;
    if (guard) scale = kSmallestNormal;
  }
  return {scale, event};
}

// Does NUMERICS.md eq. 27. Returns 1 / sf, sf = (max / amax) / 2^margin. If amax is 0, infinite or NaN, sf is 1 / old.
// Keras inverts twice even then, so an idle update can move the step by one ulp. With `guard` it does not, and the
// step stays within the normal numbers. Without it, as in Keras, a tiny amax gives a step of 0.
constexpr NewScale keras_step(float amax, float old_step, float format_max, int margin, bool guard) {
  ScaleEvent event = event_of(amax);
  if (event != ScaleEvent::kUpdated) return {guard ? old_step : 1 / (1 / old_step), event};
  const float reciprocal = format_max / amax / power_of_two(margin);
  float step = 1 / reciprocal;
  if (step < kSmallestNormal) event = ScaleEvent::kOverflow;
  if (reciprocal < kSmallestNormal) event = ScaleEvent::kUnderflow;
  if (guard && event == ScaleEvent::kOverflow) step = kSmallestNormal;
  if (guard && event == ScaleEvent::kUnderflow && is_infinite(step)) step = kLargest;
  return {step, event};
}

// The rule of current_scale.
struct CurrentScaling {
  float format_max;
  float epsilon = 0;          // a smaller amax is raised to it
  bool power_of_two = false;  // clears the mantissa of the scale; the exponents of q are then those of x, shifted
};

// NUMERICS.md eq. 28. If amax is 0, infinite or NaN, the scale becomes 1, and the last scale is not kept.
constexpr NewScale current_scale(float amax, const CurrentScaling& rule) {
  if (amax < rule.epsilon) amax = rule.epsilon;
  ScaleEvent event = event_of(amax);
  if (event != ScaleEvent::kUpdated) return {1, event};
  float scale = rule.format_max / amax;
  if (is_infinite(scale)) {
    scale = kLargest;
    event = ScaleEvent::kOverflow;
  }
  return {rule.power_of_two ? cut_to_power_of_two(scale) : scale, event};
}

}  // namespace nacre::inline NACRE_ISA
