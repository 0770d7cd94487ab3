// Products of few rows of x with codes of 4 bits, which are multiplied where they lie.
//
//   s_rk = sum_i x_ri q_ki                                             q in two's complement
//   s_rk = sum_g c_kg sum_{i in g} x_ri (q_ki - z_kg)                  with scales c and zero points z per group
//
// A word of 32 bits has eight codes, the first one in its lowest bits. Codes n of the words in a vector belong to the
// terms n, n + 8, n + 16, .. of a block of 8 kLanes terms, so x is put in that order first.
#pragma once

#include "engine/kernels/fast/decoded/forms.h"
#include "engine/kernels/fast/parallel.h"

namespace nacre::inline NACRE_ISA {

// Returns the vector whose lane j is v's lane j >> shift.
template <class V>
[[gnu::always_inline]] inline typename V::F repeated(typename V::F v, int shift) {
  if constexpr (requires { V::repeated(v, shift); }) return V::repeated(v, shift);
  alignas(64) float from[V::kLanes], to[V::kLanes];
  V::store(from, v);
  for (int j = 0; j < V::kLanes; ++j) to[j] = from[j >> shift];
  return V::load(to);
}

// Returns the first code of each word as a number.
template <class V>
[[gnu::always_inline]] inline typename V::F first_codes(typename V::I words) {
  if constexpr (requires { V::first_codes(words); }) return V::first_codes(words);
  return V::to_float(V::shift_right(V::shift_left(words, V::set(int32_t{28})), 28));
}

// The codes of all rows have one scale, which the epilogue multiplies with.
struct WholeRows {
  static constexpr bool kGrouped = false;
  struct Place {};
};

template <class V>
class GroupsOfCodes {
 public:
  static constexpr bool kGrouped = true;

  GroupsOfCodes(const float* scale, const int8_t* zero, int block, int length)
      : scale_(scale), zero_(zero), groups_((length - 1) / block + 1) {
    constexpr int kBlock = kNibbleBlock<V::kLanes>;
    if (groups_ == 1) return;  // of any size
    if (block < kBlock) in_vector_ = kBlock / block, shift_ = std::countr_zero(unsigned(block / kNibbles));
    else vectors_ = block / kBlock;
  }

  // The place of a vector of words among the groups of its row.
  struct Place {
    int group = 0, vector = 0;
  };
  [[gnu::always_inline]] void advance(Place& place) const {
    place.group += in_vector_;
    if (in_vector_ == 0 && ++place.vector == vectors_) ++place.group, place.vector = 0;
  }

  bool has_zeros(int k, int rows) const {
    uint64_t any = 0;
    const int8_t* at = zero_ + ptrdiff_t(k) * groups_;
    ptrdiff_t left = ptrdiff_t(rows) * groups_;
    for (; left > 0; left -= 8, at += 8) {
      uint64_t eight = 0;
      std::memcpy(&eight, at, left < 8 ? size_t(left) : 8);
      any |= eight;
    }
    return any != 0;
  }
  // Return the scales, or the zero points, of row k at a place, one a word.
  [[gnu::always_inline]] typename V::F scales(int k, Place place) const { return of(scale_ + at(k, place), place); }
  [[gnu::always_inline]] typename V::F zeros(int k, Place place) const { return of(zero_ + at(k, place), place); }

 private:
  ptrdiff_t at(int k, Place place) const { return ptrdiff_t(k) * groups_ + place.group; }
  template <class T>
  [[gnu::always_inline]] typename V::F of(const T* numbers, Place place) const {
    if (in_vector_ == 0) return V::set(float(numbers[0]));
    return repeated<V>(V::load(numbers, V::most(groups_ - place.group)), shift_);
  }

  const float* scale_;  // [rows of w][groups]
  const int8_t* zero_;
  int groups_;
  int in_vector_ = 0, shift_ = 0;  // groups in a vector of words, and log2 of a group's words; 0 if it has one at most
  int vectors_ = 0;                // vectors in a group; 0 if one group has all
};

template <class V, class Groups>
struct NibbleDots {
  using F = typename V::F;
  using I = typename V::I;
  static constexpr int kBlock = kNibbleBlock<V::kLanes>, kRows = 4;  // rows of w at a time

  const Int4Pair* w;
  int in;
  Groups groups;

  // Writes the sums of a row of x, in order, with `count` rows of w from k on.
  void run(const float* x, int k, int count, float* sums) const {
    for (int c = 0; c < count;) {
      if (count - c >= kRows) rows<kRows>(x, k + c, sums + c), c += kRows;
      else rows<1>(x, k + c, sums + c), ++c;
    }
  }

