// Walks over arrays of any rank. A walk counts through all indices and keeps an offset into each of several arrays,
// which have strides of their own.
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

// Calls f(index) for every index of an array of `rank` dims `size`, the last axis fastest. Rank 0 has one element.
template <class F>
constexpr void each_index(int rank, const int32_t* size, F f) {
  int32_t index[kMaxRank] = {};
  for (int axis = 0; axis >= 0;) {
    f(index);
    for (axis = rank - 1; axis >= 0; --axis) {
      if (++index[axis] < size[axis]) break;
      index[axis] = 0;
    }
  }
}

// Calls f(index, e) for every index of an array, independent of each other; e counts the calls.
template <class F>
constexpr void each_index_independent(int rank, const int32_t* size, F f) {
  if constexpr (kThreads) {
    int elements = 1;
    for (int axis = 0; axis < rank; ++axis) elements *= size[axis];
    for (int e : independent(elements)) {
      int32_t index[kMaxRank] = {};
      for (int axis = rank - 1, rest = e; axis >= 0; rest /= size[axis--]) index[axis] = rest % size[axis];
      f(index, e);
    }
  } else {
    int e = 0;
    each_index(rank, size, [&](const int32_t* index) { f(index, e++); });
  }
}

// A walk over `size`, with an offset into each of N arrays. Strides count elements. A stride of 0 repeats, a negative
// one reverses.
template <int N>
struct Walk {
  int rank = 0;
  int32_t size[kMaxRank] = {};
  int32_t stride[size_t(N)][kMaxRank] = {};
  int32_t first[size_t(N)] = {};

  // Calls f(offsets) for every index, the last axis fastest. Offsets stay within the range of the indices, so they
  // cannot overflow.
  template <class F>
  constexpr void each(F f) const {
    int32_t index[kMaxRank] = {}, offset[size_t(N)];
    for (int i = 0; i < N; ++i) offset[i] = first[i];
    for (int axis = 0; axis >= 0;) {
      f(offset);
      for (axis = rank - 1; axis >= 0; --axis) {
        const bool more = ++index[axis] < size[axis];
        for (int i = 0; i < N; ++i) offset[i] += more ? stride[i][axis] : -(size[axis] - 1) * stride[i][axis];
        if (more) break;
        index[axis] = 0;
      }
    }
  }

  constexpr int elements() const {
    int product = 1;
    for (int axis = 0; axis < rank; ++axis) product *= size[axis];
    return product;
  }

  // Calls f(offsets, e) for every index, independent of each other; e counts the indices, the last axis fastest.
  template <class F>
  constexpr void each_independent(F f) const {
    each_independent(1, [&](const int32_t* offset, int, int e) { f(offset, e); });
  }

  // Calls f(offsets, j, e) for every index and j < more, independent of each other; e = (the index's number) more +
  // j.
  template <class F>
  constexpr void each_independent(int more, F f) const {
    if constexpr (kThreads) {
      for (int e : independent(elements() * more)) {
        int32_t offset[size_t(N)];
        locate(e / more, offset);
        f(offset, e % more, e);
      }
    } else {
      int e = 0;
      each([&](const int32_t* offset) {
        for (int j = 0; j < more; ++j, ++e) f(offset, j, e);
      });
    }
  }

 private:
  // Computes the offsets of the index that has the number n.
  constexpr void locate(int n, int32_t* offset) const {
    for (int i = 0; i < N; ++i) offset[i] = first[i];
    for (int axis = rank - 1; axis >= 0; --axis, n /= size[axis + 1])
      for (int i = 0; i < N; ++i) offset[i] += n % size[axis] * stride[i][axis];
  }
};

// Returns the stride of `axis` in a contiguous array. It is not inlined, to save code size.
[[gnu::noinline]] constexpr int stride_of(Shape shape, int axis) { return shape.product(axis + 1, shape.rank); }

}  // namespace nacre::inline NACRE_ISA
