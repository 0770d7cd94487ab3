// Steps that commit integer training (policy int8/full), NUMERICS.md section 16. A master is int32: the code of a
// parameter times 2^bits, plus the part that is not yet a whole code. No step has a float instruction. Steps read a
// learning rate, and write a report, by the bits of float32.
//
//   round_codes          code = clip(round(master / 2^bits)): int8 to -127 .. 127, int32 as it is
//   verdict_codes        takes sums G int32 [n], a loss, a count N of samples and a rate:
//                        apply  = 0 < N < 2^23, all |G_i| and the loss below 2^31 - 1, the rate finite and not
//                                 negative
//                        amax   = max |G_i|
//                        report = {rate / N, 0, loss 2^-12 / N, 1}, float32; the first is 0 if apply is 0.
//                        Gradients of layers have no unit in common: there is no norm. The loss scale is 1
//   sgd_codes            master_i = saturating(master_i - round(G_i u_c 2^E)), c the channel of i, by axis 0 or
//                        the last, u_c = (rate / N) m_c, of 31 bits: m_c {multiplier, shift}, of s_e s_x 2^bits / s_w,c
//   update_error_range   takes the largest accumulator a of a step whose error had exponent E_e. For add_errors E_e is
//                        the larger of two; an absent one counts as 0, the exponent of the loss's error:
//                        need = E_e + bits of a - 7: a / 2^(need - E_e) is below 2^7
//                        level = max(16 need, level - 1),   E = level / 16 rounded up;   nothing changes if a = 0
//
// So the range of an error rises at once and falls by a factor of 2 in 16 steps. A step uses the range of the step
// before, so a larger error saturates once. Before the first step E is kUnknownRange and the error is 0.
#pragma once

#include "engine/base/isa.h"
#include "engine/numeric/float_bits.h"
#include "engine/ops/integer_gradient.h"

namespace nacre::inline NACRE_ISA {

inline constexpr int32_t kUnknownRange = 1 << 20, kUnknownLevel = INT32_MIN;  // a range before the first step

struct RoundCodes {
  int elements, bits;

  static constexpr RoundCodes from(const Words& words, const Operands& operands) {
    return {operands[0].elements(), words.integer(0)};
  }

  constexpr void to_int8(const int32_t* master, int8_t* code) const {
    for (int i : independent(elements)) code[i] = error_code(rounding_shift_right(master[i], bits));
  }
  constexpr void to_int32(const int32_t* master, int32_t* code) const {
    for (int i : independent(elements)) code[i] = rounding_shift_right(master[i], bits);
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* code) {
    if (words[0] > 31) return Code::kAttribute;
    *code = dims_of(operands[0]);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"bits"}};
  static constexpr const char* kInputs[] = {"master"};
  static constexpr const char* kOutputs[] = {"code"};
};

struct VerdictCodes {
  int elements;

  static constexpr VerdictCodes from(const Words&, const Operands& operands) { return {operands[0].elements()}; }

  constexpr void forward(const int32_t* gradients, const int32_t* loss, const int32_t* count, const float* rate,
                         uint32_t* apply, uint32_t* amax, float* report) const {
    if (!in_order()) return;
    uint32_t most = 0;
    for (int i = 0; i < elements; ++i) {
      const int32_t g = gradients[i];
      const uint32_t size = g < 0 ? 0u - uint32_t(g) : uint32_t(g);
      most = size > most ? size : most;
    }
    const auto bits = std::bit_cast<uint32_t>(rate[0]);
    const uint32_t n = count[0] > 0 ? uint32_t(count[0]) : 0, l = loss[0] > 0 ? uint32_t(loss[0]) : 0;
    const bool rated = bits < 0x7F800000u || bits == 0x80000000u;
    amax[0] = most;
    apply[0] = n > 0 && n < 1u << 23 && most < INT32_MAX && l < INT32_MAX && rated ? 1 : 0;
    ScaledInteger mean = divided(scaled_of_integer(l), n);
    mean.exponent -= Int8CrossEntropy::kLossBits;
    report[0] = std::bit_cast<float>(apply[0] != 0 ? float_of_scaled(divided(scaled_of_float(bits), n)) : 0);
    report[1] = std::bit_cast<float>(uint32_t{0});
    report[2] = std::bit_cast<float>(float_of_scaled(mean));
    report[3] = std::bit_cast<float>(uint32_t{0x3F800000});
  }

  static constexpr Code shapes(const Words&, const Operands& operands, Dims* outputs) {
    for (const int i : {1, 2, 3})
      if (!is(operands, i, 1)) return Code::kShapeInput;
    outputs[0].push(1);
    outputs[1].push(1);
    outputs[2].push(4);
    return Code::kOk;
  }

  static constexpr const char* kInputs[] = {"gradients", "loss", "count", "learning_rate"};
  static constexpr const char* kOutputs[] = {"apply", "amax", "report"};
};

struct SgdCodes {
  int channels, inner, step;  // step: from one element of a channel to the next

