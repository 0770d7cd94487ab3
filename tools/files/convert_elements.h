// Conversions of arrays that a user asked for. Never silent: a number that would change is refused, with its index.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/tensor.h"
#include "tools/files/npy.h"

namespace nacre::tools {

// The types of codes that a user's real numbers become, and are made of.
constexpr bool is_code_of_reals(ElementType type) { return type == ElementType::kInt8 || type == ElementType::kInt16; }

// code = saturate(round(x / scale) + zero), ties away from zero: TFLite's quantize. `place` names x in errors, and
// `first` is the number that its first element has there.
std::vector<uint8_t> quantize_elements(std::span<const uint8_t> float32, ElementType codes, float scale, int32_t zero,
                                       const std::string& place, size_t first = 0);

// The nearest number of a float type, ties to even, as a cast step takes it. Refuses a finite number that has none.
std::vector<uint8_t> round_elements(std::span<const uint8_t> float32, ElementType to, const std::string& place,
                                    size_t first = 0);

// scale * (code - zero), as float32.
std::vector<uint8_t> dequantize_elements(std::span<const uint8_t> data, ElementType codes, float scale, int32_t zero);

// Number for number. Refuses the first that the type `to` cannot hold exactly, and types that are no plain numbers.
std::vector<uint8_t> cast_elements(std::span<const uint8_t> data, ElementType from, ElementType to,
                                   const std::string& place, size_t first = 0);

// Each converts a whole array part by part: large ones are never in memory whole. Errors name the array's place.
ElementBytes quantized(const NpyArray& float32, ElementType codes, float scale, int32_t zero);
ElementBytes rounded(const NpyArray& float32, ElementType to);
ElementBytes dequantized(const NpyArray& codes, float scale, int32_t zero);
ElementBytes cast(const NpyArray& array, ElementType to);

// The first element that is NaN or infinite; none, and none of integers.
std::optional<size_t> first_not_finite(std::span<const uint8_t> data, ElementType type);

// The type in which a .npy holds elements of `type`: float32 for bfloat16 and float8, for which numpy has no name; it
// holds all their numbers.
ElementType numpy_type(ElementType type);
NpyArray in_numpy_type(NpyArray array);

}  // namespace nacre::tools
