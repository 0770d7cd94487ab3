// Code of the kernel forms that forms.h declares, over a vector type V (engine/simd). ports/vector/family.cc includes
// it and is compiled for several instruction sets.
#pragma once

#include "engine/kernels/fast/decoded/nibbles.h"
#include "engine/kernels/fast/row_major/run.h"
#include "engine/kernels/fast/scaled_sums.h"

namespace nacre::inline NACRE_ISA {

// ---- Rows of weights as float32.

template <class V, class W>
void decode_codes(const W* w, ptrdiff_t first, int count, float* to) {
  to_floats<V>(to, w + first, count);
}
// Decodes eight codes of 4 bits at a time, spread over the bytes of a word.
template <class V>
void decode_codes(const Int4Pair* w, ptrdiff_t first, int count, float* to) {
  if (count > 0 && first % 2 != 0) *to++ = element<float>(w + first / 2, 1), ++first, --count;
  const Int4Pair* from = w + first / 2;
  constexpr int kPiece = 64;
  alignas(64) int8_t codes[kPiece];
  for (int i = 0; i < count; i += kPiece, to += kPiece, from += kPiece / 2) {
    const int n = count - i < kPiece ? count - i : kPiece;
    for (int j = 0; j < n; j += 8) {
      uint32_t bits = 0;
      const int bytes = n - j < 8 ? (n - j + 1) / 2 : 4;
      if (bytes == 4) std::memcpy(&bits, from + j / 2, 4);
      else
        for (int k = 0; k < bytes; ++k) bits |= uint32_t{from[j / 2 + k].bits} << 8 * k;
      uint64_t spread = bits;
      spread = (spread | spread << 16) & 0x0000FFFF0000FFFFu;
      spread = (spread | spread << 8) & 0x00FF00FF00FF00FFu;
      spread = (spread | spread << 4) & 0x0F0F0F0F0F0F0F0Fu;
      spread = (((spread ^ 0x0808080808080808u) | 0x8080808080808080u) - 0x0808080808080808u) ^ 0x8080808080808080u;
      std::memcpy(codes + j, &spread, 8);
    }
    to_floats<V>(to, codes, n);
  }
}

template <class V, class W>
struct PlainRows {
  const W* w;
  int length;
  void row(int k, float* to) const { decode_codes<V>(w, ptrdiff_t(k) * length, length, to); }
};

// Decodes rows of weights c_kg (q - z_kg), rounded to S.
template <class V, class W, class S>
struct GroupedRows {
  const W* w;
  int length;
  const S* scale;
  const int8_t* zero;
  int block;

