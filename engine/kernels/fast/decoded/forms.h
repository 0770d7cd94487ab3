// Kernel forms of dense and conv2d whose weights lie in rows and are decoded to float32 for some output channels at a
// time. The weights are int4 codes, codes with 16-bit scales, or codes with a scale per group. The code is in run.h.
//
//   many rows of x          The weights of some channels are decoded and transposed into panels in scratch. All rows
//                           of x are multiplied by these panels.
//   few rows of x (dense)   Weights are decoded row by row and multiplied along the row. Codes of 4 bits are multiplied
//                           where they lie (nibbles.h), unless scales of 16 bits round each weight.
#pragma once

#include <bit>
#include <limits>

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/fast/row_major/forms.h"

namespace nacre::inline NACRE_ISA {

inline constexpr int kNibbles = 8;  // codes of 4 bits in a word of 32 bits
template <int kLanes>
inline constexpr int kNibbleBlock = kNibbles * kLanes;  // terms that a vector of words has codes for

// Returns the numbers of a row of x in the order of the codes (nibbles.h).
template <int kLanes>
constexpr size_t nibble_numbers(int in) {
  return size_t((in + kNibbleBlock<kLanes> - 1) / kNibbleBlock<kLanes>) * size_t(kNibbleBlock<kLanes>);
}
// Returns whether nibbles.h multiplies few rows of a dense with groups of `block` codes: a row begins at a byte, and a
// vector of words has whole groups, or is within one.
template <int kLanes>
bool fits_nibbles(const Dense& op, int block) {
  constexpr int kBlock = kNibbleBlock<kLanes>;
  const bool fits = block >= kBlock ? block % kBlock == 0 : kBlock % block == 0 && block % kNibbles == 0;
  return op.in % 2 == 0 && (block >= op.in || fits);
}
template <int kLanes>
bool fits_nibbles(const Conv2d&, int) {
  return false;
}

template <class O, int kLanes>
struct DecodedMatmul : FastMatmul<O, kLanes> {
  using Base = FastMatmul<O, kLanes>;
  static constexpr int kChunkBytes = 256 << 10, kLeastPanels = 4;

  // Returns the number of output channels that are decoded at a time, rounded up to whole panels.
  static int chunk(const ProductSizes& s) {
    const int fit = kChunkBytes / (s.length * kLanes * int(sizeof(float)));
    const int most = (s.out + kLanes - 1) / kLanes, panels = fit < kLeastPanels ? kLeastPanels : fit;
    return (panels < most ? panels : most) * kLanes;
  }
  // Returns the bytes of scratch. It begins with {x in float32, if kCopied; zeros; the weights of one panel in rows;
  // panels}.
  template <class X, bool kCopied>
  static size_t decoded_bytes(const Words& words, const Operands& operands) {
    const ProductSizes s = sizes_of(Base::from(words, operands).op, 1);
    const auto columns = size_t(chunk(s)), length = size_t(s.length);
    const size_t x = kCopied ? Base::round_up(size_t(operands[Base::kX].elements()) * sizeof(float)) : 0;
    const size_t table = x + Base::round_up(columns * sizeof(float)) +
                         Base::round_up(size_t(kLanes) * length * sizeof(float)) + columns * length * sizeof(float);
    constexpr bool kConverted = !kCopied && !std::is_same_v<X, float>;
    return Base::template scratch_with<kFloats, kConverted, true>(words, operands, table);
  }
  // Returns the scratch if nibbles.h multiplies few rows. A program of more rows may run with few.
  template <class X>
  static size_t nibble_bytes(const Words& words, const Operands& operands, int block) {
    const ProductSizes s = sizes_of(Base::from(words, operands).op, 1);
    if (!fits_nibbles<kLanes>(Base::from(words, operands).op, block)) return decoded_bytes<X, false>(words, operands);
    const size_t few = nibble_numbers<kLanes>(s.length) * sizeof(float) * size_t(s.rows < kFewRows ? s.rows : kFewRows);
    const size_t many = s.rows > kFewRows ? decoded_bytes<X, false>(words, operands) : 0;
    return few < many ? many : Base::round_up(few);
  }
};

// weight-only: codes W and scales S, one or one per channel
template <class O, int kLanes, class T, class W, class S>
struct DecodedWeightOnlyForm : DecodedMatmul<O, kLanes> {
  using Base = DecodedMatmul<O, kLanes>;
  static DecodedWeightOnlyForm from(const Words& words, const Operands& operands) {
    return {{Base::from(words, operands)}};
  }
  static constexpr bool kNibbled = std::is_same_v<O, Dense> && std::is_same_v<W, Int4Pair>;
  void run(const T* x, const W* w, Optional<const T> b, const S* scale, T* y, WordAt<O::kForm> form,
           const Args& args) const;
  static bool accepts(const Words&, const Operands&) { return true; }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    constexpr int kWhole = std::numeric_limits<int>::max();  // one group
    if constexpr (kNibbled) return Base::template nibble_bytes<T>(words, operands, kWhole);
    else return Base::template decoded_bytes<T, false>(words, operands);
  }
};

