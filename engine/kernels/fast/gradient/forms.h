// Kernel forms of the gradients of dense and conv2d, for float32, float16 and bfloat16, over vectors of kLanes
// numbers. Weights are in rows:
//
//   gradient_x   dx_ri = sum_k dy_rk w_ki              a product: vectors of w are parts of its rows. In a convolution
//                                                      row r gathers, for each position (tap) of the window, the dy
//                                                      that x_r is a term of
//   gradient_w   dw_ki += sum_r dy_rk x_ri             an outer product; in a convolution row r of x is a window
//   bias         db_k += sum_r dy_rk
//
// Numbers of 16 bits are converted to float32 in scratch, block by block. If vectors multiply pairs of bfloat16
// (simd/vec.h, kGroup 2) and it pays, two consecutive terms form a pair. For gradient_x these are rows 2 k and 2 k + 1
// of w, and columns 2 k and 2 k + 1 of dy. For gradient_w they are rows 2 r and 2 r + 1 of dy and of x.
#pragma once

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/fast/parallel.h"
#include "engine/kernels/fast/pieces.h"
#include "engine/kernels/kernel.h"
#include "engine/ops/conv_gradient.h"
#include "engine/ops/dense.h"

namespace nacre::inline NACRE_ISA {

// Adds up the bytes of scratch, piece by piece. Each piece begins at a multiple of 64 bytes.
struct ScratchBytes {
  size_t bytes = 0;
  ScratchBytes& add(size_t count, size_t size) {
    bytes += (count * size + 63) / 64 * 64;
    return *this;
  }
};

constexpr int rounded_up(int n, int unit) { return (n + unit - 1) / unit * unit; }

// Rows of a block that gradient_x multiplies at a time, and that gradient_w sums over at a time.
inline constexpr int kGradientRows = 96, kGradientTerms = 256;
// Returns the rows of a block of windows or gathered rows, which are long: at most `most` rows that fit kGathered
// bytes, but at least kLeast (or all).
inline int gathered_rows(int rows, int length, int most) {
  constexpr int kGathered = 64 << 10, kLeast = 24;
  const int fit = kGathered / 4 / length / kLeast * kLeast;
  const int block = fit < kLeast ? kLeast : fit > most ? most : fit;
  return rows < block ? rows : block;
}

// Returns the scratch of an outer product of pairs of `rows` rows: pairs of dy [rows / 2][out][2], room for the last
// vector to write past them, and pairs of two vectors of columns of x.
inline ScratchBytes scratch_of_pairs(size_t rows, int out, int lanes) {
  const size_t pairs = (rows + 1) / 2;
  ScratchBytes scratch;
  return scratch.add((pairs * size_t(out) + size_t(lanes)) * 2, sizeof(Bfloat16))
      .add(pairs * 4 * size_t(lanes), sizeof(Bfloat16));
}

// The sizes of dx = dy w and dw += dy^T x, products of matrices.
struct MatrixSizes {
  int rows, in, out;  // dy [rows, out], w [out, in]

  // Making pairs of w pays only for kLeastPairRows rows or more. Columns of w that fit kPairBytes are multiplied by
  // all rows of dy before the next columns become pairs.
  static constexpr int kLeastPairRows = 16, kPairBytes = 128 << 10;
  bool takes_pairs() const { return rows >= kLeastPairRows; }
  int pair_terms() const { return rounded_up(out, 2); }
  int pair_columns(int lanes) const {
    const int fit = kPairBytes / int(sizeof(Bfloat16)) / pair_terms() / lanes * lanes, all = rounded_up(in, lanes);
    const int columns = fit < 4 * lanes ? 4 * lanes : fit;
    return columns < all ? columns : all;
  }

