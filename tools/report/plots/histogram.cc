#include "tools/report/plots/histogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/base/format.h"
#include "tools/evaluate/decode.h"
#include "tools/graph/graph.h"
#include "tools/report/picture/svg.h"

namespace nacre::tools {

WeightHistogram histogram_of(std::span<const double> values) {
  WeightHistogram h = {.elements = values.size()};
  bool first = true;
  double sum = 0;
  for (const double v : values) {
    if (!std::isfinite(v)) {
      ++h.not_finite;
      continue;
    }
    h.min = first ? v : std::min(h.min, v);
    h.max = first ? v : std::max(h.max, v);
    first = false;
    sum += v;
    h.zeros += v == 0 ? 1 : 0;
  }
  const uint64_t finite = h.elements - h.not_finite;
  if (finite == 0) return h;
  h.mean = sum / double(finite);
  const double width = h.max / WeightHistogram::kBins - h.min / WeightHistogram::kBins;  // max - min may be infinite
  for (const double v : values) {
    if (!std::isfinite(v)) continue;
    const double bin = width > 0 ? v / width - h.min / width : 0;
    ++h.counts[size_t(std::clamp(bin, 0.0, double(WeightHistogram::kBins - 1)))];
  }
  return h;
}

std::optional<WeightHistogram> weight_histogram(const ProgramReport& report, uint32_t tensor) {
  const TensorRecord& own = report.tensor(tensor);
  const uint32_t stored = own.region == Region::kState ? own.initial : tensor;
  if (stored == kNoIndex) return std::nullopt;
  const TensorRecord& r = report.tensor(stored);
  if (r.region != Region::kWeights || r.layout != Layout::kRowMajor || r.element == ElementType::kTernary)
    return std::nullopt;
  uint64_t elements = 1;
  for (int i = 0; i < r.rank; ++i) elements *= uint64_t(r.dims[i]);
  if (elements < 2 || elements > kMostHistogramElements) return std::nullopt;
  const bool real = is_float_type(r.element), small = element_bits(r.element) <= 8 && r.element != ElementType::kBool;
  std::optional<Scales> scales = report.loaded().scales(stored);
  if (!scales && !real) scales = meaning_of(report, tensor);
  if (!real && !small && !scales) return std::nullopt;
  const std::vector<double> values =
      decode({.type = r.element,
              .dims = {r.dims, r.dims + r.rank},
              .bytes = {reinterpret_cast<const uint8_t*>(report.loaded().model().weights(stored)), size_t(r.bytes)},
              .scales = real ? std::nullopt : scales});
  WeightHistogram histogram = histogram_of(values);
  histogram.codes = !real && !scales;
  return histogram;
}

std::string histogram_svg(const WeightHistogram& h, const std::string& label) {
  constexpr double kBin = 9, kHeight = 64;
  const uint64_t most = std::max<uint64_t>(1, *std::ranges::max_element(h.counts));
  Svg svg(kBin * WeightHistogram::kBins, kHeight + 1, "", {label, "img", "graph-histogram"});
  for (size_t i = 0; i < WeightHistogram::kBins; ++i) {
    if (h.counts[i] == 0) continue;
    const double height = std::max(1.0, kHeight * double(h.counts[i]) / double(most));
    svg.rectangle({double(i) * kBin, kHeight - height, kBin - 1, height}, "bin");
  }
  svg.line(0, kHeight + 0.5, kBin * WeightHistogram::kBins, kHeight + 0.5, "base");
  return svg.finish();
}

std::string histogram_text(const WeightHistogram& h) {
  std::string text = fmt::format("{}min {:.4g}, max {:.4g}, mean {:.4g}; {} of {} are zero", h.codes ? "codes: " : "",
                                 h.min, h.max, h.mean, grouped(h.zeros), grouped(h.elements));
  if (h.not_finite > 0) text += fmt::format("; {} are not finite", grouped(h.not_finite));
  return text;
}

}  // namespace nacre::tools
