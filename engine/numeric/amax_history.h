// Delayed scaling quantizes a float8 tensor with a scale from the amaxes of earlier steps. NUMERICS.md section 9.
//
// AmaxHistory is a view over the caller's memory (state, saved with the model). It holds the amaxes, in the layout of
// the imitated system, and the scale for the next step. Call update once per step with the step's amax, the maximum
// over micro-batches and ranks:
//
//   AmaxHistory{amaxes, &scale, &counters}.update(amax, rule);
//
// A history starts as zeros with scale 1. Nothing is quantized here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/isa.h"
#include "engine/numeric/float8_scale.h"
#include "engine/numeric/policy.h"

namespace nacre::inline NACRE_ISA {

struct DelayedScaling {
  float format_max;  // 448 for E4M3, 57344 for E5M2
  UpdateOrder order = UpdateOrder::kTransformerEngine;
  AmaxRule rule = AmaxRule::kMax;
  int8_t margin = 0;
  // TransformerEngine has two paths. In the fused one (its default), an amax of 0 means "not used in this step" and
  // changes nothing, and the maximum ignores NaN. In the unfused one, 0 is an amax like any other, and a NaN becomes
  // the maximum and freezes the scale.
  bool fused = true;
  bool guard = true;  // guards that the imitated system lacks (float8_scale.h); if false, its numbers to the bit
};

struct AmaxHistory {
  std::span<float> amaxes;  // the history holds at least one amax
  float* scale;             // TransformerEngine: a factor; Keras: a step
  ScaleCounters* counters;  // may be null

  // Returns the amax from which the scale was made, or would have been made.
  constexpr float update(float amax, const DelayedScaling& rule) const {
    return rule.order == UpdateOrder::kKeras ? update_keras(amax, rule) : update_transformer_engine(amax, rule);
  }

 private:
  // Does NUMERICS.md eq. 25. Layout: [0, oldest, .., newest]. Today's amax counts at the next step.
  constexpr float update_transformer_engine(float amax, const DelayedScaling& rule) const {
    const float today = amaxes[0] = larger(amaxes[0], amax);
    float used = 0;
    if (!rule.fused || today != 0) {
      used = rule.rule == AmaxRule::kMostRecent ? today : largest(rule.fused);
      roll();
      amaxes[0] = 0;
    }
    take(delayed_scale(used, *scale, rule.format_max, rule.margin, rule.guard));
    return used;
  }

  // Does NUMERICS.md eq. 26. Layout: [newest, oldest, .., second newest]. Today's amax counts at the step after the
  // next.
  constexpr float update_keras(float amax, const DelayedScaling& rule) const {
    const float used = rule.rule == AmaxRule::kMostRecent ? amaxes[0] : largest(false);
    take(keras_step(used, *scale, rule.format_max, rule.margin, rule.guard));
    roll();
    amaxes[0] = amax;
    return used;
  }

  static constexpr float larger(float a, float b) { return magnitude_bits(b) > magnitude_bits(a) ? b : a; }

  constexpr float largest(bool pass_over_nan) const {
    float largest = 0;
    for (const float amax : amaxes)
      if (!pass_over_nan || !is_nan(amax)) largest = larger(largest, amax);
    return largest;
  }

  constexpr void roll() const {  // moves each entry one to the front; the first becomes the last
    const float first = amaxes[0];
    for (size_t i = 1; i < amaxes.size(); ++i) amaxes[i - 1] = amaxes[i];
    amaxes[amaxes.size() - 1] = first;
  }

  constexpr void take(const NewScale& next) const {
    *scale = next.scale;
    if (counters != nullptr) counters->count(next.event);
  }
};

}  // namespace nacre::inline NACRE_ISA
