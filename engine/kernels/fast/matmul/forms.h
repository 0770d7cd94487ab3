// Kernel forms of dense and conv2d as products with packed weights (fast/product.h), for vectors of kLanes numbers:
// which steps they take and what scratch a step needs. This is plain C++, the same on every machine. The code is in
// run.h.
//
//   y_rk = epilogue(sum_i x_ri w_ki)      r: a row of x, or a pixel and its window; i: the numbers of the row or window
//
// fast/row_source.h says where the rows of x come from.
#pragma once

#include <bit>

#include "engine/base/layout.h"
#include "engine/kernels/fast/lines.h"
#include "engine/kernels/fast/pieces.h"
#include "engine/kernels/fast/requantize_table.h"
#include "engine/kernels/fast/row_source.h"
#include "engine/kernels/kernel.h"

namespace nacre::inline NACRE_ISA {

// Layouts of the weights of real products and of products of codes: panels of kLanes rows. Codes stand in quads.
template <int kLanes>
inline constexpr Layout kRealLayout = layout_of(std::countr_zero(unsigned(kLanes)));
template <int kLanes>
inline constexpr Layout kDotLayout = layout_of(std::countr_zero(unsigned(kLanes)), 2);
// Layout of the weights of real products whose terms stand in groups.
template <int kLanes, int kGroup>
inline constexpr Layout kGroupLayout =
    layout_of(std::countr_zero(unsigned(kLanes)), std::countr_zero(unsigned(kGroup)));

// Numbers past a band, or past windows, that copies in whole pieces may touch.
inline constexpr int kSlack = 64;
inline constexpr int kDecodedRows = 12;  // with so many rows of x, decoding the weights to memory first pays

// Numbers that stand in scratch: the bytes of one number, how many are multiplied together, and the bytes of a block.
// The first-level cache then has room for weights too. Weights that each block decodes pay for the second-level cache.
struct Numbers {
  size_t size;
  int group;
  int block_bytes = 24 << 10;
};
inline constexpr Numbers kFloats = {sizeof(float), 1};
inline constexpr Numbers kCodes = {2, 4};  // at most 2 bytes: vec.h, Code
inline constexpr Numbers kPairs = {sizeof(Bfloat16), 2};
inline constexpr Numbers kDecodedPairs = {sizeof(Bfloat16), 2, 192 << 10};

template <class O, int kLanes>
struct FastMatmul {
  O op;

  enum Slot { kX = 0, kW = 1, kBias = 2, kScale = 3 };

  static FastMatmul from(const Words& words, const Operands& operands) {
    return {along_rows(O::from(words, operands))};
  }
  uint64_t work() const { return op.work(); }

  // Returns the columns of all groups, rounded up to whole panels. If there are several groups, each has whole panels.
  int padded() const {
    const ProductSizes s = sizes_of(op, 1);
    return (s.out * s.groups + kLanes - 1) / kLanes * kLanes;
  }

  // ---- Scratch holds {the table, unless bind made it; a block of rows; their sums}, each at a multiple of 64 bytes.

  static constexpr size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }
  static constexpr int kLeastRows = 24, kDecodedBytes = 256 << 10;
  static constexpr int kSumBytes = 32 << 10;

  // Returns the numbers from one row to the next in scratch, in whole groups.
  static int row_step(int length, Numbers numbers) {
    return (length + numbers.group - 1) / numbers.group * numbers.group;
  }
  // Returns the rows of a block: one to four times kLeastRows, as many as fit its bytes of scratch. A product with
  // fewer rows is one block.
  static int block_rows(const ProductSizes& s, Numbers numbers) {
    const int fit = numbers.block_bytes / int(numbers.size) / row_step(s.length, numbers) / kLeastRows * kLeastRows;
    const int rows = fit < kLeastRows ? kLeastRows : fit > 4 * kLeastRows ? 4 * kLeastRows : fit;
    return s.rows < rows ? s.rows : rows;
  }
  // Returns the number of blocks of rows, or bands of rows, in all groups.
  static int blocks(const Dense&, const ProductSizes& s, Numbers numbers) {
    const int rows = block_rows(s, numbers);
    return (s.rows + rows - 1) / rows;
  }
  static int blocks(const Conv2d& conv, const ProductSizes& s, Numbers numbers) {
    if (in_bands(s)) {
      const int out_rows = Band::from(conv, numbers.size).out_rows;
      return conv.batch * ((conv.window.h.out + out_rows - 1) / out_rows);
    }
    const int rows = block_rows(s, numbers);
    return s.groups * ((s.rows + rows - 1) / rows);
  }
  // Returns the rows whose sums are made at a time.
  static int sum_rows(const Dense&, const ProductSizes& s, Numbers numbers) { return block_rows(s, numbers); }
  static int sum_rows(const Conv2d& conv, const ProductSizes& s, Numbers numbers) {
    return in_bands(s) ? int(band_pixels(conv, s, numbers.size)) : block_rows(s, numbers);
  }

