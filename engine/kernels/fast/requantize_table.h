// The table that the epilogue of an int8 product reads for each output channel k. Its rows are padded to whole
// vectors, so a kernel loads vectors without a check where the channels end. The rows of each rounding are:
//
//   start_k  b_k - (offset + x_zero) sum_i w_ki      the sum begins here and runs over (x_ri + offset) w_ki
//   double   multiplier, left, right                 multiply<kDouble> of numeric/fixed_point.h: shift left, or right
//   single   multiplier, total = 31 - shift          multiply<kSingle>
//   float    scale; a scale that is not finite is stored as the finite one that gives the same codes: 0 for NaN, else
//            largest float
//
// The first number of `left` is kQuick if QuickCodes below serves every channel. QuickCodes does not read `left`.
//
// Bind makes the table once if weights, bias and scale are constants; else each run makes it.
#pragma once

#include <limits>

#include "engine/ops/epilogue.h"

namespace nacre::inline NACRE_ISA {

template <Rounding kRounding>
struct RequantizeTable {
  static constexpr int kRows = kRounding == Rounding::kDouble ? 4 : kRounding == Rounding::kSingle ? 3 : 2;
  using Stored = typename Requant<kRounding>::Stored;

  // kQuick marks a table for QuickCodes. kMostShift is the largest shift to the right that QuickCodes takes.
  static constexpr int32_t kQuick = -1, kMostShift = 22;

  int32_t* rows;  // [kRows][padded]
  int padded;

  static size_t bytes(int padded) { return size_t(kRows) * size_t(padded) * sizeof(int32_t); }
  int32_t* row(int i) const { return rows + i * padded; }

  bool quick() const { return kRounding == Rounding::kDouble && row(2)[0] == kQuick; }

  // Fills the table. channel_at(i) returns the channel of column i, or -1 if there is none. weight_sum(k) returns
  // sum_i w_ki. A sum has `products` terms.
  template <class ChannelAt, class WeightSum>
  [[gnu::cold]] void fill(const ChannelAt& channel_at, int32_t offset, Optional<const int32_t> b, const Stored* scale,
                          bool per_channel, int products, int y_zero, const WeightSum& weight_sum) const {
    for (int at = 0; at < padded; ++at) {
      const int k = channel_at(at);
      const bool there = k >= 0;
      const int32_t bias = there && b ? b[k] : 0;
      row(0)[at] = there ? wrapping_sub(bias, int32_t(uint32_t(offset) * uint32_t(weight_sum(k)))) : 0;
      const int i = per_channel ? k : 0;
      if constexpr (kRounding == Rounding::kFloatEven) {
        row(1)[at] = there ? std::bit_cast<int32_t>(finite(scale[i])) : 0;
      } else {
        const int32_t multiplier = there ? scale[2 * i] : 0, shift = multiplier != 0 ? scale[2 * i + 1] : -1;
        row(1)[at] = multiplier;
        if constexpr (kRounding == Rounding::kDouble) {
          row(2)[at] = shift > 0 ? shift & 31 : 0;
          row(3)[at] = shift > 0 ? 0 : int32_t(0u - uint32_t(shift)) & 31;
        } else {
          row(2)[at] = int32_t((31u - uint32_t(shift)) & 63);
        }
      }
    }
    if constexpr (kRounding == Rounding::kDouble)
      if (all_quick(products, y_zero)) row(2)[0] = kQuick;
  }

 private:
  static float finite(float scale) {
    constexpr float kMost = std::numeric_limits<float>::max();
    return scale != scale ? 0 : scale > kMost ? kMost : scale < -kMost ? -kMost : scale;
  }
  bool all_quick(int products, int y_zero) const {
    const int64_t most = (int64_t{1} << 30) - 1 - int64_t{products} * 255 * 128;
    bool all = y_zero >= -128 && y_zero <= 127;
    for (int k = 0; k < padded; ++k) {
      const int64_t start = row(0)[k];
      const int32_t right = row(3)[k];
      all = all && start <= most && -start <= most && row(1)[k] >= 0 && row(2)[k] == 0 && right >= 1 &&
            right <= kMostShift;
    }
    return all;
  }
};

// Computes requantized(sum) + y_zero of kLanes channels from k on, before the clamp. word() serves a V that packs
// codes by way of 16 bits. It leaves out `zero_word`, which V adds, and is correct after saturation to 16 bits.
template <class V, Rounding kRounding>
struct ChannelCodes {
  using I = typename V::I;
  I a, b, c, zero;

  ChannelCodes(const RequantizeTable<kRounding>& table, int k, int y_zero)
      : a(V::load_integers(table.row(1) + k)),
        b(V::load_integers(table.row(RequantizeTable<kRounding>::kRows - 2) + k)),
        c(V::load_integers(table.row(RequantizeTable<kRounding>::kRows - 1) + k)), zero(V::set(y_zero)) {}

