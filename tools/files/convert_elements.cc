#include "tools/files/convert_elements.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/numeric/small_float.h"
#include "tools/base/error.h"
#include "tools/base/names.h"

namespace nacre::tools {
namespace {

// Calls f(T()) with the C++ type of `type`.
template <class F>
auto with_type(ElementType type, const std::string& place, F f) {
  switch (type) {
    case ElementType::kFloat32: return f(float());
    case ElementType::kFloat64: return f(double());
    case ElementType::kFloat16: return f(Float16());
    case ElementType::kBfloat16: return f(Bfloat16());
    case ElementType::kFloat8E4M3: return f(Float8E4M3());
    case ElementType::kFloat8E5M2: return f(Float8E5M2());
    case ElementType::kInt8: return f(int8_t());
    case ElementType::kUint8: return f(uint8_t());
    case ElementType::kInt16: return f(int16_t());
    case ElementType::kInt32: return f(int32_t());
    case ElementType::kUint32: return f(uint32_t());
    case ElementType::kInt64: return f(int64_t());
    case ElementType::kBool: return f(bool());
    default: throw Error(kUnsupported, place, fmt::format("numbers of type {} are not converted", name_of(type)));
  }
}

template <class T>
T load(const uint8_t* data) {
  if constexpr (std::same_as<T, bool>) {
    return *data != 0;
  } else {
    T value;
    std::memcpy(&value, data, sizeof value);
    return value;
  }
}

// Returns a small float as double, which holds all numbers of the small formats; other numbers as they are.
template <class T>
auto plain(T value) {
  if constexpr (requires { value.bits; }) return double(value);
  else return value;
}

template <class T>
constexpr bool kReal = std::is_floating_point_v<T> || requires(T value) { value.bits; };

// Returns `value` as a To. For a small format double is exact enough: a 64-bit integer that double rounds is none of
// its numbers, rounded or not.
template <class To, class From>
To convert(From value) {
  if constexpr (std::is_arithmetic_v<To>) return static_cast<To>(value);
  else return To(double(value));
}

// Returns whether To holds `value` exactly. A long double holds every From: the widest, int64, needs 63 bits.
static_assert(std::numeric_limits<long double>::digits >= 63);
template <class To, class From>
bool holds(From value) {
  if constexpr (std::is_floating_point_v<From>)
    if (std::isnan(value)) return kReal<To>;
  const auto exact = static_cast<long double>(value);
  if constexpr (kReal<To>) {
    return static_cast<long double>(plain(convert<To>(value))) == exact;
  } else {
    return exact >= static_cast<long double>(std::numeric_limits<To>::lowest()) &&
           exact <= static_cast<long double>(std::numeric_limits<To>::max()) && exact == std::trunc(exact);
  }
}

template <class From, class To>
std::vector<uint8_t> cast(std::span<const uint8_t> data, const std::string& place, size_t first) {
  const size_t count = data.size() / sizeof(From);
  std::vector<uint8_t> result(count * sizeof(To));
  for (size_t i = 0; i < count; ++i) {
    const auto value = plain(load<From>(data.data() + i * sizeof(From)));
    if (!holds<To>(value))
      throw Error(kBadInput, place,
                  fmt::format("element {} is {}, which the input's type cannot hold", first + i, value),
                  "convert the file to the input's type in the way that is wanted");
    const To converted = convert<To>(value);
    std::memcpy(result.data() + i * sizeof(To), &converted, sizeof converted);
  }
  return result;
}

}  // namespace

std::vector<uint8_t> quantize_elements(std::span<const uint8_t> float32, ElementType codes, float scale, int32_t zero,
                                       const std::string& place, size_t first) {
  const size_t count = float32.size() / sizeof(float), size = element_bits(codes) / 8;
  const double end = codes == ElementType::kInt16 ? 32768 : 128;
  std::vector<uint8_t> made(count * size);
  for (size_t i = 0; i < count; ++i) {
    const float x = load<float>(float32.data() + i * sizeof(float));
    if (!std::isfinite(x))
      throw Error(kBadInput, place, fmt::format("element {} is {}, which has no code", first + i, x));
    const auto code = int16_t(std::clamp(double(std::round(x / scale)) + zero, -end, end - 1));
    std::memcpy(made.data() + i * size, &code, size);  // little-endian: the low byte comes first
  }
  return made;
}

std::vector<uint8_t> round_elements(std::span<const uint8_t> float32, ElementType to, const std::string& place,
                                    size_t first) {
  return with_type(to, place, [&]<class To>(To) {
    std::vector<uint8_t> rounded(float32.size() / sizeof(float) * sizeof(To));
    for (size_t i = 0; i < float32.size() / sizeof(float); ++i) {
      const float x = load<float>(float32.data() + i * sizeof(float));
      const To y = convert<To>(x);
      if (std::isfinite(x) && !std::isfinite(double(plain(y))))
        throw Error(kBadInput, place, fmt::format("element {} is {}, beyond {}", first + i, x, name_of(to)));
      std::memcpy(rounded.data() + i * sizeof y, &y, sizeof y);
    }
    return rounded;
  });
}

std::vector<uint8_t> dequantize_elements(std::span<const uint8_t> data, ElementType codes, float scale, int32_t zero) {
  const size_t count = data.size() * 8 / element_bits(codes);
  std::vector<uint8_t> reals(count * sizeof(float));
  for (size_t i = 0; i < count; ++i) {
    const int code = codes == ElementType::kInt16 ? load<int16_t>(data.data() + 2 * i) : int8_t(data[i]);
    const float real = scale * float(code - zero);
    std::memcpy(reals.data() + i * sizeof real, &real, sizeof real);
  }
  return reals;
}

std::vector<uint8_t> cast_elements(std::span<const uint8_t> data, ElementType from, ElementType to,
                                   const std::string& place, size_t first) {
  return with_type(from, place, [&]<class From>(From) {
    return with_type(to, place, [&]<class To>(To) { return cast<From, To>(data, place, first); });
  });
}

std::optional<size_t> first_not_finite(std::span<const uint8_t> data, ElementType type) {
  const bool real = type == ElementType::kFloat32 || type == ElementType::kFloat64 || type == ElementType::kFloat16 ||
                    type == ElementType::kBfloat16;
  if (!real) return std::nullopt;
  return with_type(type, "", [&]<class T>(T) -> std::optional<size_t> {
    for (size_t i = 0; i < data.size() / sizeof(T); ++i)
      if (!std::isfinite(double(plain(load<T>(&data[i * sizeof(T)]))))) return i;
    return std::nullopt;
  });
}

ElementBytes quantized(const NpyArray& float32, ElementType codes, float scale, int32_t zero) {
  return in_parts(float32.data, sizeof(float), [&](std::span<const uint8_t> part, size_t first) {
    return quantize_elements(part, codes, scale, zero, float32.place, first);
  });
}

ElementBytes rounded(const NpyArray& float32, ElementType to) {
  return in_parts(float32.data, sizeof(float), [&](std::span<const uint8_t> part, size_t first) {
    return round_elements(part, to, float32.place, first);
  });
}

ElementBytes dequantized(const NpyArray& codes, float scale, int32_t zero) {
  return in_parts(codes.data, element_bits(codes.type) / 8, [&](std::span<const uint8_t> part, size_t) {
    return dequantize_elements(part, codes.type, scale, zero);
  });
}

ElementBytes cast(const NpyArray& array, ElementType to) {
  return in_parts(array.data, element_bits(array.type) / 8, [&](std::span<const uint8_t> part, size_t first) {
    return cast_elements(part, array.type, to, array.place, first);
  });
}

ElementType numpy_type(ElementType type) {
  switch (type) {
    case ElementType::kBfloat16:
    case ElementType::kFloat8E4M3:
    case ElementType::kFloat8E5M2: return ElementType::kFloat32;
    default: return type;
  }
}

NpyArray in_numpy_type(NpyArray array) {
  const ElementType type = numpy_type(array.type);
  if (type == array.type) return array;
  array.data = cast(array, type);
  array.type = type;
  return array;
}

}  // namespace nacre::tools