  // Returns the columns whose sums are made at a time: whole groups of panels that are multiplied together.
  static int sum_columns(int rows, int out) {
    constexpr int kGroup = 4 * kLanes;
    const int fit = rows > 0 ? kSumBytes / int(sizeof(float)) / rows / kGroup * kGroup : out;
    return out < fit ? out : fit < kGroup ? kGroup : fit;
  }
  static size_t sum_numbers(const O& op, const ProductSizes& s, Numbers numbers) {
    const int rows = sum_rows(op, s, numbers);
    return size_t(rows) * size_t(sum_columns(rows, s.out));
  }

  // Returns the bytes of scratch. With kConverted, rows that follow each other in x are copied too.
  template <Numbers kNumbers, bool kConverted, bool kSums>
  static size_t scratch_with(const Words& words, const Operands& operands, size_t table) {
    const FastMatmul matmul = from(words, operands);
    const ProductSizes s = sizes_of(matmul.op, kNumbers.group);
    size_t bytes = round_up(table);
    const auto rows = size_t(block_rows(s, kNumbers));
    const bool bands = in_bands(s);
    if (bands) bytes += round_up((band_elements(matmul.op, kNumbers.size) + kSlack) * kNumbers.size);
    if (s.source == RowSource::kBandWindows)
      bytes += round_up((band_pixels(matmul.op, s, kNumbers.size) * size_t(row_step(s.length, kNumbers)) + kSlack) *
                        kNumbers.size);
    else if (!bands && (kConverted || s.source == RowSource::kWindows))
      bytes += round_up(rows * size_t(row_step(s.length, kNumbers)) * kNumbers.size);
    if (kSums) bytes += round_up(sum_numbers(matmul.op, s, kNumbers) * sizeof(float));
    return bytes;
  }

  // Returns how many weights of another type are decoded at a time (fast/product.h), or 0 if the tiles decode them.
  static size_t decoded_numbers(const ProductSizes& s) {
    const size_t numbers = size_t{2} * kLanes * size_t(s.length);
    return s.rows < kDecodedRows || numbers * sizeof(float) > size_t(kDecodedBytes) ? 0 : numbers;
  }
  static size_t decoded_bytes(const Words& words, const Operands& operands) {
    return round_up(decoded_numbers(sizes_of(from(words, operands).op, 1)) * sizeof(float));
  }
  // Returns how many pairs of bfloat16 are decoded at a time, or 0.
  static size_t decoded_pairs(const ProductSizes& s) {
    const size_t numbers = size_t{2} * kLanes * size_t(row_step(s.length, kDecodedPairs));
    return s.rows < kDecodedRows || numbers * sizeof(Bfloat16) > size_t(kDecodedBytes) ? 0 : numbers;
  }
  // Returns the scratch of weights of 8 bits, which become float32 (kGroup 1) or pairs: zeros, with which the
  // sums begin; rows of T; decoded weights.
  template <int kGroup, bool kConverted>
  static size_t decoding_scratch(const Words& words, const Operands& operands) {
    const FastMatmul matmul = from(words, operands);
    const size_t zeros = size_t(matmul.padded()) * sizeof(float);
    if constexpr (kGroup == 1)
      return scratch_with<kFloats, kConverted, true>(words, operands, zeros) + decoded_bytes(words, operands);
    else
      return scratch_with<kDecodedPairs, true, false>(words, operands, zeros) +
             round_up(decoded_pairs(sizes_of(matmul.op, kDecodedPairs.group)) * sizeof(Bfloat16));
  }