  // Bounds v to [-2^30, 2^30], which is beyond all codes.
  static typename V::F bounded(typename V::F v) { return V::max(V::set(-0x1p30f), V::min(V::set(0x1p30f), v)); }

  I operator()(I sum) const {
    if constexpr (kRounding == Rounding::kDouble)
      return V::add(V::rounding_shift(V::doubling_high(V::shift_left(sum, b), a), c), zero);
    else if constexpr (kRounding == Rounding::kSingle) return V::add(V::scaled(sum, a, c), zero);
    else return V::add(V::round_within(bounded(V::mul(V::to_float(sum), V::as_float(a)))), zero);
  }
  I word(I sum) const {
    if constexpr (kRounding == Rounding::kFloatEven) return V::round_word(V::mul(V::to_float(sum), V::as_float(a)));
    else return (*this)(sum);
  }
  static int zero_word(int y_zero) { return kRounding == Rounding::kFloatEven ? y_zero : 0; }
};

// Computes the codes of kDouble with half the instructions. Every channel must have a shift to the right, n in [1,
// kMostShift], and every sum must be below 2^30. Rounding u / 2^n half away from zero is (u + 2^(n-1) - (u < 0 ? 1 :
// 0)) >> n. Here u, the doubled high product, has the sign of the sum or rounds to 0. So y_zero 2^n is added first.
template <class V>
struct QuickCodes {
  using I = typename V::I;
  I multiplier, add, right;

  QuickCodes(const RequantizeTable<Rounding::kDouble>& table, int k, int y_zero)
      : multiplier(V::load_integers(table.row(1) + k)), right(V::load_integers(table.row(3) + k)) {
    const I half = V::shift_left(V::set(int32_t{1}), V::sub(right, V::set(int32_t{1})));
    add = V::add(half, V::shift_left(V::set(int32_t{y_zero}), right));
  }
  I operator()(I sum) const { return V::scaled_twice(sum, multiplier, add, right); }
  I word(I sum) const { return (*this)(sum); }
  static int zero_word(int) { return 0; }
};

// The range of codes of y that a clamp leaves.
struct ClampRange {
  int32_t low, high;

  explicit ClampRange(const Clamp& clamp)
      : low(clamp.kind == Clamp::kNone ? -128 : int32_t(clamp.low)),
        high(clamp.kind == Clamp::kNone ? 127 : int32_t(clamp.high)) {}
  bool all() const { return low <= -128 && high >= 127; }
};

// Writes tiles of y = clamp(requantized(sum) + y_zero).
template <class V, Rounding kRounding>
struct Requantizer {
  RequantizeTable<kRounding> table;
  int32_t zero;
  ClampRange range;
  int8_t* y;
  ptrdiff_t step;  // from row to row of y
  bool quick;

  Requantizer(const RequantizeTable<kRounding>& rows, const Epilogue& epilogue, int8_t* to, ptrdiff_t row)
      : table(rows), zero(epilogue.y_zero), range(epilogue.clamp), y(to), step(row), quick(rows.quick()) {}

  // Writes the codes of sums [rows][vectors kLanes], whose rows are `sum_step` apart, to rows of y from `first` on and
  // channels from `channel` to `end`.
  void operator()(const int32_t* sums, int sum_step, int rows, int vectors, int first, int channel, int end) const {
    for (int v = 0; v < vectors; ++v, channel += V::kLanes, sums += V::kLanes) {
      const int n = V::most(end - channel);
      int8_t* const to = y + ptrdiff_t(first) * step + channel;
      if constexpr (kRounding == Rounding::kDouble)
        if (quick) {
          const QuickCodes<V> codes(table, channel, zero);
          if (range.all()) put<false>(codes, sums, sum_step, rows, to, n);
          else put<true>(codes, sums, sum_step, rows, to, n);
          continue;
        }
      put<true>(ChannelCodes<V, kRounding>(table, channel, zero), sums, sum_step, rows, to, n);
    }
  }

 private:
  template <bool kBounds, class Codes>
  void put(const Codes& codes, const int32_t* sums, int sum_step, int rows, int8_t* to, int n) const {
    const typename V::I low = V::set(range.low), high = V::set(range.high);
    const auto code = [&](int r) {
      const typename V::I all = codes(V::load_integers(sums + r * sum_step));
      return kBounds ? V::max(low, V::min(high, all)) : all;  // stores saturate
    };
    if (n < V::kLanes) {
      for (int r = 0; r < rows; ++r, to += step) V::store(to, code(r), n);
      return;
    }
    int r = 0;
    if constexpr (V::kPacksWords) {
      const typename V::CodeRange words(Codes::zero_word(zero), range.low, range.high);
      const auto word = [&](int i) { return codes.word(V::load_integers(sums + (r + i) * sum_step)); };
      for (; r + 4 <= rows; r += 4, to += 4 * step) V::store(to, step, word(0), word(1), word(2), word(3), words);
    }
#pragma GCC unroll 2
    for (; r < rows; ++r, to += step) V::store(to, code(r));
  }
};

}  // namespace nacre::inline NACRE_ISA
