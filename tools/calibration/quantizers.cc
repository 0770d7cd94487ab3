#include "tools/calibration/quantizers.h"

#include <algorithm>
#include <cmath>

#include "engine/numeric/int8_range.h"

namespace nacre::tools {
namespace {

constexpr int64_t kLeast = -128, kMost = 127;

}  // namespace

Quantizer quantizer_of_range(Range range) {
  const AffineScale affine = affine_of_range(double(range.low), double(range.high));
  return {.codes = ElementType::kInt8, .scale = {affine.scale}, .zero = {int64_t{affine.zero}}, .axis = 0};
}

int64_t inner_elements(const std::vector<int64_t>& dims, int axis) {
  int64_t inner = 1;
  for (size_t i = size_t(axis) + 1; i < dims.size(); ++i) inner *= dims[i];
  return inner;
}

Quantizer symmetric_quantizer(std::span<const float> w, const std::vector<int64_t>& dims, int axis) {
  const auto channels = size_t(axis == kPerTensor ? 1 : dims[size_t(axis)]);
  const auto inner = size_t(axis == kPerTensor ? 1 : inner_elements(dims, axis));
  std::vector<float> amax(channels, 0);
  for (size_t i = 0; i < w.size(); ++i) {
    float& peak = amax[i / inner % channels];
    peak = std::max(peak, std::abs(w[i]));
  }
  Quantizer quantizer = {.codes = ElementType::kInt8, .scale = {}, .zero = std::vector<int64_t>(channels), .axis = 0};
  quantizer.axis = axis == kPerTensor ? 0 : axis;
  for (const float peak : amax) quantizer.scale.push_back(symmetric_scale(double(peak)));
  return quantizer;
}

std::vector<int8_t> symmetric_codes(std::span<const float> w, const std::vector<int64_t>& dims,
                                    const Quantizer& quantizer) {
  const size_t channels = quantizer.scale.size();
  const auto inner = size_t(channels == 1 ? 1 : inner_elements(dims, quantizer.axis));
  std::vector<int8_t> codes(w.size());
  for (size_t i = 0; i < w.size(); ++i) codes[i] = symmetric_code(double(w[i]), quantizer.scale[i / inner % channels]);
  return codes;
}

std::vector<int8_t> asymmetric_codes(std::span<const float> x, const Quantizer& quantizer) {
  std::vector<int8_t> codes(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    codes[i] = int8_t(std::clamp(std::round(double(x[i]) / double(quantizer.scale[0])) + double(quantizer.zero[0]),
                                 double(kLeast), double(kMost)));
  return codes;
}

}  // namespace nacre::tools