// grouped: weights S(c_kg (q - z_kg)) of channel k and group g, from codes q
template <class O, int kLanes, class T, class W, class S>
struct DecodedGroupedForm : DecodedMatmul<O, kLanes> {
  using Base = DecodedMatmul<O, kLanes>;
  static DecodedGroupedForm from(const Words& words, const Operands& operands) {
    return {{Base::from(words, operands)}};
  }
  // Scales of 16 bits round each weight, so that it must be decoded.
  static constexpr bool kNibbled = std::is_same_v<O, Dense> && std::is_same_v<W, Int4Pair> && std::is_same_v<S, float>;
  void run(const T* x, const W* w, Optional<const T> b, const S* scale, const int8_t* zero, T* y,
           WordAt<O::kBlock> block, const Args& args) const;
  static bool accepts(const Words&, const Operands&) { return true; }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    if constexpr (kNibbled) return Base::template nibble_bytes<T>(words, operands, words.integer(O::kBlock));
    else return Base::template decoded_bytes<T, false>(words, operands);
  }
};

// float8 with scales t_n and c_k of type T: the products of T(x_i t_n) and T(w_ki c_k) are added up in float32
template <class O, int kLanes, class T>
struct DecodedFloat8Form : DecodedMatmul<O, kLanes> {
  using Base = DecodedMatmul<O, kLanes>;
  static DecodedFloat8Form from(const Words& words, const Operands& operands) {
    return {{Base::from(words, operands)}};
  }
  void run(const Float8E4M3* x, const Float8E4M3* w, Optional<const T> b, const T* scale, PerRow<const T> x_scale, T* y,
           const Args& args) const;
  static bool accepts(const Words&, const Operands&) { return true; }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return Base::template decoded_bytes<float, true>(words, operands);
  }
};

namespace fast::decoded {

template <class Tier, class O>
constexpr auto lines_of(const char* name, Op op) {
  constexpr int kLanes = Tier::kLanes;
  return line<DecodedWeightOnlyForm<O, kLanes, float, Int4Pair, float>>({name, "W4F32"}, op, O::shapes) +
         line<DecodedWeightOnlyForm<O, kLanes, Float16, Int4Pair, float>>({name, "W4F16"}, op, O::shapes) +
         line<DecodedWeightOnlyForm<O, kLanes, Bfloat16, Int4Pair, float>>({name, "W4Bf16"}, op, O::shapes) +
         line<DecodedWeightOnlyForm<O, kLanes, Float16, int8_t, Float16>>({name, "W8EachF16"}, op, O::shapes) +
         line<DecodedWeightOnlyForm<O, kLanes, Bfloat16, int8_t, Bfloat16>>({name, "W8EachBf16"}, op, O::shapes) +
         line<DecodedWeightOnlyForm<O, kLanes, Float16, Int4Pair, Float16>>({name, "W4EachF16"}, op, O::shapes) +
         line<DecodedWeightOnlyForm<O, kLanes, Bfloat16, Int4Pair, Bfloat16>>({name, "W4EachBf16"}, op, O::shapes) +
         line<DecodedGroupedForm<O, kLanes, Float16, Int4Pair, Float16>>({name, "GroupedEachF16"}, op, O::shapes) +
         line<DecodedGroupedForm<O, kLanes, Bfloat16, Int4Pair, Bfloat16>>({name, "GroupedEachBf16"}, op, O::shapes) +
         line<DecodedGroupedForm<O, kLanes, Float16, int8_t, Float16>>({name, "GroupedW8EachF16"}, op, O::shapes) +
         line<DecodedGroupedForm<O, kLanes, Bfloat16, int8_t, Bfloat16>>({name, "GroupedW8EachBf16"}, op, O::shapes) +
         line<DecodedGroupedForm<O, kLanes, float, Int4Pair, float>>({name, "GroupedF32"}, op, O::shapes) +
         line<DecodedGroupedForm<O, kLanes, Float16, Int4Pair, float>>({name, "GroupedF16"}, op, O::shapes) +
         line<DecodedGroupedForm<O, kLanes, Bfloat16, Int4Pair, float>>({name, "GroupedBf16"}, op, O::shapes) +
         line<DecodedGroupedForm<O, kLanes, float, int8_t, float>>({name, "GroupedW8F32"}, op, O::shapes) +
         line<DecodedGroupedForm<O, kLanes, Float16, int8_t, float>>({name, "GroupedW8F16"}, op, O::shapes) +
         line<DecodedGroupedForm<O, kLanes, Bfloat16, int8_t, float>>({name, "GroupedW8Bf16"}, op, O::shapes) +
         line<DecodedFloat8Form<O, kLanes, Float16>>({name, "Float8EachF16"}, op, O::shapes) +
         line<DecodedFloat8Form<O, kLanes, Bfloat16>>({name, "Float8EachBf16"}, op, O::shapes);
}

template <class Tier>
constexpr auto lines() {
  return lines_of<Tier, Dense>("Dense", Op::kDense) + lines_of<Tier, Conv2d>("Conv2d", Op::kConv2d);
}

}  // namespace fast::decoded

}  // namespace nacre::inline NACRE_ISA
