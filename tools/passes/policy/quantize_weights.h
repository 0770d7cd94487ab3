// Weights of dense and conv as codes: what a policy stores in the file. NUMERICS.md names the formulas' sources.
//
// Every function takes the reals of one weight tensor, finite (the caller has looked), and gives codes in the same
// order.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/numeric/absmax.h"
#include "engine/numeric/policy.h"
#include "engine/ops/op.h"

namespace nacre::tools {

// Places of the weights of output channel k: term r of its sum is element k channel_stride + r term_stride.
struct WeightLayout {
  int64_t channels = 0, terms = 0, channel_stride = 0, term_stride = 0;

  size_t at(int64_t k, int64_t r) const { return size_t(k * channel_stride + r * term_stride); }
};
WeightLayout layout_of(Op op, const std::vector<int64_t>& dims);  // of w of dense, conv2d, depthwise_conv2d

template <class T>  // float or double
struct ScaledCodes {
  std::vector<int8_t> codes;
  std::vector<T> scale;      // [channels], or [channels, groups]
  std::vector<int8_t> zero;  // as scale, where there are zero points
};
using WeightCodes = ScaledCodes<float>;

// Keras abs-max, per channel (engine/numeric/absmax.h), computed in T. The scale is a reciprocal.
template <class T>
ScaledCodes<T> absmax_codes(const std::vector<T>& w, const WeightLayout& layout, CodeRange range);

// TFLite, per channel: step = max |w| / 127, code = round_half_away(w / step).
WeightCodes step_codes(const std::vector<float>& w, const WeightLayout& layout);

// Keras int4 in groups of `block` terms of a channel's sum, with zero points (engine/numeric/grouped_int4.h); the same
// in another number of bits.
WeightCodes grouped_codes(const std::vector<float>& w, const WeightLayout& layout, int64_t block,
                          GroupRange range = GroupRange::kWithZero, int bits = 4);

// One step for the whole tensor; float8 E4M3 codes of w / step, saturated.
std::vector<uint8_t> float8_codes(const std::vector<float>& w, float step);
// One reciprocal of a step for the whole tensor; float8 E4M3 codes of w * reciprocal, saturated.
std::vector<uint8_t> float8_codes_by_reciprocal(const std::vector<float>& w, float reciprocal);

// The codes of w / by, or of w by, w being numbers of a 16-bit type T; `by` and the result are rounded to T first.
template <class T>
std::vector<uint8_t> float8_codes_in(const std::vector<float>& w, float by, bool reciprocal);

// Two codes a byte, the lower index in the low bits.
std::vector<uint8_t> packed_int4(const std::vector<int8_t>& codes);

}  // namespace nacre::tools