  static bool accepts(const Words& words, const Operands& operands) {
    const ProductSizes s = sizes_of(from(words, operands).op, 1);
    return s.groups == 1 || s.out % kLanes == 0;
  }
};

// ---- The forms of engine/ops/epilogue.h, a struct each. Some have a table. If its data are constant, bind makes the
// table; else each run makes it at the beginning of scratch. For real products it is the bias in float32 and in whole
// panels. For int8 codes it is the table of fast/requantize_table.h.

// float, all of one type T: y = clamp(s + b). kGroup is 2 for bfloat16 if vectors multiply pairs (simd/vec.h), else 1.
template <class O, int kLanes, class T, int kGroup = 1>
struct RealForm : FastMatmul<O, kLanes> {
  using Base = FastMatmul<O, kLanes>;
  static constexpr Numbers kNumbers = kGroup == 1 ? kFloats : kPairs;
  static constexpr bool kDecodes = kGroup == 1 && !std::is_same_v<T, float>;
  static RealForm from(const Words& words, const Operands& operands) { return {Base::from(words, operands)}; }

  void run(const T* x, Packed<const T, kGroupLayout<kLanes, kGroup>> w, Optional<const T> b, T* y,
           const Args& args) const;

  static bool constant(const Operands& operands) { return is_constant(operands, Base::kBias); }
  static size_t table_bytes(const RealForm& form) { return size_t(form.padded()) * sizeof(float); }
  [[gnu::cold, gnu::noinline]] void fill(const Words&, const Operands& operands, std::byte* to) const {
    const T* const b = operands.has(Base::kBias) ? static_cast<const T*>(operands.tensor[Base::kBias].data) : nullptr;
    auto* const start = reinterpret_cast<float*>(to);
    const int out = operands[Base::kW][0];
    for (int k = 0; k < this->padded(); ++k) start[k] = b != nullptr && k < out ? float(b[k]) : 0.0f;
  }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return sums_bytes(words, operands) + (kDecodes ? Base::decoded_bytes(words, operands) : 0);
  }
  // Returns the scratch for weights that need no conversion: float32, or pairs.
  static size_t sums_bytes(const Words& words, const Operands& operands) {
    const size_t table = constant(operands) ? 0 : table_bytes(from(words, operands));
    constexpr bool kConverted = !std::is_same_v<T, float>;
    return Base::template scratch_with < kNumbers, kConverted, kConverted && kGroup == 1 > (words, operands, table);
  }
};

// float, and a fused cast: y = Y(T(clamp(s + b)))
template <class O, int kLanes, class T, class Y, int kGroup = 1>
struct CastForm : RealForm<O, kLanes, T, kGroup> {
  using Base = FastMatmul<O, kLanes>;
  static CastForm from(const Words& words, const Operands& operands) { return {{Base::from(words, operands)}}; }

  void run(const T* x, Packed<const T, kGroupLayout<kLanes, kGroup>> w, Optional<const T> b, Y* y,
           const Args& args) const;

  static size_t table_bytes(const CastForm& form) { return size_t(form.padded()) * sizeof(float); }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return sums_bytes(words, operands) + (CastForm::kDecodes ? Base::decoded_bytes(words, operands) : 0);
  }
  static size_t sums_bytes(const Words& words, const Operands& operands) {
    const size_t table = CastForm::constant(operands) ? 0 : table_bytes(from(words, operands));
    return Base::template scratch_with<CastForm::kNumbers, !std::is_same_v<T, float>, kGroup == 1>(words, operands,
                                                                                                   table);
  }
};

// fused: y = f(T(s + b_k) + r) with a residual r, fused_epilogue.h
template <class O, int kLanes, class T, int kGroup = 1>
struct FusedForm : RealForm<O, kLanes, T, kGroup> {
  using Base = FastMatmul<O, kLanes>;
  static FusedForm from(const Words& words, const Operands& operands) { return {{Base::from(words, operands)}}; }