  static constexpr SgdCodes from(const Words& words, const Operands& operands) {
    const int channels = operands[2][0];
    return {channels, operands[0].elements() / channels, words[0] == 0 ? 1 : channels};
  }

  constexpr void forward(const int32_t* gradient, const float* report, const int32_t* multiplier,
                         Optional<const int32_t> range, Update<int32_t> master) const {
    const ScaledInteger rate = scaled_of_float(std::bit_cast<uint32_t>(report[0]));
    for (int c : independent(channels)) {
      const auto u = int32_t((int64_t{rate.mantissa} * multiplier[2 * c]) >> 31);
      const int64_t exponent = int64_t{rate.exponent} + multiplier[2 * c + 1] + (range ? range[0] : 0);
      const int64_t right = 31 - exponent;
      const int shift = int(right > 63 ? 63 : right < -31 ? -31 : right);
      const int first = step == 1 ? c * inner : c;
      for (int i = 0; i < inner; ++i) {
        int32_t& m = master.data[first + i * step];
        m = saturating(int64_t{m} - change(int64_t{gradient[first + i * step]} * u, shift));
      }
    }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    const Shape g = operands[0], m = operands[2];
    if (words[0] > 1) return Code::kAttribute;
    if (g.rank < 1 || m.rank != 2 || m[1] != 2) return Code::kShapeRank;
    if (m[0] != (words[0] == 0 ? g[0] : g.last()) || !is(operands, 1, 4)) return Code::kShapeScale;
    if (operands.has(3) && !is(operands, 3, 2)) return Code::kShapeScale;
    return same(g, operands[4]) ? Code::kOk : Code::kShapeWeights;
  }

  static constexpr Attribute kAttributes[] = {{"channels_last"}};
  static constexpr const char* kInputs[] = {"gradient", "report", "multiplier", "range?", "&master"};

 private:
  // Returns round(product / 2^shift), ties towards +infinity, saturating to int32; |product| < 2^62, shift in [-31,
  // 63].
  static constexpr int32_t change(int64_t product, int shift) {
    if (shift > 62) return 0;
    if (shift > 0) return saturating((product + (int64_t{1} << (shift - 1))) >> shift);
    const int64_t limit = int64_t{1} << 31;
    return saturating((product > limit ? limit : product < -limit ? -limit : product) * (int64_t{1} << -shift));
  }
};

struct UpdateErrorRange {
  static constexpr UpdateErrorRange from(const Words&, const Operands&) { return {}; }

  constexpr void forward(const uint32_t* amax, Optional<const int32_t> error_range, Optional<const int32_t> other_range,
                         Update<int32_t> range) const {
    if (!in_order() || amax[0] == 0) return;
    const int32_t e = error_range ? error_range[0] : 0, other = other_range ? other_range[0] : e;
    const int64_t need = int64_t{e > other ? e : other} + int(std::bit_width(amax[0])) - 7;
    const int64_t fallen = int64_t{range.data[1]} - 1;
    const int32_t level = saturating(need * 16 > fallen ? need * 16 : fallen);
    range.data[0] = int32_t((int64_t{level} + 15) >> 4);
    range.data[1] = level;
  }

  static constexpr Code shapes(const Words&, const Operands& operands, Dims*) {
    for (const int slot : {1, 2})
      if (operands.has(slot) && !is(operands, slot, 2)) return Code::kShapeInput;
    return is(operands, 0, 1) && is(operands, 3, 2) ? Code::kOk : Code::kShapeInput;
  }

  static constexpr const char* kInputs[] = {"amax", "error_range?", "other_range?", "&range"};
};

inline constexpr OpRule kRoundCodesRule = {.op = Op::kRoundCodes,
                                           .name = "round_codes",
                                           .numerics = Numerics::kPointwise,
                                           .shapes = &RoundCodes::shapes,
                                           .attributes = RoundCodes::kAttributes,
                                           .inputs = RoundCodes::kInputs,
                                           .outputs = RoundCodes::kOutputs};
inline constexpr OpRule kVerdictCodesRule = {.op = Op::kVerdictCodes,
                                             .name = "verdict_codes",
                                             .numerics = Numerics::kReduction,
                                             .shapes = &VerdictCodes::shapes,
                                             .attributes = {},
                                             .inputs = VerdictCodes::kInputs,
                                             .outputs = VerdictCodes::kOutputs};
inline constexpr OpRule kSgdCodesRule = {.op = Op::kSgdCodes,
                                         .name = "sgd_codes",
                                         .numerics = Numerics::kPointwise,
                                         .shapes = &SgdCodes::shapes,
                                         .attributes = SgdCodes::kAttributes,
                                         .inputs = SgdCodes::kInputs,
                                         .outputs = {}};
inline constexpr OpRule kUpdateErrorRangeRule = {.op = Op::kUpdateErrorRange,
                                                 .name = "update_error_range",
                                                 .numerics = Numerics::kReduction,
                                                 .shapes = &UpdateErrorRange::shapes,
                                                 .attributes = {},
                                                 .inputs = UpdateErrorRange::kInputs,
                                                 .outputs = {}};

}  // namespace nacre::inline NACRE_ISA