 private:
  template <int kCount>
  void rows(const float* x, int k, float* sums) const {
    bool zeros = false;
    if constexpr (Groups::kGrouped) zeros = groups.has_zeros(k, kCount);
    zeros ? rows_of<kCount, Groups::kGrouped>(x, k, sums) : rows_of<kCount, false>(x, k, sums);
  }
  template <int kCount, bool kZeros>
  [[gnu::noinline]] void rows_of(const float* x, int k, float* sums) const {
    F total[kCount];
#pragma GCC unroll 4
    for (int r = 0; r < kCount; ++r) total[r] = V::set(0.0f);
    [[maybe_unused]] typename Groups::Place place;
    const Int4Pair* at = w + ptrdiff_t(k) * (in / 2);
    for (int b = 0; b * kBlock < in; ++b, x += kBlock, at += kBlock / 2) {
      I words[kCount];
      const int left = in - b * kBlock;
#pragma GCC unroll 4
      for (int r = 0; r < kCount; ++r) words[r] = words_at(at + r * (in / 2), left);
      F part[kCount];
      [[maybe_unused]] F zero[kCount];
#pragma GCC unroll 4
      for (int r = 0; r < kCount; ++r) {
        part[r] = Groups::kGrouped ? V::set(0.0f) : total[r];
        if constexpr (kZeros) zero[r] = groups.zeros(k + r, place);
      }
#pragma GCC unroll 8
      for (int n = 0; n < kNibbles; ++n) {
        const F terms = V::load(x + n * V::kLanes);
#pragma GCC unroll 4
        for (int r = 0; r < kCount; ++r) {
          F codes = first_codes<V>(words[r]);
          if constexpr (kZeros) codes = V::sub(codes, zero[r]);
          part[r] = V::fma(terms, codes, part[r]);
          words[r] = V::shift_right(words[r], 4);
        }
      }
#pragma GCC unroll 4
      for (int r = 0; r < kCount; ++r) {
        if constexpr (Groups::kGrouped) total[r] = V::fma(part[r], groups.scales(k + r, place), total[r]);
        else total[r] = part[r];
      }
      if constexpr (Groups::kGrouped) groups.advance(place);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kCount; ++r) sums[r] = V::sum(total[r]);
  }
  // Returns the words of a block of which `left` codes are the row's; its terms of x are 0 beyond them.
  [[gnu::always_inline]] static I words_at(const Int4Pair* p, int left) {
    if (left >= kBlock) return V::load_integers(reinterpret_cast<const int32_t*>(p));
    alignas(64) int32_t words[V::kLanes] = {};
    std::memcpy(words, p, size_t(left / 2));
    return V::load_integers(words);
  }
};

// Writes a row of x in the order of the codes, [blocks][8][kLanes], with zeros behind its end.
template <class V, class T>
void put_in_order(const T* x, int in, float* to) {
  constexpr int kLanes = V::kLanes, kBlock = kNibbleBlock<kLanes>;
  for (int first = 0; first < in; first += kBlock, to += kBlock)
    for (int i = 0; i < kBlock; ++i)
      to[i % kNibbles * kLanes + i / kNibbles] = first + i < in ? float(x[first + i]) : 0.0f;
}

// Calls f(sums, columns, index into y, row, channel) for vectors of sums of each row.
template <class V, class T, class Groups, class F>
void each_nibble_sum(const Dense& op, const T* x, const Int4Pair* w, const Groups& groups, const Args& args,
                     const F& f) {
  auto* const ordered = reinterpret_cast<float*>(args.scratch.data());
  const ptrdiff_t step = ptrdiff_t(nibble_numbers<V::kLanes>(op.in));
  for (int r = 0; r < op.rows; ++r) put_in_order<V>(x + ptrdiff_t(r) * op.in, op.in, ordered + r * step);
  const NibbleDots<V, Groups> dots = {w, op.in, groups};
  in_parts(args, op.work(), [&](Part part, std::span<std::byte>) {
    alignas(64) float sums[V::kLanes];
    for (int k = 0; k < op.out; k += V::kLanes) {
      if (!part.takes()) continue;
      const int columns = V::most(op.out - k);
      for (int r = 0; r < op.rows; ++r) {
        dots.run(ordered + r * step, k, columns, sums);
        f(sums, columns, r * op.out + k, r, k);
      }
    }
  });
}

}  // namespace nacre::inline NACRE_ISA
