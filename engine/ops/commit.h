// Defines the steps that decide whether a training step commits, and that commit values other than the parameters.
//
//   verdict             whether the sums of the step may be applied, and the factor of its gradients
//   update_statistics   running means and variances of batch norm
//   update_range        a running range of activations
//   update_scales       a float8 scale and its amax history             engine/numeric/amax_history.h
//   adjust_loss_scale   the loss scale, after every step                engine/numeric/loss_scale.h
//   count_step          step = step + 1, at most 2^32 - 1
//
// In the programs that the converter makes, all but verdict and adjust_loss_scale are guarded by the verdict's
// `apply`.
#pragma once

#include <cmath>
#include <type_traits>

#include "engine/base/isa.h"
#include "engine/numeric/amax_history.h"
#include "engine/numeric/element.h"
#include "engine/numeric/loss_scale.h"
#include "engine/ops/parameters.h"
#include "engine/ops/parts.h"

namespace nacre::inline NACRE_ISA {

// Computes the verdict over gradients G [n] of type A, with loss L (a sum), count N and loss scale s:
//
//   amax   = max_i |G_i| as float32 bits: infinity above every number, NaN above infinity
//   norm   = |G|_2 / (s N), of the unscaled mean gradient
//   factor = min(1, clip_norm / norm) / (s N)          1 / (s N) if clip_norm is 0; Pascanu et al. 2013, algorithm 1
//   apply  = norm, and so every G_i and every G_i / (s N), and L finite, N and s > 0 and finite, factor finite
//   report = {factor, norm, L / N, s}                  factor is 0 if apply is 0
//
// The sum of squares is that of G 2^-e, where e is the exponent of the largest, so it cannot overflow. It is
// compensated (Kahan 1965): its error is 2 u + O(n u^2) instead of n u, and each square adds u (float32: norm within
// 3 ulp for n <= 2^20). It is made block by block. The compensation left from one block goes into the next one. The
// factor is divided by s and then by N, not by s N, because s may be 2^127. A double G is compared by its own bits,
// so that no infinity or NaN is lost or made. Its amax is then rounded to float32, finite numbers beyond float32 to
// the largest.
struct Verdict {
  int elements;
  float clip_norm;

  static constexpr Verdict from(const Words& words, const Operands& operands) {
    return {operands[0].elements(), words.real(0)};
  }

  constexpr uint64_t work() const { return uint64_t(elements) * 2; }

  template <class A>
  constexpr void forward(const A* gradients, const A* loss, const float* count, const float* loss_scale,
                         uint32_t* apply, uint32_t* amax, A* report, Parts<A> parts = {}) const {
    A* const sums = parts.data + (parts.phase == 0 ? 0 : blocks());  // after the largest magnitudes of the blocks
    if (parts.phase == 1) {
      for (int b : teams(blocks()))
        if (const A v = largest_magnitude(gradients + b * kBlock, length_of(b)); leads()) parts.data[b] = v;
    } else if (parts.phase == 2) {
      const A largest = largest_magnitude(parts.data, blocks());
      const A scale = finite(largest) && largest > 0 ? scale_of(largest) : A(0);
      for (int b : teams(blocks()))
        if (const Sum<A> of = squares(gradients, b, scale); leads()) sums[2 * b] = of.sum, sums[2 * b + 1] = of.lost;
    } else if (first_team()) {
      const bool whole = parts.phase == 0;
      const auto all = [&](A scale) {
        Sum<A> sum = {0, 0};
        for (int b : of_team(blocks())) {
          const Sum<A> block = whole ? squares(gradients, b, scale) : Sum<A>{sums[2 * b], sums[2 * b + 1]};
          sum.lost += block.lost;
          sum.add(block.sum);
        }
        return team_sum(sum.sum);
      };
      const A largest = whole ? largest_magnitude(gradients, elements) : largest_magnitude(parts.data, blocks());
      judge(largest, all, loss, count, loss_scale, apply, amax, report);
    }
  }

