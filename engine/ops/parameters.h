// Defines the parameter types of an op's methods beside plain pointers, and the checks that shape rules share.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "engine/base/isa.h"
#include "engine/numeric/fixed_point.h"
#include "engine/numeric/small_float.h"
#include "engine/ops/op.h"

namespace nacre::inline NACRE_ISA {

template <class T>
struct Optional {  // an operand that may be absent
  T* data;
  explicit constexpr operator bool() const { return data != nullptr; }
  constexpr T& operator[](int i) const { return data[i]; }
};

template <class T>
struct Update {  // an operand that is read and written
  T* data;
};

template <class T>
struct Inputs {  // any number of inputs of one type; the op knows how many
  const Tensor* tensor;
  constexpr const T* operator[](int i) const { return static_cast<const T*>(tensor[i].data); }
};

template <class T>
struct PerRow {  // an input with one value per row, or one for all rows
  T* data;
  int step;
  constexpr T& operator[](int row) const { return data[row * step]; }
};

template <class T, Layout kLayout>
struct Packed {  // an operand that is stored in another layout than row-major
  T* data;
};

template <class T>
struct Scratch {  // memory of one step, scratch_bytes() of it; not an operand; comes after the operands
  T* data;
};

template <int kIndex>
struct WordAt {  // an attribute that only some forms of an op have; not an operand; comes last
  uint32_t value;
};

// Returns code i of a packed operand.
constexpr int int4_code(const Int4Pair* w, int i) {
  const int nibble = w[i / 2].bits >> (i % 2 * 4) & 15;
  return (nibble ^ 8) - 8;
}

// Returns element i of an operand that may be packed, in the type of a sum.
template <class A, class W>
constexpr A element(const W* w, int i) {
  if constexpr (std::is_same_v<W, Int4Pair>) return A(int4_code(w, i));
  else return A(w[i]);
}

// Limits on attributes. They are so small that no 32-bit expression in a shape rule overflows.
inline constexpr int kMaxWindow = 1 << 14;  // kernel, stride, dilation, padding

// A fused clamp. Its words {kind, low, high} are float32 bits in float steps, codes in int8 and int16 steps. The
// kinds above kBounds are functions, used by fused_epilogue.h alone: low is alpha of leaky_relu and else 0, high is
// 0. check_clamp refuses them.
struct Clamp {
  enum Kind : uint32_t {
    kNone = 0,
    kBounds = 1,
    kLeakyRelu = 2,
    kSigmoid = 3,
    kTanh = 4,
    kHardSwish = 5,
    kSilu = 6,
    kGelu = 7,  // gelu by erfc
    kGeluTanh = 8,
  };
  uint32_t kind, low, high;

  static constexpr Clamp from(const Words& words, int first) {
    return {words[first], words[first + 1], words[first + 2]};
  }

