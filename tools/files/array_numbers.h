// Reads the numbers of an array of any type, one by one.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tools/files/convert_elements.h"
#include "tools/files/npy.h"

namespace nacre::tools {

// Returns "[17, 0, 3, 5]", the index of element i as numpy writes it.
std::string index_text(const NpyArray& array, size_t i);

// Calls f(i, number) for every element, in order.
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

// Returns one class per `width` numbers. Throws unless exactly one of them is 1 and the others are 0.
std::vector<int64_t> classes_of_one_hot(const NpyArray& array, size_t width);

}  // namespace nacre::tools