  // Writes the verdict. `largest` is the largest |G|, compared by its bits. squares(2^-e) returns the sum of squares
  // of G 2^-e.
  template <class A, class Squares>
  constexpr void judge(A largest, const Squares& squares, const A* loss, const float* count, const float* loss_scale,
                       uint32_t* apply, uint32_t* amax, A* report) const {
    const A n = A(count[0]), s = A(loss_scale[0]);
    const bool counted = n > 0 && finite(n) && s > 0 && finite(s);
    const A norm = counted ? norm_of(squares, largest, s, n) : A(0);
    if (!leads()) return;
    amax[0] = magnitude_bits(to_float(largest));
    const A limit = A(clip_norm), factor = (limit > 0 && norm > limit ? limit / norm : A(1)) / s / n;
    apply[0] = counted && finite(norm) && finite(loss[0]) && finite(factor) ? 1 : 0;
    report[0] = apply[0] != 0 ? factor : A(0);
    report[1] = norm;
    report[2] = n > 0 ? loss[0] / n : A(0);
    report[3] = s;
  }

  // Returns 2^-e of the formulas for a positive finite `largest`.
  template <class A>
  static constexpr A scale_of(A largest) {
    return std::ldexp(A(1), -exponent_of(largest));
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* outputs) {
    if (!real_within(words, 0, 0, kLargest)) return Code::kAttribute;
    for (const int i : {1, 2, 3})
      if (!is(operands, i, 1)) return Code::kShapeInput;
    outputs[0].push(1);
    outputs[1].push(1);
    outputs[2].push(4);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"clip_norm", Coding::kReal}};
  static constexpr const char* kInputs[] = {"gradients", "loss", "count", "loss_scale"};
  static constexpr const char* kOutputs[] = {"apply", "amax", "report"};

  // Numbers in a block. Each block is one part.
  static constexpr int kBlock = 1024;
  static constexpr int blocks_of(int numbers) { return (numbers - 1) / kBlock + 1; }
  // Returns the count of parts: a largest magnitude and two sums for each block of gradients.
  static constexpr int64_t parts_of(const Operands& operands) {
    return int64_t{blocks_of(int(operands[0].elements()))} * 3;
  }

 private:
  template <class A>
  using Bits = std::conditional_t<sizeof(A) == 4, uint32_t, uint64_t>;
  template <class A>
  static constexpr Bits<A> kInfinity = std::bit_cast<Bits<A>>(std::numeric_limits<A>::infinity());

  template <class A>
  static constexpr Bits<A> magnitude(A v) {
    return std::bit_cast<Bits<A>>(v) & (~Bits<A>{0} >> 1);
  }
  template <class A>
  static constexpr bool finite(A v) {
    return magnitude(v) < kInfinity<A>;
  }

  constexpr int blocks() const { return blocks_of(elements); }
  constexpr int length_of(int block) const {
    const int left = elements - block * kBlock;
    return left < kBlock ? left : kBlock;
  }

  template <class A>
  static constexpr A largest_magnitude(const A* numbers, int count) {
    Bits<A> largest = 0;
    for (int i : of_team(count)) {
      const Bits<A> bits = magnitude(numbers[i]);
      largest = bits > largest ? bits : largest;
    }
    return std::bit_cast<A>(team_max(largest));
  }

  template <class A>
  static constexpr float to_float(A v) {
    return finite(v) && v > A(kLargest) ? kLargest : float(v);
  }

  // A compensated sum, and by how much it is too large.
  template <class A>
  struct Sum {
    A sum, lost;
    constexpr void add(A v) {
      const A term = v - lost, next = sum + term;
      lost = (next - sum) - term;
      sum = next;
    }
  };
  // Sums the squares of one block, scaled.
  template <class A>
  constexpr Sum<A> squares(const A* gradients, int block, A scale) const {
    const A* const of = gradients + block * kBlock;
    Sum<A> sum = {0, 0};
    for (int i : of_team(length_of(block))) {
      const A v = of[i] * scale;
      sum.add(v * v);
    }
    return team_size() == 1 ? sum : Sum<A>{team_sum(sum.sum), team_sum(sum.lost)};
  }

