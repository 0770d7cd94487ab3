#include "tools/passes/policy/quantize_weights.h"

#include <algorithm>
#include <cmath>

#include "engine/numeric/absmax.h"
#include "engine/numeric/grouped_int4.h"
#include "engine/numeric/int4.h"

namespace nacre::tools {
namespace {

// Returns terms [first, end) of output channel k, in order.
template <class T>
std::vector<T> terms_of(const std::vector<T>& w, const WeightLayout& layout, int64_t k, int64_t first, int64_t end) {
  std::vector<T> terms;
  for (int64_t r = first; r < end; ++r) terms.push_back(w[layout.at(k, r)]);
  return terms;
}

}  // namespace

WeightLayout layout_of(Op op, const std::vector<int64_t>& dims) {
  int64_t elements = 1;
  for (const int64_t dim : dims) elements *= dim;
  if (op == Op::kDepthwiseConv2d) return {dims[2], elements / dims[2], 1, dims[2]};
  return {dims[0], elements / dims[0], elements / dims[0], 1};
}

template <class T>
ScaledCodes<T> absmax_codes(const std::vector<T>& w, const WeightLayout& layout, CodeRange range) {
  ScaledCodes<T> result{std::vector<int8_t>(w.size()), {}, {}};
  std::vector<int8_t> q(size_t(layout.terms));
  for (int64_t k = 0; k < layout.channels; ++k) {
    const std::vector<T> x = terms_of(w, layout, k, 0, layout.terms);
    result.scale.push_back(absmax_quantize(std::span(x), std::span(q), range));
    for (int64_t r = 0; r < layout.terms; ++r) result.codes[layout.at(k, r)] = q[size_t(r)];
  }
  return result;
}
template ScaledCodes<float> absmax_codes(const std::vector<float>&, const WeightLayout&, CodeRange);
template ScaledCodes<double> absmax_codes(const std::vector<double>&, const WeightLayout&, CodeRange);

WeightCodes step_codes(const std::vector<float>& w, const WeightLayout& layout) {
  WeightCodes result{std::vector<int8_t>(w.size()), {}, {}};
  for (int64_t k = 0; k < layout.channels; ++k) {
    const std::vector<float> x = terms_of(w, layout, k, 0, layout.terms);
    const float amax = absmax(std::span(x)), step = amax / 127 > 0 ? amax / 127 : 1;
    for (int64_t r = 0; r < layout.terms; ++r)
      result.codes[layout.at(k, r)] = int8_t(std::clamp(int(round_half_away(x[size_t(r)] / step)), -127, 127));
    result.scale.push_back(step);
  }
  return result;
}

WeightCodes grouped_codes(const std::vector<float>& w, const WeightLayout& layout, int64_t block, GroupRange range,
                          int bits) {
  WeightCodes result{std::vector<int8_t>(w.size()), {}, {}};
  for (int64_t k = 0; k < layout.channels; ++k)
    for (int64_t first = 0; first < layout.terms; first += block) {
      const std::vector<float> x = terms_of(w, layout, k, first, std::min(first + block, layout.terms));
      const Group group = group_of(x, size_t(block), range, bits);
      for (size_t i = 0; i < x.size(); ++i)
        result.codes[layout.at(k, first + int64_t(i))] = group_code(x[i], group, bits);
      result.scale.push_back(group.scale);
      result.zero.push_back(group.zero);
    }
  return result;
}

std::vector<uint8_t> float8_codes(const std::vector<float>& w, float step) {
  std::vector<uint8_t> codes;
  for (const float v : w) codes.push_back(Float8E4M3::saturated(v / step).bits);
  return codes;
}

std::vector<uint8_t> float8_codes_by_reciprocal(const std::vector<float>& w, float reciprocal) {
  std::vector<uint8_t> codes;
  for (const float v : w) codes.push_back(Float8E4M3::saturated(v * reciprocal).bits);
  return codes;
}

template <class T>
std::vector<uint8_t> float8_codes_in(const std::vector<float>& w, float by, bool reciprocal) {
  const float scale = float(T(by));
  std::vector<uint8_t> codes;
  for (const float v : w) codes.push_back(Float8E4M3::saturated(float(T(reciprocal ? v * scale : v / scale))).bits);
  return codes;
}
template std::vector<uint8_t> float8_codes_in<Float16>(const std::vector<float>&, float, bool);
template std::vector<uint8_t> float8_codes_in<Bfloat16>(const std::vector<float>&, float, bool);

std::vector<uint8_t> packed_int4(const std::vector<int8_t>& codes) {
  std::vector<Int4Pair> pairs(int4_bytes(codes.size()));
  pack_int4(codes, pairs);
  const auto* first = reinterpret_cast<const uint8_t*>(pairs.data());
  return {first, first + pairs.size()};
}

}  // namespace nacre::tools