  template <int kLanes, class T, int kGroup = 1>
  ScratchBytes scratch_x() const {
    if (kGroup == 2 && takes_pairs()) {
      const auto columns = size_t(pair_columns(kLanes));
      ScratchBytes scratch;
      scratch.add(columns, sizeof(float)).add(columns * size_t(pair_terms()), sizeof(T));
      if (pair_terms() != out) scratch.add(size_t(kGradientRows) * size_t(pair_terms()), sizeof(T));
      return scratch;
    }
    const int block = rows < kGradientRows ? rows : kGradientRows;
    ScratchBytes scratch;
    scratch.add(size_t(rounded_up(in, kLanes)), sizeof(float));
    if (in % kLanes != 0) scratch.add(size_t(out) * kLanes, sizeof(T));
    if (!std::is_same_v<T, float>)
      scratch.add(size_t(block) * size_t(out), sizeof(float)).add(size_t(block) * size_t(in), sizeof(float));
    return scratch;
  }
  template <int kLanes, class T, int kGroup = 1>
  ScratchBytes scratch_w() const {
    const auto block = size_t(rows < kGradientTerms ? rows : kGradientTerms);
    ScratchBytes scratch;
    if (kGroup == 2 && takes_pairs()) return scratch_of_pairs(block, out, kLanes);
    scratch.add(block * 2 * kLanes, sizeof(float));
    if (!std::is_same_v<T, float>)
      scratch.add(block * size_t(out), sizeof(float)).add(block * size_t(rounded_up(in, kLanes)), sizeof(float));
    return scratch;
  }
};

inline MatrixSizes matrix_of(const DenseGradientX& op) { return {op.rows, op.in, op.out}; }
inline MatrixSizes matrix_of(const DenseGradientW& op) { return {op.rows, op.in, op.out}; }

// Returns whether the windows are single pixels and there is one group. The gradients are then products of matrices.
inline bool is_pointwise(const Conv2d& op) {
  const auto one = [](const WindowAxis& a) { return a.kernel == 1 && a.stride == 1 && a.before == 0 && a.out == a.in; };
  return one(op.window.h) && one(op.window.w) && op.group_in == op.in_c;
}
inline MatrixSizes matrix_of(const Conv2d& op) {
  return {op.batch * op.window.h.out * op.window.w.out, op.w_channel, op.group_out};
}

template <int kLanes, class T, int kGroup = 1>
struct DenseGradientXForm {
  DenseGradientX op;
  static DenseGradientXForm from(const Words& words, const Operands& operands) {
    return {DenseGradientX::from(words, operands)};
  }
  uint64_t work() const { return op.work(); }

  void run(const T* dy, const T* w, T* dx, const Args& args) const;

  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return matrix_of(from(words, operands).op).template scratch_x<kLanes, T, kGroup>().bytes;
  }
};

template <int kLanes, class T, int kGroup = 1>
struct DenseGradientWForm {
  DenseGradientW op;
  static DenseGradientWForm from(const Words& words, const Operands& operands) {
    return {DenseGradientW::from(words, operands)};
  }
  uint64_t work() const { return op.work(); }

  void run(const T* dy, const T* x, Update<float> dw, const Args& args) const;

  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return matrix_of(from(words, operands).op).template scratch_w<kLanes, T, kGroup>().bytes;
  }
};

template <int kLanes, class T>
struct BiasGradientForm {
  BiasGradient op;
  static BiasGradientForm from(const Words& words, const Operands& operands) {
    return {BiasGradient::from(words, operands)};
  }
  uint64_t work() const { return op.work(); }

  void run(const T* dy, Update<float> sum, const Args& args) const;

  static bool accepts(const Words& words, const Operands& operands) { return from(words, operands).op.rows > 0; }
};

// The pixels of x along one axis that the same positions (taps) of the window reach: phase, phase + stride, .. Pixel
// phase + stride a is a term of output a + shift - m back through tap first + m period, 0 <= m < taps.
struct Reach {
  int taps, first, period, shift, back;

  static Reach of(const WindowAxis& axis, int phase) {
    const auto offset = [&](int tap) { return phase + axis.before - tap * axis.dilation; };
    int period = 1, first = 0;
    while (period * axis.dilation % axis.stride != 0) ++period;
    while (first < period && offset(first) % axis.stride != 0) ++first;
    if (first == period || first >= axis.kernel) return {0, 0, 1, 0, 0};
    return {(axis.kernel - 1 - first) / period + 1, first, period, offset(first) / axis.stride,
            period * axis.dilation / axis.stride};
  }
};

template <int kLanes, class T, int kGroup = 1>
struct Conv2dGradientXForm : Conv2dGradientX {
  static Conv2dGradientXForm from(const Words& words, const Operands& operands) {
    return {Conv2dGradientX::from(words, operands)};
  }

  void run(const T* dy, const T* w, T* dx, const Args& args) const;