  // Returns e, limited so that 2^-e is a normal number even if `largest` is subnormal or huge. The scaled number is
  // within [epsilon, 4).
  template <class A>
  static constexpr int exponent_of(A largest) {
    constexpr int kMost = std::numeric_limits<A>::max_exponent - 2;
    int e;
    std::frexp(largest, &e);
    return e > kMost ? kMost : e < -kMost ? -kMost : e;
  }

  // Returns the norm. If `largest` is infinite or NaN, so is the norm.
  template <class A, class Squares>
  static constexpr A norm_of(const Squares& squares, A largest, A s, A n) {
    if (!finite(largest) || !(largest > 0)) return largest;
    int scale_exponent;
    const int e = exponent_of(largest);
    const A sum = squares(scale_of(largest));
    const A rest = std::frexp(s, &scale_exponent);  // else a huge s would underflow before 2^e is multiplied in
    return std::ldexp(std::sqrt(sum) / rest / n, e - scale_exponent);
  }
};

// Computes running = momentum running + (1 - momentum) sum / batches for C numbers, as Keras' BatchNormalization.
// torch's momentum is 1 - this momentum. Without a batch nothing changes. A statistic whose mean is not finite does
// not change either: the variance of values beyond 1e19 overflows in float32 even if y does not, and a running
// variance that is infinite stays so.
struct UpdateStatistics {
  int channels;
  float momentum;

  static constexpr UpdateStatistics from(const Words& words, const Operands& operands) {
    return {operands[0].elements(), words.real(0)};
  }

  template <class A>
  constexpr void forward(const A* sum, const float* batches, Update<A> running) const {
    if (!(batches[0] > 0)) return;
    const A keep = A(momentum), n = A(batches[0]);
    for (int c : independent(channels)) {
      const A mean = sum[c] / n;
      if (mean - mean == 0) running.data[c] = keep * running.data[c] + (1 - keep) * mean;  // finite
    }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    if (!real_within(words, 0, 0, 1)) return Code::kAttribute;
    if (!is(operands, 1, 1)) return Code::kShapeInput;
    return operands[2].elements() == operands[0].elements() ? Code::kOk : Code::kShapeWeights;
  }

  static constexpr Attribute kAttributes[] = {{"momentum", Coding::kReal}};
  static constexpr const char* kInputs[] = {"sum", "batches", "&running"};
};

// Computes range = decay range + (1 - decay) sum / batches, {min, max}. A range that is still {0, 0} becomes the mean
// itself. Nothing changes if an end of the sum is not finite. fake_quantize saturates an infinite activation, so its
// gradients are finite and the step is not refused; one infinite end would make every later value NaN.
struct UpdateRange {
  float decay;

  static constexpr UpdateRange from(const Words& words, const Operands&) { return {words.real(0)}; }

  constexpr void forward(const float* sum, const float* batches, Update<float> range) const {
    if (!in_order()) return;
    if (!(batches[0] > 0) || !nacre::is_finite(sum[0]) || !nacre::is_finite(sum[1])) return;
    const bool fresh = range.data[0] == 0 && range.data[1] == 0;
    for (int i = 0; i < 2; ++i) {
      const float mean = sum[i] / batches[0];
      range.data[i] = fresh ? mean : decay * range.data[i] + (1 - decay) * mean;
    }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    if (!real_within(words, 0, 0, 1)) return Code::kAttribute;
    return is(operands, 0, 2) && is(operands, 1, 1) && is(operands, 2, 2) ? Code::kOk : Code::kShapeInput;
  }

