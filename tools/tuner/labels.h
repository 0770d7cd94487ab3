// Conversions of labels for dataset.h, and the checks of single numbers.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "tools/files/convert_elements.h"
#include "tools/tuner/dataset.h"

namespace nacre::tools {

struct TypeOptions {
  bool decimal = false;  // numbers of a text
  bool cast = false;
  std::optional<double> scale = {};
};

// The numbers of `array` in the type of `spec`, or one Error.
NpyArray in_type_of(const SampleSpec& spec, NpyArray array, const TypeOptions& options);

struct LabelType {
  bool decimal = false;  // numbers of a text
  bool cast = false;     // targets of another type are taken where no number changes
};

NpyArray fit_labels(const LabelSpec& spec, NpyArray array, const LabelType& type, std::vector<std::string>& notes);

// "[17, 0, 3, 5]": element i as numpy indexes it.
std::string index_text(const NpyArray& array, size_t i);

// f(i, number) for every element, in order.
template <class F>
void for_each_number(const NpyArray& array, F f) {
  size_t index = 0;
  each_part(array.data, element_bits(array.type) / 8, [&](std::span<const uint8_t> part, size_t first) {
    const std::vector<uint8_t> wide = cast_elements(part, array.type, ElementType::kFloat64, array.place, first);
    for (size_t i = 0; i < wide.size(); i += sizeof(double)) {
      double x;
      std::memcpy(&x, &wide[i], sizeof x);
      f(index++, x);
    }
  });
}

// Throws for the first number that is NaN or infinite.
void check_finite(const NpyArray& array);

}  // namespace nacre::tools