  template <class T>  // float or double
  constexpr T real(T v) const {
    if (kind == kNone) return v;
    const T l = T(std::bit_cast<float>(low)), h = T(std::bit_cast<float>(high));
    return v < l ? l : v > h ? h : v;  // NaN stays NaN
  }
  template <class Q = int8_t>  // or int16_t
  constexpr Q code(int32_t v) const {
    const int32_t l = kind == kNone ? std::numeric_limits<Q>::min() : int32_t(low),
                  h = kind == kNone ? std::numeric_limits<Q>::max() : int32_t(high);
    return Q(v < l ? l : v > h ? h : v);
  }
};

// Joins lists of attributes: joined(kWindowAttributes, kClampAttributes, {{"groups", Coding::kLessOne}}).
template <size_t... kCounts>
constexpr std::array<Attribute, (kCounts + ...)> joined(const Attribute (&... lists)[kCounts]) {
  std::array<Attribute, (kCounts + ...)> all = {};
  size_t count = 0;
  const auto append = [&](const auto& list) {
    for (const Attribute& attribute : list) all[count++] = attribute;
  };
  (append(lists), ...);
  return all;
}
template <size_t kFirst, size_t kMore>
constexpr std::array<Attribute, kFirst + kMore> joined(const std::array<Attribute, kFirst>& first,
                                                       const Attribute (&more)[kMore]) {
  std::array<Attribute, kFirst + kMore> all = {};
  for (size_t i = 0; i < kFirst + kMore; ++i) all[i] = i < kFirst ? first[i] : more[i - kFirst];
  return all;
}

inline constexpr Attribute kClampAttributes[] = {{"clamp"}, {"low", Coding::kBound}, {"high", Coding::kBound}};

// Functions that the rules of many ops call are not inlined, because code size counts on a microcontroller.
[[gnu::noinline]] constexpr Dims dims_of(Shape shape) {
  Dims dims = {.rank = shape.rank};
  for (int i = 0; i < shape.rank; ++i) dims.size[i] = shape[i];
  return dims;
}

// Returns whether a float32 is finite. An exponent of all ones means infinity or NaN.
constexpr bool is_finite(uint32_t bits) { return (bits & 0x7F800000u) != 0x7F800000u; }

// Returns whether the real attribute i lies within [low, high]. NaN does not.
constexpr bool real_within(const Words& words, int i, float low, float high) {
  return words.real(i) >= low && words.real(i) <= high;
}

// Returns a <= b for float32 bits, false for NaN. It compares magnitudes as integers, which have the same order,
// because a firmware that runs int8 alone has no float instruction.
constexpr bool at_most(uint32_t a, uint32_t b) {
  const uint32_t size_a = a & 0x7FFFFFFFu, size_b = b & 0x7FFFFFFFu;
  if (size_a > 0x7F800000u || size_b > 0x7F800000u) return false;
  if (a == size_a) return b == size_b ? a <= b : (size_a | size_b) == 0;
  return b == size_b || size_a >= size_b;
}

constexpr bool same(Shape a, Shape b) {
  if (a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i)
    if (a[i] != b[i]) return false;
  return true;
}

// Returns whether `element` is a type of codes that steps compute with.
constexpr bool holds_codes(ElementType element) {
  return element == ElementType::kInt8 || element == ElementType::kInt16;
}
constexpr bool is_code(int v, ElementType codes = ElementType::kInt8) {
  const int end = codes == ElementType::kInt16 ? 1 << 15 : 1 << 7;
  return v >= -end && v < end;
}

// Checks the clamp words at `first` of a step whose output has type `element`.
constexpr Code check_clamp(const Words& words, int first, ElementType element) {
  const Clamp clamp = Clamp::from(words, first);
  if (clamp.kind > Clamp::kBounds) return Code::kAttribute;
  if (clamp.kind == Clamp::kNone) return Code::kOk;
  if (holds_codes(element)) {
    const auto low = int(clamp.low), high = int(clamp.high);
    return is_code(low, element) && is_code(high, element) && low <= high ? Code::kOk : Code::kClamp;
  }
  return at_most(clamp.low, clamp.high) ? Code::kOk : Code::kClamp;
}

// Checks a zero point attribute of a step on `element`: for int8 it must be a code, for others, int16 included, 0.
[[gnu::noinline]] constexpr Code check_zero(int zero, ElementType element) {
  return (element == ElementType::kInt8 ? is_code(zero) : zero == 0) ? Code::kOk : Code::kAttributeZero;
}

// Returns whether operand `slot` is [a], or [a, b] if b is not 0.
[[gnu::noinline]] constexpr bool is(const Operands& operands, int slot, int a, int b = 0) {
  const Shape shape = operands[slot];
  return shape.rank == (b == 0 ? 1 : 2) && shape[0] == a && (b == 0 || shape[1] == b);
}

// Checks the requantization pairs at operand `slot`, if present: int32 [rows, 2].
constexpr Code check_pairs(const Operands& operands, int slot, int rows) {
  return !operands.has(slot) || is(operands, slot, rows, 2) ? Code::kOk : Code::kShapeScale;
}

// Refuses an int32 sum of (x - zero) * w that may overflow. |x - zero| <= 255 and |w| <= 128, so 2^31 / (255 * 128) =
// 65793 terms fit. Sums of int16 x have 64 bits, which any number of terms fits. With int32 biases the file asks for
// 32 bits, and these sums wrap as TFLite's would.
constexpr Code check_terms(const Operands& operands, int terms) {
  return operands.element(0) == ElementType::kInt8 && terms > 65793 ? Code::kAccumulator : Code::kOk;
}

// Gradient::words of a step that takes no attributes from the step that is differentiated.
constexpr int no_words(const Words&, const Operands&, int, uint32_t*) { return 0; }

// Returns from the caller with the code of the expression, unless it is kOk.
#define NACRE_TRY_CODE(expression)                                                           \
  do {                                                                                       \
    if (const ::nacre::Code code_ = (expression); code_ != ::nacre::Code::kOk) return code_; \
  } while (false)

}  // namespace nacre::inline NACRE_ISA
