// Kernel forms of depthwise_conv2d for vectors of kLanes numbers: which steps they take and what scratch a step
// needs. This is plain C++, the same on every machine. The code is in run.h.
//
//   y_nhvk = epilogue(sum_ij x_{n, h sh - top + i dh, v sw - left + j dw, k / multiplier} w_ijk)
//
// Rows of x are copied to scratch with their padding. Each channel is copied as often as y has it. If a pixel has
// fewer numbers than a vector, or a few more, vectors run over pixels: a row of y is one run of numbers f = v
// channels + k. The numbers of a row that column j of the window (tap j) reads are one run too, because scratch holds
// side by side the columns that are sw apart: column q of the padded row is column q / sw of plane q mod sw. Tap j of
// output v is then at column v + (j dw) / sw of plane (j dw) mod sw, and
//
//   s_f = start_f + sum_ij row_i[tap_j + f] w_ijf        weights and starts repeated over f
//
// Many channels are taken in groups. A group has so few channels that the first-level cache holds the rows of x that
// several rows and columns of y read.
//
// A `direct` step copies nothing (direct.h and code_pairs.h). It has windows of 3 x 3, at least a vector of channels
// (direct() has all conditions), and real numbers, or int8 codes if the vectors have kPairs.
#pragma once

#include <cstring>

#include "engine/kernels/fast/depthwise/tiling.h"
#include "engine/kernels/fast/lines.h"
#include "engine/kernels/fast/matmul/forms.h"

namespace nacre::inline NACRE_ISA {

template <int kLanes>
struct FastDepthwise {
  DepthwiseConv2d op;

  using O = DepthwiseConv2d;
  enum Slot { kX = 0, kW = 1, kBias = 2, kScale = 3 };

  static FastDepthwise from(const Words& words, const Operands& operands) {
    return {along_rows(O::from(words, operands))};
  }
  uint64_t work() const { return op.work(); }

  int taps() const { return op.window.h.kernel * op.window.w.kernel; }
  int multiplier() const { return op.out_c / op.in_c; }
  // Returns the most columns of x that one row in scratch takes.
  static int source_columns(const DepthwiseTiling& t, const WindowAxis& w) {
    return t.planes * t.plane < w.in ? t.planes * t.plane : w.in;
  }
  static constexpr size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

  // Returns whether a row of y reads the same rows of x as the row before it, except one.
  bool steps_by_one() const { return op.window.h.stride == 1 && op.window.h.dilation == 1; }

  static size_t source_bytes(const DepthwiseTiling& t, const WindowAxis& w) {
    return round_up(size_t(source_columns(t, w)) * size_t(t.channels));
  }

  // Returns the slots for rows of x in float32: as many as a block of `rows` rows of y reads rows of x.
  static int64_t slots(const WindowAxis& h, int rows) {
    return int64_t{rows - 1} * h.stride + int64_t{h.kernel - 1} * h.dilation + 1;
  }
  bool direct(int lanes = kLanes) const {
    const WindowAxis &h = op.window.h, &w = op.window.w;
    return h.kernel == 3 && w.kernel == 3 && h.dilation == 1 && w.dilation == 1 && h.stride == w.stride &&
           h.stride <= 2 && w.out >= DepthwiseTiling::kDirectColumns && op.out_c == op.in_c && op.out_c >= lanes;
  }
  DepthwiseTiling real_tiling(bool sums) const {
    const WindowAxis& h = op.window.h;
    if (direct()) return DepthwiseTiling::direct_of(op, kLanes, sums);
    const int shared = steps_by_one() && h.kernel == 3 ? 2 : 1;
    return DepthwiseTiling::of(op, {kLanes, kLanes, 4 * kLanes, 8, shared},
                               [&h](int rows) { return slots(h, rows) + 1; });  // plus one slot of zeros
  }
  // Returns the rows of fours of codes for a row of y; each holds four rows of x. Two rows of y that together read at
  // most four rows of x share one. Each has weights of its own; those of the second row of y are moved by one code.
  int fours() const { return (op.window.h.kernel + 3) / 4; }
  DepthwiseTiling code_tiling() const {
    const int shared = steps_by_one() && op.window.h.kernel <= 3 ? 2 : 1;
    return DepthwiseTiling::of(op, {kLanes, 4 * kLanes, 8 * kLanes, 32, shared},
                               [this, shared](int rows) { return int64_t{(rows + shared - 1) / shared} * fours(); });
  }
};

// A table begins with the tiling. Bind makes the table if its contents are constant. Else each run makes it at the
// beginning of scratch.
inline constexpr size_t kTilingBytes = 64;
static_assert(sizeof(DepthwiseTiling) <= kTilingBytes);
inline std::byte* put_tiling(const DepthwiseTiling& tiling, std::byte* to) {
  std::memcpy(to, &tiling, sizeof tiling);
  return to + kTilingBytes;
}

// ---- Real forms. The table is float [1 + taps][width]: the starts (bias, or 0), then the weights. For a direct step
// it is [width / kLanes][1 + taps][kLanes].

// The scratch is {the table, unless bind made it; pointers to the rows of a block [rows][kernel_h]; rows; offsets of
// the columns of a window [kernel_w]; with kSums the sums of a block}.
template <int kLanes, class T, class W, bool kStartsAtBias, bool kSums>
struct RealDepthwise : FastDepthwise<kLanes> {
  using Base = FastDepthwise<kLanes>;
  static RealDepthwise from(const Words& words, const Operands& operands) { return {Base::from(words, operands)}; }

