// Converts arrays to other types: quantizes, dequantizes, rounds, or casts. Casts refuse a number that would change.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/tensor.h"
#include "tools/files/npy.h"

namespace nacre::tools {

// Returns whether users' real numbers are quantized to codes of this type, and codes dequantized.
constexpr bool is_code_of_reals(ElementType type) { return type == ElementType::kInt8 || type == ElementType::kInt16; }

// Returns the codes saturate(round(x / scale) + zero), ties away from zero, as TFLite's quantize does. `place` names
// x in errors; `first` is the index that the first element of `float32` has there.
std::vector<uint8_t> quantize_elements(std::span<const uint8_t> float32, ElementType codes, float scale, int32_t zero,
                                       const std::string& place, size_t first = 0);

// Rounds to the nearest number of a float type, ties to even, as a cast step does. Refuses a finite number that
// becomes infinite.
std::vector<uint8_t> round_elements(std::span<const uint8_t> float32, ElementType to, const std::string& place,
                                    size_t first = 0);

// Returns scale * (code - zero), as float32.
std::vector<uint8_t> dequantize_elements(std::span<const uint8_t> data, ElementType codes, float scale, int32_t zero);

// Converts number for number. Refuses the first one that type `to` cannot hold exactly, and types that are no plain
// numbers.
std::vector<uint8_t> cast_elements(std::span<const uint8_t> data, ElementType from, ElementType to,
                                   const std::string& place, size_t first = 0);

// Each converts a whole array part by part, so that a large array is never in memory whole. Errors name the array's
// place.
ElementBytes quantized(const NpyArray& float32, ElementType codes, float scale, int32_t zero);
ElementBytes rounded(const NpyArray& float32, ElementType to);
ElementBytes dequantized(const NpyArray& codes, float scale, int32_t zero);
ElementBytes cast(const NpyArray& array, ElementType to);

// Returns the index of the first element of a 16-, 32- or 64-bit float type that is NaN or infinite, if there is one.
std::optional<size_t> first_not_finite(std::span<const uint8_t> data, ElementType type);

// Returns the type in which a .npy holds elements of `type`: float32 for bfloat16, float8_e4m3 and float8_e5m2, which
// numpy has no names for. float32 holds all their numbers.
ElementType numpy_type(ElementType type);
NpyArray in_numpy_type(NpyArray array);

}  // namespace nacre::tools
