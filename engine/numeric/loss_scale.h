// Loss scaling multiplies the loss by a scale and divides the gradients by it. The scale follows overflows.
// NUMERICS.md section 10.
//
//   LossScaler rule = loss_scaler(LossScaleSystem::kNacre);
//   LossScaleState state = rule.start();                          // saved with the model
//   const LossVerdict verdict = rule.step(state, gradients_of(amax_bits(gradients)));
//   if (verdict.apply) ...                                        // gradients were made with verdict.scale
//
// Nothing is scaled or skipped here.
#pragma once

#include <cstdint>

#include "engine/base/isa.h"
#include "engine/numeric/amax.h"
#include "engine/numeric/float8_scale.h"
#include "engine/numeric/policy.h"

namespace nacre::inline NACRE_ISA {

enum class LossScaleSystem : uint8_t {
  kNacre,       // clamped to [min, max]; reports overflow at the floor; powers of two, so unscaling is exact
  kTensorFlow,  // TF1, tf.keras 2: floor 1, grows only to finite scales
  kKeras,       // Keras 3: neither floor nor ceiling
  kJmp,         // as kTensorFlow, but the floor may be chosen
  kFastai,      // fastai v1: a ceiling; at scale 1 overflow is ignored
  kAxon,        // applies every update; NaN counts as finite
};

struct Gradients {  // whether the gradients of one step are finite
  bool infinite = false, nan = false;

  constexpr bool finite() const { return !infinite && !nan; }
};

// Makes both flags from the maximum of the gradients' magnitude bits, in which NaN hides infinity.
constexpr Gradients gradients_of(uint32_t amax_bits) { return {amax_bits == kInfinityBits, amax_bits > kInfinityBits}; }

struct LossScaleState {   // 0 at first unless said otherwise
  float scale;            // LossScaler::start sets it at first
  uint32_t good = 0;      // finite steps since the scale changed
  uint32_t skipped = 0;   // steps not applied, in all
  uint32_t at_floor = 0;  // skipped steps in a row at the lowest scale: scaling cannot cure the overflow
};

struct LossVerdict {
  bool apply;              // whether to commit this step
  float scale;             // the scale with which this step's gradients were made
  bool overflow_at_floor;  // the next step overflows too, unless the loss changes
};

struct LossScaler {
  LossScaleSystem system = LossScaleSystem::kNacre;
  LossScale kind = LossScale::kDynamic;
  float initial = 32768;  // 2^15
  uint32_t period = 2000;
  float factor = 2;
  float min = 1, max = 16777216;  // 2^24

  constexpr LossScaleState start() const { return {.scale = kind == LossScale::kNone ? 1 : initial}; }

  // Returns whether the rule is valid. kNacre takes powers of two only, so that unscaling is exact. The imitated
  // systems allow any positive scale that is dynamic, and a fixed scale of at least 1.
  constexpr bool valid() const {
    if (!is_finite(initial) || !(initial > 0) || !is_finite(factor) || !(factor > 1) || period == 0) return false;
    if (system != LossScaleSystem::kNacre) return kind != LossScale::kFixed || initial >= 1;
    const bool exact = power(initial) && power(factor) && power(min) && power(max);
    return exact && min <= max && (kind != LossScale::kDynamic || (min <= initial && initial <= max));
  }

  // Does NUMERICS.md eq. 29 to 33.
  constexpr LossVerdict step(LossScaleState& state, Gradients gradients) const {
    LossVerdict verdict = {true, state.scale, false};
    const bool overflow = system == LossScaleSystem::kAxon ? gradients.infinite : !gradients.finite();
    if (kind != LossScale::kDynamic) {
      verdict.apply = system != LossScaleSystem::kNacre || !overflow;  // the other systems do not check
    } else if (overflow && !(system == LossScaleSystem::kFastai && state.scale <= 1)) {
      verdict.apply = system == LossScaleSystem::kAxon;
      verdict.overflow_at_floor = system == LossScaleSystem::kNacre && state.scale <= min;
      state.scale = shrunk(state.scale);
      state.good = 0;
    } else if (++state.good >= period) {
      grow(state);
    }
    state.skipped += verdict.apply ? 0 : 1;
    state.at_floor = verdict.overflow_at_floor ? state.at_floor + 1 : 0;
    return verdict;
  }

 private:
  static constexpr bool power(float v) { return v > 0 && is_finite(v) && cut_to_power_of_two(v) == v; }

  constexpr float shrunk(float scale) const {
    const float less = scale / factor;
    const bool floor = system != LossScaleSystem::kKeras && system != LossScaleSystem::kFastai;
    return less >= min || !floor ? less : min;
  }

  constexpr void grow(LossScaleState& state) const {
    if (system == LossScaleSystem::kFastai && state.scale >= max) return;  // the counter `good` continues
    const float more = state.scale * factor;
    state.good = 0;
    if (system == LossScaleSystem::kKeras) state.scale = more;
    else if (system == LossScaleSystem::kNacre) state.scale = more < max ? more : max;
    else if (is_finite(more)) state.scale = more;
  }
};

// Returns the defaults of each system.
constexpr LossScaler loss_scaler(LossScaleSystem system, LossScale kind = LossScale::kDynamic) {
  LossScaler rule = {.system = system, .kind = kind};
  if (system != LossScaleSystem::kNacre) rule.max = kLargest;
  if (system == LossScaleSystem::kFastai) {
    rule.initial = kind == LossScale::kDynamic ? 65536 : 512;
    rule.period = 1000;
    rule.max = 16777216;
  }
  return rule;
}

}  // namespace nacre::inline NACRE_ISA