  static bool accepts(const Words& words, const Operands& operands) {
    return from(words, operands).real_tiling(kSums).row_numbers > 0;
  }
  static bool constant(const Operands& operands) {
    return is_constant(operands, Base::kW) && is_constant(operands, Base::kBias);
  }
  static size_t table_bytes(const RealDepthwise& form) {
    return kTilingBytes + size_t(1 + form.taps()) * size_t(form.real_tiling(kSums).width) * sizeof(float);
  }
  [[gnu::cold, gnu::noinline]] void fill(const Words&, const Operands& operands, std::byte* to) const {
    const DepthwiseTiling t = this->real_tiling(kSums);
    const auto* const w = static_cast<const W*>(operands.tensor[Base::kW].data);
    const bool has_bias = kStartsAtBias && operands.has(Base::kBias);
    const auto* const b = has_bias ? static_cast<const T*>(operands.tensor[Base::kBias].data) : nullptr;
    auto* at = reinterpret_cast<float*>(put_tiling(t, to));
    const int run = t.direct ? kLanes : t.width;
    for (int first = 0; first < t.width; first += run)
      for (int i = -1; i < this->taps(); ++i)
        for (int k = 0; k < run; ++k) {
          const int channel = t.channel(first + k);
          if (channel < 0) *at++ = 0;
          else if (i >= 0) *at++ = float(w[i * t.out_c + channel]);
          else *at++ = b != nullptr ? float(b[channel]) : 0.0f;
        }
  }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    const RealDepthwise form = from(words, operands);
    const DepthwiseTiling t = form.real_tiling(kSums);
    const WindowAxis &h = form.op.window.h, &w = form.op.window.w;
    size_t bytes = constant(operands) ? 0 : Base::round_up(table_bytes(form));
    bytes += Base::round_up(size_t(t.rows) * size_t(h.kernel) * sizeof(void*));
    bytes += Base::round_up(size_t(w.kernel) * sizeof(int32_t)) + size_t(t.block_bytes);
    if (kSums) bytes += Base::round_up(size_t(t.rows) * size_t(t.columns) * size_t(t.channels) * sizeof(float));
    return bytes;
  }
};

// float: y = clamp(s + b)
template <int kLanes, class T>
struct DepthwiseReal : RealDepthwise<kLanes, T, T, true, false> {
  using Base = RealDepthwise<kLanes, T, T, true, false>;
  static DepthwiseReal from(const Words& words, const Operands& operands) { return {Base::from(words, operands)}; }
  void run(const T* x, const T* w, Optional<const T> b, T* y, const Args& args) const;
};

// The next forms make the sums s first. The operations of the reference then follow one by one.
// fused: y = f(T(s + b_k) + r) with a residual r, fused_epilogue.h
template <int kLanes, class T>
struct DepthwiseFused : RealDepthwise<kLanes, T, T, false, true> {
  using Base = RealDepthwise<kLanes, T, T, false, true>;
  static DepthwiseFused from(const Words& words, const Operands& operands) { return {Base::from(words, operands)}; }
  void run(const T* x, const T* w, Optional<const T> b, Optional<const T> residual, T* y, const Args& args) const;
};

// weight-only: y = clamp(s c_k + b_k), or with s / c_k
template <int kLanes, class T>
struct DepthwiseWeightOnly : RealDepthwise<kLanes, T, int8_t, false, true> {
  using Base = RealDepthwise<kLanes, T, int8_t, false, true>;
  static DepthwiseWeightOnly from(const Words& words, const Operands& operands) {
    return {Base::from(words, operands)};
  }
  void run(const T* x, const int8_t* w, Optional<const T> b, const float* scale, T* y,
           WordAt<DepthwiseConv2d::kForm> form, const Args& args) const;
};

