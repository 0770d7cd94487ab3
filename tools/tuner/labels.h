// Converts samples and labels to the types that a program takes, for dataset.h, and checks that numbers are finite.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/tuner/dataset.h"

namespace nacre::tools {

struct TypeOptions {
  bool decimal = false;  // the numbers were read from text
  bool cast = false;
  std::optional<double> scale = {};
};

// Returns the numbers of `array` in the type of `spec`, or throws one Error.
NpyArray in_type_of(const SampleSpec& spec, NpyArray array, const TypeOptions& options);

struct LabelType {
  bool decimal = false;  // the numbers were read from text
  bool cast = false;     // targets of another type are converted if no number changes
};

NpyArray fit_labels(const LabelSpec& spec, NpyArray array, const LabelType& type, std::vector<std::string>& notes);

// Throws for the first number that is NaN or infinite.
void check_finite(const NpyArray& array);

}  // namespace nacre::tools
