// Computes how the elements of a constant are distributed: 32 bins of equal width from the least to the largest.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tools/evaluate/program_report.h"

namespace nacre::tools {

struct WeightHistogram {
  static constexpr size_t kBins = 32;

  std::array<uint64_t, kBins> counts =
      {};                             // bin i: [min + i w, min + (i + 1) w), w = (max - min) / 32; max is in the last
  double min = 0, max = 0, mean = 0;  // of the finite elements
  uint64_t elements = 0, zeros = 0, not_finite = 0;
  bool codes = false;  // integers whose scale the tensor's record does not hold
};

WeightHistogram histogram_of(std::span<const double> values);

// Returns the histogram of a constant, or of a state tensor's initial numbers in the file. Codes are decoded if the
// record or the step holds their scale. Returns nothing for integers that are no codes (they are tables), ternary
// codes, packed layouts, one element, and more than kMostHistogramElements.
inline constexpr uint64_t kMostHistogramElements = uint64_t{1} << 25;
std::optional<WeightHistogram> weight_histogram(const ProgramReport& report, uint32_t tensor);

std::string histogram_svg(const WeightHistogram& histogram, const std::string& label);

// Returns "least -0.51, largest 0.62, mean 0.003; 12 of 4,608 are 0".
std::string histogram_text(const WeightHistogram& histogram);

}  // namespace nacre::tools