// float8: y = clamp(s (t_n c_k) + b_k) with scales t_n of x and c_k of w
template <int kLanes, class T>
struct DepthwiseFloat8 : RealDepthwise<kLanes, T, Float8E4M3, false, true> {
  using Base = RealDepthwise<kLanes, T, Float8E4M3, false, true>;
  static DepthwiseFloat8 from(const Words& words, const Operands& operands) { return {Base::from(words, operands)}; }
  void run(const Float8E4M3* x, const Float8E4M3* w, Optional<const T> b, const float* scale,
           PerRow<const float> x_scale, T* y, const Args& args) const;
};

// float8: y = clamp(s (t_n c_k) + b_k) / y_scale, rounded to codes and saturated
template <int kLanes>
struct DepthwiseFloat8Quantized : RealDepthwise<kLanes, float, Float8E4M3, false, true> {
  using Base = RealDepthwise<kLanes, float, Float8E4M3, false, true>;
  static DepthwiseFloat8Quantized from(const Words& words, const Operands& operands) {
    return {Base::from(words, operands)};
  }
  void run(const Float8E4M3* x, const Float8E4M3* w, Optional<const float> b, const float* scale,
           PerRow<const float> x_scale, const float* y_scale, Float8E4M3* y, const Args& args) const;
};

// ---- Forms of codes. The table is int32 rows of `width`, then the weights, int8
// [shared][fours][kernel_w][width][4]: the codes of four rows of the window side by side, and 0 outside the window.
// Scratch holds the codes of x in the same way, with kOffset added (the vectors' kFoursOffset).

// The scratch is {the table, unless bind made it; pointers to the rows of a block [rows][fours]; a row of padding; four
// rows of x, if its channels are repeated; rows; offsets of the columns of a window; with kSums the sums of a block}.
template <int kLanes, int kRows, bool kSums>
struct CodeDepthwise : FastDepthwise<kLanes> {
  static constexpr int kTableRows = kRows;
  using Base = FastDepthwise<kLanes>;
  static CodeDepthwise from(const Words& words, const Operands& operands) { return {Base::from(words, operands)}; }

  static bool accepts(const Words& words, const Operands& operands) {
    return from(words, operands).code_tiling().row_numbers > 0;
  }
  static size_t table_bytes(const CodeDepthwise& form) {
    const DepthwiseTiling t = form.code_tiling();
    const auto columns = size_t(kTableRows + t.shared * form.fours() * form.op.window.w.kernel);
    return kTilingBytes + columns * size_t(t.width) * 4;
  }
  static size_t scratch_with(const CodeDepthwise& form, size_t table) {
    const DepthwiseTiling t = form.code_tiling();
    const WindowAxis& w = form.op.window.w;
    size_t bytes = Base::round_up(table);
    bytes += Base::round_up(size_t(t.rows) * size_t(form.fours()) * sizeof(void*));
    bytes += Base::round_up(size_t(w.kernel) * sizeof(int32_t));
    bytes += Base::source_bytes(t, w) * (form.multiplier() > 1 ? 5 : 1) + size_t(t.block_bytes);
    if (kSums) bytes += Base::round_up(size_t(t.rows) * size_t(t.columns) * size_t(t.channels) * sizeof(int32_t));
    return bytes;
  }

  // Returns sum_ij w_ijk.
  int32_t weight_sum(const int8_t* w, int k) const {
    int32_t sum = 0;
    for (int i = 0; i < this->taps(); ++i) sum += w[i * this->op.out_c + k];
    return sum;
  }
  void fill_weights(const DepthwiseTiling& t, const int8_t* w, int8_t* to) const {
    const int rows = this->op.window.h.kernel, columns = this->op.window.w.kernel;
    for (int down = 0; down < t.shared; ++down)
      for (int i = -down; i < this->fours() * 4 - down; i += 4)
        for (int j = 0; j < columns; ++j)
          for (int k = 0; k < t.width; ++k)
            for (int row = i; row < i + 4; ++row) {
              const bool there = row >= 0 && row < rows && t.channel(k) >= 0;
              *to++ = there ? w[(row * columns + j) * t.out_c + t.channel(k)] : int8_t{0};
            }
  }
};