  void run(const T* x, Packed<const T, kGroupLayout<kLanes, kGroup>> w, Optional<const T> b, Optional<const T> residual,
           T* y, const Args& args) const;

  static size_t table_bytes(const FusedForm& form) { return size_t(form.padded()) * sizeof(float); }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return sums_bytes(words, operands) + (FusedForm::kDecodes ? Base::decoded_bytes(words, operands) : 0);
  }
  static size_t sums_bytes(const Words& words, const Operands& operands) {
    const size_t table = FusedForm::constant(operands) ? 0 : table_bytes(from(words, operands));
    return Base::template scratch_with<FusedForm::kNumbers, !std::is_same_v<T, float>, kGroup == 1>(words, operands,
                                                                                                    table);
  }
};

// weight-only: y = clamp(s c_k + b_k), or with s / c_k. The sum begins at 0.
template <class O, int kLanes, class T, int kGroup = 1>
struct WeightOnlyForm : FastMatmul<O, kLanes> {
  using Base = FastMatmul<O, kLanes>;
  static WeightOnlyForm from(const Words& words, const Operands& operands) { return {Base::from(words, operands)}; }

  void run(const T* x, Packed<const int8_t, kGroupLayout<kLanes, kGroup>> w, Optional<const T> b, const float* scale,
           T* y, WordAt<O::kForm> form, const Args& args) const;

  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return Base::template decoding_scratch<kGroup, !std::is_same_v<T, float>>(words, operands);
  }
};

// float8: y = clamp(s (t_n c_k) + b_k) with scales t_n of x and c_k of w
template <class O, int kLanes, class T, int kGroup = 1>
struct Float8Form : FastMatmul<O, kLanes> {
  using Base = FastMatmul<O, kLanes>;
  static Float8Form from(const Words& words, const Operands& operands) { return {Base::from(words, operands)}; }

  void run(const Float8E4M3* x, Packed<const Float8E4M3, kGroupLayout<kLanes, kGroup>> w, Optional<const T> b,
           const float* scale, PerRow<const float> x_scale, T* y, const Args& args) const;

  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return Base::template decoding_scratch<kGroup, true>(words, operands);
  }
};

// float8 quantized: y = saturated(clamp(s (t_n c_k) + b_k) / u) with the scale u of y
template <class O, int kLanes, int kGroup = 1>
struct Float8QuantizedForm : FastMatmul<O, kLanes> {
  using Base = FastMatmul<O, kLanes>;
  static Float8QuantizedForm from(const Words& words, const Operands& operands) {
    return {Base::from(words, operands)};
  }

  void run(const Float8E4M3* x, Packed<const Float8E4M3, kGroupLayout<kLanes, kGroup>> w, Optional<const float> b,
           const float* scale, PerRow<const float> x_scale, const float* y_scale, Float8E4M3* y,
           const Args& args) const;

  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return Base::template decoding_scratch<kGroup, true>(words, operands);
  }
};

// Base of the forms of codes, for a dot product that adds kOffset to x.
template <class O, int kLanes, int kOffset>
struct DotForm : FastMatmul<O, kLanes> {
  using Base = FastMatmul<O, kLanes>;

  // Returns sum_i w_ki of packed codes.
  [[gnu::cold, gnu::noinline]] int32_t weight_sum(const int8_t* w, int k) const {
    const int quads = (sizes_of(this->op, kCodes.group).length + 3) / 4;
    const int8_t* at = w + ptrdiff_t(k / kLanes) * quads * 4 * kLanes + k % kLanes * 4;
    int32_t sum = 0;
    for (int i = 0; i < quads; ++i, at += 4 * kLanes) sum += at[0] + at[1] + at[2] + at[3];
    return sum;
  }
};

// int8: y = clamp(zero_y + requant_k(s + b_k))
template <class O, int kLanes, int kOffset, Rounding kRounding>
struct Int8Form : DotForm<O, kLanes, kOffset> {
  using Base = FastMatmul<O, kLanes>;
  using Table = RequantizeTable<kRounding>;
  using Stored = typename Table::Stored;
  static Int8Form from(const Words& words, const Operands& operands) { return {{Base::from(words, operands)}}; }

