// Walks over arrays of any rank: an odometer over indices, and offsets into other arrays that move by their own
// strides.
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

// f(index) for every index of an array of `rank` dims `size`, last axis fastest. Rank 0 has one element.
template <class F>
void each_index(int rank, const int32_t* size, F f) {
  int32_t index[kMaxRank] = {};
  for (int axis = 0; axis >= 0;) {
    f(index);
    for (axis = rank - 1; axis >= 0; --axis) {
      if (++index[axis] < size[axis]) break;
      index[axis] = 0;
    }
  }
}

// One walk over `size`, with an offset into each of N arrays. Strides count elements; 0 repeats, negative reverses.
template <int N>
struct Walk {
  int rank = 0;
  int32_t size[kMaxRank] = {};
  int32_t stride[N][kMaxRank] = {};
  int32_t first[N] = {};

  // f(offsets) for every index, last axis fastest. Offsets never leave the range of the indices: no overflow.
  template <class F>
  void each(F f) const {
    int32_t index[kMaxRank] = {}, offset[N];
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
};

// The stride of `axis` in a contiguous array. Not inlined: code size.
[[gnu::noinline]] constexpr int stride_of(Shape shape, int axis) { return shape.product(axis + 1, shape.rank); }

}  // namespace nacre::inline NACRE_ISA