// int8: y = clamp(zero_y + requant_k(s + b_k)). If kPairs is not 0, a direct step multiplies pairs of kPairs channels.
// Its weights are those of code_pairs.h, int16 [width / kPairs][5 products][2][kPairs / 2 channels][2]. In its table
// each group of kPairs channels begins with the channels of the low pairs (V::pairs).
template <int kLanes, int kOffset, int kPairs, Rounding kRounding>
struct DepthwiseInt8 : CodeDepthwise<kLanes, RequantizeTable<kRounding>::kRows, false> {
  using Base = CodeDepthwise<kLanes, RequantizeTable<kRounding>::kRows, false>;
  using Table = RequantizeTable<kRounding>;
  using Stored = typename Table::Stored;
  static DepthwiseInt8 from(const Words& words, const Operands& operands) { return {Base::from(words, operands)}; }

  void run(const int8_t* x, const int8_t* w, Optional<const int32_t> b, const Stored* scale, int8_t* y,
           const Args& args) const;

  static bool constant(const Operands& operands) {
    return is_constant(operands, Base::kW) && is_constant(operands, Base::kBias) && is_constant(operands, Base::kScale);
  }
  DepthwiseTiling tiling() const {
    if (kPairs > 0 && this->direct(kPairs)) return DepthwiseTiling::direct_of(this->op, kPairs, false);
    return this->code_tiling();
  }
  static bool accepts(const Words& words, const Operands& operands) {
    return from(words, operands).tiling().row_numbers > 0;
  }
  static size_t table_bytes(const DepthwiseInt8& form) {
    const DepthwiseTiling t = form.tiling();
    if (!t.direct) return Base::table_bytes(form);
    return kTilingBytes + Table::bytes(t.width) + kPairProducts * 2 * sizeof(int16_t) * size_t(t.width);
  }
  [[gnu::cold, gnu::noinline]] void fill(const Words&, const Operands& operands, std::byte* to) const {
    const auto data = [&](int i) { return operands.has(i) ? operands.tensor[i].data : nullptr; };
    const auto* const w = static_cast<const int8_t*>(data(Base::kW));
    const DepthwiseTiling t = tiling();
    const Table table = {reinterpret_cast<int32_t*>(put_tiling(t, to)), t.width};
    const auto channel_at = [&t](int k) { return t.direct ? pair_channel(t, k) : t.channel(k); };
    const Optional<const int32_t> b{static_cast<const int32_t*>(data(Base::kBias))};
    table.fill(channel_at, this->op.x_zero + (t.direct ? 0 : kOffset), b,
               static_cast<const Stored*>(data(Base::kScale)), this->op.epilogue.per_channel, this->taps(),
               this->op.epilogue.y_zero, [&](int k) { return this->weight_sum(w, k); });
    if (t.direct) fill_pairs(t, w, reinterpret_cast<int16_t*>(table.row(Table::kRows)));
    else this->fill_weights(t, w, reinterpret_cast<int8_t*>(table.row(Table::kRows)));
  }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    const DepthwiseInt8 form = from(words, operands);
    const size_t table = constant(operands) ? 0 : table_bytes(form);
    return form.tiling().direct ? Base::round_up(table) : Base::scratch_with(form, table);
  }

 private:
  static constexpr int kPairProducts = 5;
  // Returns the channel of a column of the table. Among 16 channels, 0 to 3 and 8 to 11 are low and come first, 4 to
  // 7 and 12 to 15 are high.
  static int pair_channel(const DepthwiseTiling& t, int place) {
    const int half = t.lanes / 2, at = place % t.lanes, high = at / half, i = at % half;
    return t.channel(place - at + i / 4 * 8 + high * 4 + i % 4);
  }
  static void fill_pairs(const DepthwiseTiling& t, const int8_t* w, int16_t* to) {
    constexpr int kTaps[kPairProducts][2] = {{0, 3}, {1, 4}, {2, 5}, {6, 7}, {8, -1}};  // 3 i + j; -1 means no tap
    for (int first = 0; first < t.width; first += t.lanes)
      for (const auto& taps : kTaps)
        for (int k = first; k < first + t.lanes; ++k)
          for (const int tap : taps) *to++ = tap < 0 ? int16_t{0} : w[tap * t.out_c + pair_channel(t, k)];
  }
};

// Forms whose sums begin without a bias. The table has one row, sum_ij w_ijk. The first value of the sums depends on
// the zero point of x, so each run computes it, in scratch after the table.
template <int kLanes>
struct DepthwiseSums : CodeDepthwise<kLanes, 1, true> {
  using Base = CodeDepthwise<kLanes, 1, true>;
  static DepthwiseSums from(const Words& words, const Operands& operands) { return {Base::from(words, operands)}; }