  static constexpr Attribute kAttributes[] = {{"decay", Coding::kReal}};
  static constexpr const char* kInputs[] = {"sum", "batches", "&range"};
};

// Does NUMERICS.md eq. 24 to 27, with the amax of the whole step. `counters` counts ScaleEvents.
struct UpdateScales {
  int length;
  DelayedScaling rule;

  enum Word { kFormatMax = 0, kOrder = 1, kRule = 2, kMargin = 3, kFused = 4, kGuard = 5 };

  static constexpr UpdateScales from(const Words& words, const Operands& operands) {
    return {.length = operands[2].elements(),
            .rule = {.format_max = words.real(kFormatMax),
                     .order = UpdateOrder(words[kOrder]),
                     .rule = AmaxRule(words[kRule]),
                     .margin = int8_t(words.integer(kMargin)),
                     .fused = words[kFused] != 0,
                     .guard = words[kGuard] != 0}};
  }

  constexpr uint64_t work() const { return uint64_t(uint32_t(length)); }

  constexpr void forward(const uint32_t* amax, Update<float> scale, Update<float> history,
                         Update<uint32_t> counters) const {
    if (!in_order()) return;
    constexpr int kEvents = int(ScaleEvent::kCount);
    ScaleCounters counts;
    for (int i = 0; i < kEvents; ++i) counts.events[i] = counters.data[i];
    AmaxHistory{{history.data, size_t(length)}, scale.data, &counts}.update(amax_value(amax[0]), rule);
    for (int i = 0; i < kEvents; ++i) counters.data[i] = counts.events[i];
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    if (!is_finite(words[kFormatMax]) || !(words.real(kFormatMax) > 0)) return Code::kAttribute;
    if (words[kOrder] >= uint32_t(UpdateOrder::kCount)) return Code::kAttribute;
    if (words[kRule] >= uint32_t(AmaxRule::kCount)) return Code::kAttribute;
    if (!is_code(words.integer(kMargin)) || words[kFused] > 1 || words[kGuard] > 1) return Code::kAttribute;
    if (!is(operands, 0, 1) || !is(operands, 3, int(ScaleEvent::kCount))) return Code::kShapeInput;
    return is(operands, 1, 1) && operands[2].rank == 1 ? Code::kOk : Code::kShapeScale;
  }

  static constexpr Attribute kAttributes[] = {
      {"format_max", Coding::kReal}, {"order"}, {"rule"}, {"margin"}, {"fused"}, {"guard"}};
  static constexpr const char* kInputs[] = {"amax", "&scale", "&history", "&counters"};
};

// Does NUMERICS.md eq. 29 to 33, from the amax of all gradients. counters: {good, skipped, at_floor}. Every step that
// the verdict refused counts as one with infinite gradients, also if its gradients are finite but its norm or loss is
// not. This holds under Axon's rule too, which counts NaN as finite and so would never lower a scale that makes
// NaN.
struct AdjustLossScale {
  LossScaler rule;

  enum Word { kSystem = 0, kKind = 1, kInitial = 2, kPeriod = 3, kFactor = 4, kMin = 5, kMax = 6 };

  static constexpr AdjustLossScale from(const Words& words, const Operands&) {
    return {{.system = LossScaleSystem(words[kSystem]),
             .kind = LossScale(words[kKind]),
             .initial = words.real(kInitial),
             .period = words[kPeriod],
             .factor = words.real(kFactor),
             .min = words.real(kMin),
             .max = words.real(kMax)}};
  }

