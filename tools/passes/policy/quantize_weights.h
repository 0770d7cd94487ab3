// Quantizes weights of dense and conv to the codes that a policy stores in the file. NUMERICS.md names the formulas'
// sources.
//
// The quantizing functions take the reals of one weight tensor and return codes in the same order. The caller must
// have checked that the reals are finite.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/numeric/absmax.h"
#include "engine/numeric/policy.h"
#include "engine/ops/op.h"

namespace nacre::tools {

// The layout of the weights of output channel k: term r of its sum is element k channel_stride + r term_stride.
struct WeightLayout {
  int64_t channels = 0, terms = 0, channel_stride = 0, term_stride = 0;

  size_t at(int64_t k, int64_t r) const { return size_t(k * channel_stride + r * term_stride); }
};
WeightLayout layout_of(Op op, const std::vector<int64_t>& dims);  // for w of dense, conv2d, depthwise_conv2d

template <class T>  // float or double
struct ScaledCodes {
  std::vector<int8_t> codes;
  std::vector<T> scale;      // [channels], or [channels, groups]
  std::vector<int8_t> zero;  // as scale; empty if there are no zero points
};
using WeightCodes = ScaledCodes<float>;

// Keras's abs-max rule, per channel (engine/numeric/absmax.h), computed in T. The scale is a reciprocal.
template <class T>
ScaledCodes<T> absmax_codes(const std::vector<T>& w, const WeightLayout& layout, CodeRange range);

// TFLite's rule, per channel: step = max |w| / 127, code = round_half_away(w / step).
WeightCodes step_codes(const std::vector<float>& w, const WeightLayout& layout);

// Keras's int4 rule in groups of `block` terms of a channel's sum, with zero points (engine/numeric/grouped_int4.h).
// `bits` may be another number than 4.
WeightCodes grouped_codes(const std::vector<float>& w, const WeightLayout& layout, int64_t block,
                          GroupRange range = GroupRange::kWithZero, int bits = 4);

// Returns float8 E4M3 codes of w / step, saturated. The whole tensor has one step.
std::vector<uint8_t> float8_codes(const std::vector<float>& w, float step);
// Returns float8 E4M3 codes of w * reciprocal, saturated. `reciprocal` is that of the whole tensor's step.
std::vector<uint8_t> float8_codes_by_reciprocal(const std::vector<float>& w, float reciprocal);

// Returns the codes of w / by, or of w * by if `reciprocal`. w holds numbers of a 16-bit type T. `by` and the quotient
// or product are rounded to T first.
template <class T>
std::vector<uint8_t> float8_codes_in(const std::vector<float>& w, float by, bool reciprocal);

// Returns int4 codes packed two in a byte, the lower index in the low bits.
std::vector<uint8_t> packed_int4(const std::vector<int8_t>& codes);

}  // namespace nacre::tools