  int taps() const { return window.h.kernel * window.w.kernel; }
  int block() const { return gathered_rows(batch * window.h.in * window.w.in, taps() * group_out, kGradientRows); }
  bool takes_pairs() const { return kGroup == 2 && group_out % 2 == 0; }

  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    const auto op = from(words, operands);
    if (is_pointwise(op)) return matrix_of(op).template scratch_x<kLanes, T, kGroup>().bytes;
    const auto columns = size_t(rounded_up(op.group_in, kLanes)), length = size_t(op.taps()) * size_t(op.group_out);
    const auto rows = size_t(op.block());
    if (op.takes_pairs())
      return ScratchBytes()
          .add(columns, sizeof(float))
          .add(columns * length, sizeof(T))
          .add(rows * length, sizeof(T))
          .bytes;
    return ScratchBytes()
        .add(columns, sizeof(float))
        .add(columns * length, sizeof(float))
        .add(rows * length, sizeof(float))
        .add(rows * size_t(op.group_in), sizeof(float))
        .bytes;
  }

 private:
  struct Phase;
  void run_blocks(const T* dy, const T* w, T* dx, Part mine, Pieces scratch) const;
  void run_pairs(const T* dy, const T* w, T* dx, Part mine, Pieces scratch) const;
};

template <int kLanes, class T, int kGroup = 1>
struct Conv2dGradientWForm : Conv2dGradientW {
  static Conv2dGradientWForm from(const Words& words, const Operands& operands) {
    return {Conv2dGradientW::from(words, operands)};
  }

  void run(const T* dy, const T* x, Update<float> dw, const Args& args) const;

  int block() const { return gathered_rows(matrix_of(*this).rows, w_channel, kGradientTerms); }

  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    const auto op = from(words, operands);
    if (is_pointwise(op)) return matrix_of(op).template scratch_w<kLanes, T, kGroup>().bytes;
    const auto rows = size_t(op.block());
    if (kGroup == 2)
      return scratch_of_pairs(rows, op.group_out, kLanes)
          .add(rows * size_t(rounded_up(op.w_channel, kLanes)), sizeof(T))
          .bytes;
    ScratchBytes scratch;
    scratch.add(rows * 2 * kLanes, sizeof(float)).add(rows * size_t(rounded_up(op.w_channel, kLanes)), sizeof(float));
    if (!std::is_same_v<T, float>) scratch.add(rows * size_t(op.out_c), sizeof(float));
    return scratch.bytes;
  }

 private:
  void run_blocks(const T* dy, const T* x, float* dw, int first, int channels, Pieces scratch) const;
  void run_pairs(const T* dy, const T* x, float* dw, int first, int channels, Pieces scratch) const;
};

namespace fast::gradient {

// Gradients of dense and conv2d in bfloat16 are listed in the family bfloat16_pairs.
template <class Tier>
constexpr auto lines() {
  constexpr int kLanes = Tier::kLanes;
  return line<DenseGradientXForm<kLanes, float>>("DenseGradientXF32", Op::kDenseGradientX, DenseGradientX::shapes) +
         line<DenseGradientXForm<kLanes, Float16>>("DenseGradientXF16", Op::kDenseGradientX, DenseGradientX::shapes) +
         line<DenseGradientWForm<kLanes, float>>("DenseGradientWF32", Op::kDenseGradientW, DenseGradientW::shapes) +
         line<DenseGradientWForm<kLanes, Float16>>("DenseGradientWF16", Op::kDenseGradientW, DenseGradientW::shapes) +
         line<BiasGradientForm<kLanes, float>>("BiasGradientF32", Op::kBiasGradient, BiasGradient::shapes) +
         line<BiasGradientForm<kLanes, Float16>>("BiasGradientF16", Op::kBiasGradient, BiasGradient::shapes) +
         line<Conv2dGradientXForm<kLanes, float>>("Conv2dGradientXF32", Op::kConv2dGradientX, Conv2dGradientX::shapes) +
         line<Conv2dGradientXForm<kLanes, Float16>>("Conv2dGradientXF16", Op::kConv2dGradientX,
                                                    Conv2dGradientX::shapes) +
         line<Conv2dGradientWForm<kLanes, float>>("Conv2dGradientWF32", Op::kConv2dGradientW, Conv2dGradientW::shapes) +
         line<Conv2dGradientWForm<kLanes, Float16>>("Conv2dGradientWF16", Op::kConv2dGradientW,
                                                    Conv2dGradientW::shapes) +
         line<BiasGradientForm<kLanes, Bfloat16>>("BiasGradientBf16", Op::kBiasGradient, BiasGradient::shapes);
}

}  // namespace fast::gradient

}  // namespace nacre::inline NACRE_ISA
