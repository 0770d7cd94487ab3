// Conversions of numbers for C (nacre_c_numbers.h). It is a file of its own, so an image without them links none of it.
#include <limits>
#include <type_traits>

#include "engine/c_api.h"
#include "engine/numeric/fixed_point.h"
#include "engine/numeric/small_float.h"

namespace {

using nacre::arguments;
using nacre::ElementType;
using nacre::Status;
using nacre::to_c;

static_assert(uint32_t(ElementType::kFloat8E4M3) == NACRE_FLOAT8_E4M3);
static_assert(uint32_t(ElementType::kFloat8E5M2) == NACRE_FLOAT8_E5M2);
static_assert(uint32_t(ElementType::kFloat8E4M3Fnuz) == NACRE_FLOAT8_E4M3_FNUZ);
static_assert(uint32_t(ElementType::kFloat8E5M2Fnuz) == NACRE_FLOAT8_E5M2_FNUZ);

// Returns round(v) as an integer type, at most the largest and at least the smallest of the type. NaN gives 0.
template <class T>
T integer(double v) {
  if (!(v == v)) return 0;
  if (v <= double(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  return v >= double(std::numeric_limits<T>::max()) ? std::numeric_limits<T>::max() : T(v);
}

template <class T>
T narrowed(float v) {
  if constexpr (std::is_same_v<T, nacre::Bool>) return T{uint8_t(v != 0)};
  else if constexpr (std::is_integral_v<T>) return integer<T>(nacre::round_half_even(v));
  else if constexpr (sizeof(T) == 1) return T::saturated(v);
  else return T(v);
}

template <class T>
float widened(T v) {
  if constexpr (std::is_same_v<T, nacre::Bool>) return float(v.byte != 0);
  else return float(v);
}

// The caller's bytes need no alignment.
template <class T>
T at(const void* list, size_t i) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(list) + i * sizeof value, sizeof value);
  return value;
}
template <class T>
void put(void* list, size_t i, T value) {
  std::memcpy(static_cast<std::byte*>(list) + i * sizeof value, &value, sizeof value);
}

// Calls use(T()) with the type of an element. Returns whether the type has a conversion.
template <class Use>
bool with_type(uint8_t element, const Use& use) {
  switch (ElementType(element)) {
    case ElementType::kFloat32: return use(float()), true;
    case ElementType::kFloat64: return use(double()), true;
    case ElementType::kFloat16: return use(nacre::Float16()), true;
    case ElementType::kBfloat16: return use(nacre::Bfloat16()), true;
    case ElementType::kFloat8E4M3: return use(nacre::Float8E4M3()), true;
    case ElementType::kFloat8E5M2: return use(nacre::Float8E5M2()), true;
    case ElementType::kFloat8E4M3Fnuz: return use(nacre::Float8E4M3Fnuz()), true;
    case ElementType::kFloat8E5M2Fnuz: return use(nacre::Float8E5M2Fnuz()), true;
    case ElementType::kInt8: return use(int8_t()), true;
    case ElementType::kUint8: return use(uint8_t()), true;
    case ElementType::kInt16: return use(int16_t()), true;
    case ElementType::kInt32: return use(int32_t()), true;
    case ElementType::kBool: return use(nacre::Bool()), true;
    default: return false;
  }
}

// The scale and zero point of each element. `inner` elements belong to each index of the axis that has the scales.
struct Codes {
  const nacre_tensor_info& info;
  size_t inner = 1;
  bool usable = false;

  explicit Codes(const nacre_tensor_info& given, size_t count) : info(given) {
    size_t elements = 1;
    for (uint32_t i = 0; i < info.rank; ++i) {
      elements *= size_t(info.dims[i]);
      if (i > info.axis) inner *= size_t(info.dims[i]);
    }
    usable = count <= elements;
  }
  bool quantized() const { return info.scale != 0 || info.scale_count != 0; }
  size_t index(size_t i) const { return info.scale_count == 0 ? 0 : i / inner % info.scale_count; }
  float scale(size_t i) const { return info.scale_count == 0 ? info.scale : info.scales[index(i)]; }
  int32_t zero(size_t i) const {
    return info.scale_count == 0 || info.zeros == nullptr ? info.zero : info.zeros[index(i)];
  }
};

bool described(const nacre_tensor_info* info, size_t count) {
  return info != nullptr && info->size >= sizeof *info && info->rank <= nacre::kMaxRank && Codes(*info, count).usable;
}

}  // namespace

extern "C" {

nacre_status nacre_to_float32(uint8_t element, const void* from, float* to, size_t count) {
  const bool known = with_type(element, [](auto) {});
  const Status s = arguments(known, from != nullptr || count == 0, to != nullptr || count == 0);
  if (!s.ok()) return to_c(s);
  with_type(element, [&](auto type) {
    for (size_t i = 0; i < count; ++i) put(to, i, widened(at<decltype(type)>(from, i)));
  });
  return {};
}

nacre_status nacre_from_float32(uint8_t element, const float* from, void* to, size_t count) {
  const bool known = with_type(element, [](auto) {});
  const Status s = arguments(known, from != nullptr || count == 0, to != nullptr || count == 0);
  if (!s.ok()) return to_c(s);
  with_type(element, [&](auto type) {
    for (size_t i = 0; i < count; ++i) put(to, i, narrowed<decltype(type)>(at<float>(from, i)));
  });
  return {};
}

nacre_status nacre_read_numbers(const nacre_tensor_info* info, const void* codes, float* real, size_t count) {
  if (const Status s = arguments(described(info, count)); !s.ok()) return to_c(s);
  const nacre_status status = nacre_to_float32(info->element, codes, real, count);
  const Codes of(*info, count);
  if (status.code != 0 || !of.quantized()) return status;
  // A code of 16 bits or fewer, and its distance from the zero point, is exact in float32.
  for (size_t i = 0; i < count; ++i) put(real, i, of.scale(i) * (at<float>(real, i) - float(of.zero(i))));
  return {};
}

nacre_status nacre_write_numbers(const nacre_tensor_info* info, const float* real, void* codes, size_t count) {
  if (const Status s = arguments(described(info, count)); !s.ok()) return to_c(s);
  const Codes of(*info, count);
  if (!of.quantized()) return nacre_from_float32(info->element, real, codes, count);
  const bool known = with_type(info->element, [](auto) {});
  const Status s = arguments(known, real != nullptr || count == 0, codes != nullptr || count == 0);
  if (!s.ok()) return to_c(s);
  with_type(info->element, [&](auto type) {
    using T = decltype(type);
    for (size_t i = 0; i < count; ++i) {
      const float q = at<float>(real, i) / of.scale(i);
      if constexpr (std::is_integral_v<T>)
        put(codes, i, integer<T>(double(nacre::round_half_away(q)) + double(of.zero(i))));
      else put(codes, i, narrowed<T>(q));
    }
  });
  return {};
}

}  // extern "C"