  [[gnu::noinline]] void row(int k, float* to) const {
    decode_codes<V>(w, ptrdiff_t(k) * length, length, to);
    const int groups = (length - 1) / block + 1;
    for (int g = 0; g < groups; ++g) {
      const int first = g * block, count = block < length - first ? block : length - first, at = k * groups + g;
      const typename V::F z = V::set(float(zero[at])), c = V::set(float(scale[at]));
      each_vector<V>(count, [&](int i, auto n) {
        const typename V::F v = V::mul(V::sub(load<V>(to + first + i, n), z), c);
        store<V>(to + first + i, rounded_to<V, S>(v), n);
      });
    }
  }
};

// Writes T(x c) as float32.
template <class V, class T>
[[gnu::noinline]] void decode_scaled(const Float8E4M3* x, int count, T scale, float* to) {
  const typename V::F c = V::set(float(scale));
  each_vector<V>(count, [&](int i, auto n) { store<V>(to + i, rounded_to<V, T>(V::mul(load<V>(x + i, n), c)), n); });
}
template <class V, class T>
struct Float8Rows {
  const Float8E4M3* w;
  int length;
  const T* scale;
  bool per_channel;
  void row(int k, float* to) const {
    decode_scaled<V>(w + ptrdiff_t(k) * length, length, scale[per_channel ? k : 0], to);
  }
};

// ---- The product. It is compiled once for each op and type of x. It calls functions by pointer: one decodes a row
// of weights, one takes a row of sums.

struct DecodedRows {
  const void* context;
  void (*decode)(const void* context, int k, float* to);
  void row(int k, float* to) const { decode(context, k, to); }
};
struct SumsTaker {
  const void* context;
  void (*take)(const void* context, const float* sums, int columns, int i, int row, int k);
  void operator()(const float* sums, int columns, int i, int row, int k) const {
    take(context, sums, columns, i, row, k);
  }
};

template <class V, class T>
void few_decoded_rows(const Dense& op, const T* x, const DecodedRows& weights, int chunk, const Args& args,
                      const Pieces& scratch, const SumsTaker& f) {
  const ptrdiff_t used = scratch.at - args.scratch.data();
  in_parts(args, op.work(), [&](Part part, std::span<std::byte> memory) {
    Pieces mine = {memory.data() + used};
    const float* const start = zeros(mine, chunk);
    float* const rows = mine.take<float>(size_t(V::kLanes) * size_t(op.in));
    mine.take<float>(size_t(chunk) * size_t(op.in));
    alignas(64) float sums[kFewRows * V::kLanes];
    for (int k = 0; k < op.out; k += V::kLanes) {
      if (!part.takes()) continue;
      const int columns = V::most(op.out - k);
      for (int c = 0; c < columns; ++c) weights.row(k + c, rows + ptrdiff_t(c) * op.in);
      each_dot_row<V>(x, rows, start, op.rows, op.in, columns,
                      [&](int r, int c, float sum) { sums[r * V::kLanes + c] = sum; });
      for (int r = 0; r < op.rows; ++r) f(sums + r * V::kLanes, columns, r * op.out + k, r, k);
    }
  });
}

// Returns the number of parts of x that have one x_scale each: rows of dense, samples of a convolution.
inline int scaled_rows(const Dense& op) { return op.rows; }
inline int scaled_rows(const Conv2d& op) { return op.batch; }

inline int first_channel(const Dense&, int) { return 0; }
inline int first_channel(const Conv2d& op, int group) { return group * op.group_in; }

template <class V, class O, int kLanes, class T>
[[gnu::noinline]] void decoded_product(const DecodedMatmul<O, kLanes>& matmul, const T* x, const DecodedRows& weights,
                                       const Args& args, const Pieces& scratch, const SumsTaker& f) {
  const ProductSizes all = sizes_of(matmul.op, 1);
  const int chunk = matmul.chunk(all), channels = all.out * all.groups;
  if constexpr (std::is_same_v<O, Dense>)
    if (has_few_rows(matmul.op)) return few_decoded_rows<V>(matmul.op, x, weights, chunk, args, scratch, f);
  ProductSizes s = all;
  s.groups = 1;
  const int blocks = matmul.blocks(matmul.op, s, kFloats), rows = matmul.block_rows(s, kFloats);
  in_parts_behind(matmul, args, scratch, false, [&](Part part, Pieces mine) {
    const float* const start = zeros(mine, chunk);
    float* const lanes = mine.take<float>(size_t(kLanes) * size_t(s.length));
    float* const panels = mine.take<float>(size_t(chunk) * size_t(s.length));
    float* const sums = mine.take<float>(matmul.sum_numbers(matmul.op, s, kFloats));
    const int at_once = matmul.sum_columns(matmul.sum_rows(matmul.op, s, kFloats), s.out);
    const ptrdiff_t panel = ptrdiff_t(s.length) * kLanes;
    for (int group = 0; group < all.groups; ++group)
      for (int column = 0; column < s.out; column += chunk) {
        Part ahead = part;
        if (!ahead.any(blocks)) {
          part = ahead;
          continue;
        }
        const int columns = chunk < s.out - column ? chunk : s.out - column, k = group * s.out + column;
        for (int c = 0; c < columns; c += kLanes) {
          const int count = V::most(columns - c);
          for (int i = 0; i < count; ++i) weights.row(k + c + i, lanes + ptrdiff_t(i) * s.length);
          pack_rows<V>(lanes, count, s.length, panels + c / kLanes * panel);
        }
        Share share = {part, columns, chunk, rows};
        Pieces rest = mine;
        each_block_of<V, float>(matmul.op, s, x + first_channel(matmul.op, group), s.length, rest, T(0.0f), share,
                                [&](const float* block, const TileRows& shape, int count, int first, int) {
                                  for (int c = 0; c < columns; c += at_once) {
                                    const int some = columns - c < at_once ? columns - c : at_once;
                                    const RealProduct<V, float> product = {
                                        some, panels + c / kLanes * panel, panel, start, low_of({}), high_of({})};
                                    product.run(block, shape, count, sums, some);
                                    for (int r = 0; r < count; ++r)
                                      f(sums + r * some, some, (first + r) * channels + k + c, first + r, k + c);
                                  }
                                });
        part = share.part;
      }
  });
}

// Calls f(sums, columns, index into y, row, channel) for `columns` sums of a row of y, from `channel` on.
// weights.row(k, to) writes the weights of channel k as float32.
template <class V, class O, int kLanes, class T, class Rows, class F>
void each_decoded_block(const DecodedMatmul<O, kLanes>& matmul, const T* x, const Rows& weights, const Args& args,
                        const Pieces& scratch, const F& f) {
  const DecodedRows rows = {&weights, [](const void* c, int k, float* to) { static_cast<const Rows*>(c)->row(k, to); }};
  const SumsTaker taker = {&f, [](const void* c, const float* sums, int columns, int i, int row, int k) {
                             (*static_cast<const F*>(c))(sums, columns, i, row, k);
                           }};
  decoded_product<V>(matmul, x, rows, args, scratch, taker);
}

// ---- The forms.

template <class O, int kLanes, class T, class W, class S>
void DecodedWeightOnlyForm<O, kLanes, T, W, S>::run(const T* x, const W* w, Optional<const T> b, const S* scale, T* y,
                                                    WordAt<O::kForm> form, const Args& args) const {
  using V = Vector;
  const bool divides = form.value == uint32_t(ScaleForm::kReciprocal);
  const auto put = scaled_sums<V>(this->op.epilogue, divides ? SumScale::kDivided : SumScale::kTimes, scale, b);
  const auto store = [&](const float* sums, int n, int i, int, int k) { put(sums, n, k, y + i); };
  if constexpr (DecodedWeightOnlyForm::kNibbled)
    if (has_few_rows(this->op) && fits_nibbles<kLanes>(this->op, this->op.in))
      return each_nibble_sum<V>(this->op, x, w, WholeRows{}, args, store);
  each_decoded_block<V>(*this, x, PlainRows<V, W>{w, sizes_of(this->op, 1).length}, args, {args.scratch.data()}, store);
}

template <class O, int kLanes, class T, class W, class S>
void DecodedGroupedForm<O, kLanes, T, W, S>::run(const T* x, const W* w, Optional<const T> b, const S* scale,
                                                 const int8_t* zero, T* y, WordAt<O::kBlock> block,
                                                 const Args& args) const {
  using V = Vector;
  const auto put = scaled_sums<V>(this->op.epilogue, SumScale::kNone, scale, b);
  const auto store = [&](const float* sums, int n, int i, int, int k) { put(sums, n, k, y + i); };
  const int size = int(block.value), length = sizes_of(this->op, 1).length;
  if constexpr (DecodedGroupedForm::kNibbled)
    if (has_few_rows(this->op) && fits_nibbles<kLanes>(this->op, size))
      return each_nibble_sum<V>(this->op, x, w, GroupsOfCodes<V>(scale, zero, size, length), args, store);
  each_decoded_block<V>(*this, x, GroupedRows<V, W, S>{w, length, scale, zero, size}, args, {args.scratch.data()},
                        store);
}

template <class O, int kLanes, class T>
void DecodedFloat8Form<O, kLanes, T>::run(const Float8E4M3* x, const Float8E4M3* w, Optional<const T> b, const T* scale,
                                          PerRow<const T> x_scale, T* y, const Args& args) const {
  using V = Vector;
  Pieces scratch = {args.scratch.data()};
  const int elements = args.operands()[Base::kX].elements();
  const int scales = scaled_rows(this->op), width = elements / scales;
  float* const decoded_x = scratch.take<float>(size_t(elements));
  for (int r = 0; r < scales; ++r) decode_scaled<V>(x + r * width, width, x_scale[r], decoded_x + r * width);
  const auto put = scaled_sums<V>(this->op.epilogue, SumScale::kNone, scale, b);
  const Float8Rows<V, T> rows = {w, sizes_of(this->op, 1).length, scale, this->op.epilogue.per_channel};
  each_decoded_block<V>(*this, static_cast<const float*>(decoded_x), rows, args, scratch,
                        [&](const float* sums, int n, int i, int, int k) { put(sums, n, k, y + i); });
}

}  // namespace nacre::inline NACRE_ISA