  void run(const int8_t* x, Packed<const int8_t, kDotLayout<kLanes>> w, Optional<const int32_t> b, const Stored* scale,
           int8_t* y, const Args& args) const;

  static bool constant(const Operands& operands) {
    return is_constant(operands, Base::kW) && is_constant(operands, Base::kBias) && is_constant(operands, Base::kScale);
  }
  static size_t table_bytes(const Int8Form& form) { return Table::bytes(form.padded()); }
  [[gnu::cold, gnu::noinline]] void fill(const Words&, const Operands& operands, std::byte* to) const {
    const auto data = [&](int i) { return operands.has(i) ? operands.tensor[i].data : nullptr; };
    const auto* const w = static_cast<const int8_t*>(data(Base::kW));
    const int out = operands[Base::kW][0];
    Table{reinterpret_cast<int32_t*>(to), this->padded()}.fill(
        [out](int k) { return k < out ? k : -1; }, this->op.x_zero + kOffset,
        Optional{static_cast<const int32_t*>(data(Base::kBias))}, static_cast<const Stored*>(data(Base::kScale)),
        this->op.epilogue.per_channel, sizes_of(this->op, kCodes.group).length, this->op.epilogue.y_zero,
        [&](int k) { return this->weight_sum(w, k); });
  }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    const size_t table = constant(operands) ? 0 : table_bytes(from(words, operands));
    return Base::template scratch_with<kCodes, true, false>(words, operands, table);
  }
};

// int8 to int16: y = saturate(requant_k(s + b_k)), before loops over time
template <int kLanes, int kOffset>
struct Int8ToInt16Form : Int8Form<Dense, kLanes, kOffset, Rounding::kDouble> {
  using Int8 = Int8Form<Dense, kLanes, kOffset, Rounding::kDouble>;
  static Int8ToInt16Form from(const Words& words, const Operands& operands) { return {Int8::from(words, operands)}; }
  void run(const int8_t* x, Packed<const int8_t, kDotLayout<kLanes>> w, Optional<const int32_t> b, const int32_t* scale,
           int16_t* y, const Args& args) const;
};

// Forms whose sums begin without a bias. Their table is -kOffset sum_i w_ki, then sum_i w_ki.
template <class O, int kLanes, int kOffset>
struct DotSumsForm : DotForm<O, kLanes, kOffset> {
  using Base = FastMatmul<O, kLanes>;
  static DotSumsForm from(const Words& words, const Operands& operands) { return {{Base::from(words, operands)}}; }

  static bool constant(const Operands& operands) { return is_constant(operands, Base::kW); }
  static size_t table_bytes(const DotSumsForm& form) { return size_t(form.padded()) * 2 * sizeof(int32_t); }
  [[gnu::cold, gnu::noinline]] void fill(const Words&, const Operands& operands, std::byte* to) const {
    auto *const start = reinterpret_cast<int32_t*>(to), *const sums = start + this->padded();
    for (int k = 0; k < this->padded(); ++k) {
      sums[k] =
          k < operands[Base::kW][0] ? this->weight_sum(static_cast<const int8_t*>(operands.tensor[1].data), k) : 0;
      start[k] = -kOffset * sums[k];
    }
  }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    const size_t table = constant(operands) ? 0 : table_bytes(from(words, operands));
    return Base::template scratch_with<kCodes, true, true>(words, operands, table);
  }
};

// dynamic: y = clamp(s / (c_k t_n) + b_k), every operation rounded to T
template <class O, int kLanes, int kOffset, class T>
struct DynamicForm : DotSumsForm<O, kLanes, kOffset> {
  using Base = FastMatmul<O, kLanes>;
  static DynamicForm from(const Words& words, const Operands& operands) { return {{{Base::from(words, operands)}}}; }
  void run(const int8_t* x, Packed<const int8_t, kDotLayout<kLanes>> w, Optional<const T> b, const T* scale,
           PerRow<const T> x_scale, T* y, const Args& args) const;
};

