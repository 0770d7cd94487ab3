// Maps a C++ type to the ElementType that it stores and to the type that holds its sums.
#pragma once

#include <cstdint>
#include <type_traits>

#include "engine/base/isa.h"
#include "engine/base/tensor.h"

namespace nacre::inline NACRE_ISA {

struct Bool {  // one byte, 0 or 1; to read another byte as `bool` would be undefined
  uint8_t byte;
};

// kType: the ElementType that T stores. Accumulator: the type of sums of T.
template <class T>
struct Element;

template <>
struct Element<float> {
  static constexpr ElementType kType = ElementType::kFloat32;
  using Accumulator = float;
};
template <>
struct Element<double> {
  static constexpr ElementType kType = ElementType::kFloat64;
  using Accumulator = double;
};
template <>
struct Element<int8_t> {
  static constexpr ElementType kType = ElementType::kInt8;
  using Accumulator = int32_t;
};
template <>
struct Element<uint8_t> {
  static constexpr ElementType kType = ElementType::kUint8;
  using Accumulator = int32_t;
};
template <>
struct Element<int16_t> {
  static constexpr ElementType kType = ElementType::kInt16;
  using Accumulator = int64_t;
};
template <>
struct Element<int32_t> {
  static constexpr ElementType kType = ElementType::kInt32;
  using Accumulator = int64_t;
};
template <>
struct Element<uint32_t> {
  static constexpr ElementType kType = ElementType::kUint32;
  using Accumulator = uint64_t;
};
template <>
struct Element<int64_t> {
  static constexpr ElementType kType = ElementType::kInt64;
  using Accumulator = int64_t;
};
template <>
struct Element<Bool> {
  static constexpr ElementType kType = ElementType::kBool;
  using Accumulator = int32_t;
};

}  // namespace nacre::inline NACRE_ISA