  static bool constant(const Operands& operands) { return is_constant(operands, Base::kW); }
  [[gnu::cold, gnu::noinline]] void fill(const Words&, const Operands& operands, std::byte* to) const {
    const auto* const w = static_cast<const int8_t*>(operands.tensor[Base::kW].data);
    const DepthwiseTiling t = this->code_tiling();
    auto* const sums = reinterpret_cast<int32_t*>(put_tiling(t, to));
    for (int k = 0; k < t.width; ++k) sums[k] = t.channel(k) >= 0 ? this->weight_sum(w, t.channel(k)) : 0;
    this->fill_weights(t, w, reinterpret_cast<int8_t*>(sums + t.width));
  }
  static size_t starts_bytes(const DepthwiseTiling& t) { return Base::round_up(size_t(t.width) * sizeof(int32_t)); }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    const DepthwiseSums form = from(words, operands);
    return Base::scratch_with(form, constant(operands) ? 0 : Base::table_bytes(form)) +
           starts_bytes(form.code_tiling());
  }
};

// dynamic: y = clamp(s / (c_k t_n) + b_k), every operation rounded to T
template <int kLanes, class T>
struct DepthwiseDynamic : DepthwiseSums<kLanes> {
  using Base = DepthwiseSums<kLanes>;
  static DepthwiseDynamic from(const Words& words, const Operands& operands) { return {Base::from(words, operands)}; }
  void run(const int8_t* x, const int8_t* w, Optional<const T> b, const T* scale, PerRow<const T> x_scale, T* y,
           const Args& args) const;
};

// hybrid: y = clamp(s (t_n c_k) + b_k)
template <int kLanes>
struct DepthwiseHybrid : DepthwiseSums<kLanes> {
  using Base = DepthwiseSums<kLanes>;
  static DepthwiseHybrid from(const Words& words, const Operands& operands) { return {Base::from(words, operands)}; }
  void run(const int8_t* x, const int8_t* w, Optional<const float> b, const float* scale, const float* x_scale,
           const int32_t* x_zeros, float* y, const Args& args) const;
};

namespace fast::depthwise {

template <class Tier>
constexpr auto lines() {
  constexpr int kLanes = Tier::kLanes, kOffset = Tier::kFoursOffset, kPairs = Tier::kPairs;
  constexpr Op op = Op::kDepthwiseConv2d;
  return floats<kLanes, DepthwiseReal>("DepthwiseConv2d", op, DepthwiseConv2d::shapes) +
         floats<kLanes, DepthwiseFused>("DepthwiseConv2dFused", op, DepthwiseConv2d::shapes_fused, 8) +
         floats<kLanes, DepthwiseWeightOnly>("DepthwiseConv2dW8", op, DepthwiseConv2d::shapes) +
         floats<kLanes, DepthwiseFloat8>("DepthwiseConv2dFloat8", op, DepthwiseConv2d::shapes) +
         line<DepthwiseFloat8Quantized<kLanes>>("DepthwiseConv2dFloat8Quantized", op, DepthwiseConv2d::shapes) +
         line<DepthwiseInt8<kLanes, kOffset, kPairs, Rounding::kDouble>>(
             "DepthwiseConv2dI8Double", op, DepthwiseConv2d::shapes, 0, Rounding::kDouble) +
         line<DepthwiseInt8<kLanes, kOffset, kPairs, Rounding::kSingle>>(
             "DepthwiseConv2dI8Single", op, DepthwiseConv2d::shapes, 0, Rounding::kSingle) +
         line<DepthwiseInt8<kLanes, kOffset, kPairs, Rounding::kFloatEven>>(
             "DepthwiseConv2dI8FloatEven", op, DepthwiseConv2d::shapes, 0, Rounding::kFloatEven) +
         line<DepthwiseDynamic<kLanes, float>>("DepthwiseConv2dDynamicF32", op, DepthwiseConv2d::shapes) +
         line<DepthwiseDynamic<kLanes, Bfloat16>>("DepthwiseConv2dDynamicBf16", op, DepthwiseConv2d::shapes) +
         line<DepthwiseHybrid<kLanes>>("DepthwiseConv2dHybrid", op, DepthwiseConv2d::shapes);
}

}  // namespace fast::depthwise

}  // namespace nacre::inline NACRE_ISA