// hybrid: y = clamp(s (t_n c_k) + b_k), where s is the sum of (x - z_n) w and n is the index of axis 0.
template <class O, int kLanes, int kOffset>
struct HybridForm : DotSumsForm<O, kLanes, kOffset> {
  using Base = FastMatmul<O, kLanes>;
  static HybridForm from(const Words& words, const Operands& operands) { return {{{Base::from(words, operands)}}}; }
  void run(const int8_t* x, Packed<const int8_t, kDotLayout<kLanes>> w, Optional<const float> b, const float* scale,
           const float* x_scale, const int32_t* x_zeros, float* y, const Args& args) const;
};

namespace fast::matmul {

template <class Tier, class O>
constexpr auto lines_of(const char* name, Op op) {
  constexpr int kLanes = Tier::kLanes, kOffset = Tier::kDotOffset, kGroup = Tier::kRealGroup,
                kDecoded = Tier::kDecodedGroup;
  return line<RealForm<O, kLanes, float>>({name, "F32"}, op, O::shapes) +
         line<RealForm<O, kLanes, Float16>>({name, "F16"}, op, O::shapes) +
         line<RealForm<O, kLanes, Bfloat16, kGroup>>({name, "Bf16"}, op, O::shapes) +
         line<FusedForm<O, kLanes, float>>({name, "FusedF32"}, op, O::shapes_fused, 8) +
         line<FusedForm<O, kLanes, Float16>>({name, "FusedF16"}, op, O::shapes_fused, 8) +
         line<FusedForm<O, kLanes, Bfloat16, kGroup>>({name, "FusedBf16"}, op, O::shapes_fused, 8) +
         line<WeightOnlyForm<O, kLanes, float>>({name, "W8F32"}, op, O::shapes) +
         line<WeightOnlyForm<O, kLanes, Float16>>({name, "W8F16"}, op, O::shapes) +
         line<WeightOnlyForm<O, kLanes, Bfloat16, kDecoded>>({name, "W8Bf16"}, op, O::shapes) +
         line<Float8Form<O, kLanes, float, kDecoded>>({name, "Float8F32"}, op, O::shapes) +
         line<Float8Form<O, kLanes, Float16, kDecoded>>({name, "Float8F16"}, op, O::shapes) +
         line<Float8Form<O, kLanes, Bfloat16, kDecoded>>({name, "Float8Bf16"}, op, O::shapes) +
         line<Float8QuantizedForm<O, kLanes, kDecoded>>({name, "Float8Quantized"}, op, O::shapes) +
         line<CastForm<O, kLanes, Float16, float>>({name, "F16ToF32"}, op, O::shapes) +
         line<CastForm<O, kLanes, Bfloat16, float, kGroup>>({name, "Bf16ToF32"}, op, O::shapes) +
         line<CastForm<O, kLanes, float, Float16>>({name, "F32ToF16"}, op, O::shapes) +
         line<CastForm<O, kLanes, float, Bfloat16>>({name, "F32ToBf16"}, op, O::shapes) +
         line<DynamicForm<O, kLanes, kOffset, float>>({name, "DynamicF32"}, op, O::shapes) +
         line<DynamicForm<O, kLanes, kOffset, Bfloat16>>({name, "DynamicBf16"}, op, O::shapes) +
         line<HybridForm<O, kLanes, kOffset>>({name, "Hybrid"}, op, O::shapes) +
         line<Int8Form<O, kLanes, kOffset, Rounding::kDouble>>({name, "I8Double"}, op, O::shapes, 0,
                                                               Rounding::kDouble) +
         line<Int8Form<O, kLanes, kOffset, Rounding::kSingle>>({name, "I8Single"}, op, O::shapes, 0,
                                                               Rounding::kSingle) +
         line<Int8Form<O, kLanes, kOffset, Rounding::kFloatEven>>({name, "I8FloatEven"}, op, O::shapes, 0,
                                                                  Rounding::kFloatEven);
}

template <class Tier>
constexpr auto lines() {
  return lines_of<Tier, Dense>("Dense", Op::kDense) + lines_of<Tier, Conv2d>("Conv2d", Op::kConv2d) +
         line<Int8ToInt16Form<Tier::kLanes, Tier::kDotOffset>>("DenseI8ToI16Double", Op::kDense,
                                                               Dense::shapes_int8_to_int16, 0, Rounding::kDouble);
}

}  // namespace fast::matmul

}  // namespace nacre::inline NACRE_ISA