  constexpr void forward(const uint32_t* amax, const uint32_t* apply, Update<float> scale,
                         Update<uint32_t> counters) const {
    if (!in_order()) return;
    const bool refused = apply[0] == 0;
    Gradients gradients = gradients_of(amax[0]);
    gradients.infinite |= refused;
    uint32_t* c = counters.data;
    LossScaleState state = {.scale = scale.data[0], .good = c[0], .skipped = c[1], .at_floor = c[2]};
    rule.step(state, gradients);
    scale.data[0] = state.scale;
    c[0] = state.good, c[1] += refused ? 1 : 0, c[2] = state.at_floor;
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    if (words[kSystem] > uint32_t(LossScaleSystem::kAxon)) return Code::kAttribute;
    if (words[kKind] >= uint32_t(LossScale::kCount)) return Code::kAttribute;
    if (!from(words, operands).rule.valid()) return Code::kAttribute;
    const bool fit = is(operands, 0, 1) && is(operands, 1, 1) && is(operands, 2, 1) && is(operands, 3, 3);
    return fit ? Code::kOk : Code::kShapeInput;
  }

  static constexpr Attribute kAttributes[] = {{"system"},
                                              {"kind"},
                                              {"initial", Coding::kReal},
                                              {"period"},
                                              {"factor", Coding::kReal},
                                              {"min", Coding::kReal},
                                              {"max", Coding::kReal}};
  static constexpr const char* kInputs[] = {"amax", "apply", "&scale", "&counters"};
};

struct CountStep {
  static constexpr CountStep from(const Words&, const Operands&) { return {}; }

  constexpr void forward(Update<uint32_t> step) const {
    if (in_order()) step.data[0] += step.data[0] != ~uint32_t{0} ? 1 : 0;
  }

  static constexpr Code shapes(const Words&, const Operands& operands, Dims*) {
    return is(operands, 0, 1) ? Code::kOk : Code::kShapeInput;
  }

  static constexpr const char* kInputs[] = {"&step"};
};

inline constexpr OpRule kVerdictRule = {.op = Op::kVerdict,
                                        .name = "verdict",
                                        .numerics = Numerics::kReduction,
                                        .shapes = &Verdict::shapes,
                                        .attributes = Verdict::kAttributes,
                                        .inputs = Verdict::kInputs,
                                        .outputs = Verdict::kOutputs,
                                        .threads = {.phases = 3, .parts = &Verdict::parts_of}};
inline constexpr OpRule kUpdateStatisticsRule = {.op = Op::kUpdateStatistics,
                                                 .name = "update_statistics",
                                                 .numerics = Numerics::kPointwise,
                                                 .shapes = &UpdateStatistics::shapes,
                                                 .attributes = UpdateStatistics::kAttributes,
                                                 .inputs = UpdateStatistics::kInputs,
                                                 .outputs = {}};
inline constexpr OpRule kUpdateRangeRule = {.op = Op::kUpdateRange,
                                            .name = "update_range",
                                            .numerics = Numerics::kPointwise,
                                            .shapes = &UpdateRange::shapes,
                                            .attributes = UpdateRange::kAttributes,
                                            .inputs = UpdateRange::kInputs,
                                            .outputs = {}};
inline constexpr OpRule kUpdateScalesRule = {.op = Op::kUpdateScales,
                                             .name = "update_scales",
                                             .numerics = Numerics::kPointwise,
                                             .shapes = &UpdateScales::shapes,
                                             .attributes = UpdateScales::kAttributes,
                                             .inputs = UpdateScales::kInputs,
                                             .outputs = {}};
inline constexpr OpRule kAdjustLossScaleRule = {.op = Op::kAdjustLossScale,
                                                .name = "adjust_loss_scale",
                                                .numerics = Numerics::kPointwise,
                                                .shapes = &AdjustLossScale::shapes,
                                                .attributes = AdjustLossScale::kAttributes,
                                                .inputs = AdjustLossScale::kInputs,
                                                .outputs = {}};
inline constexpr OpRule kCountStepRule = {.op = Op::kCountStep,
                                          .name = "count_step",
                                          .numerics = Numerics::kPointwise,
                                          .shapes = &CountStep::shapes,
                                          .attributes = {},
                                          .inputs = CountStep::kInputs,
                                          .outputs = {}};

}  // namespace nacre::inline NACRE_ISA
