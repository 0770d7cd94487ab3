// Makes codes and their transpose in one pass over x.
//
//   q_ij = code(x_ij)   turned_ji = q_ij   amax = max(amax, max |x_ij|)      x [rows, columns], of any rank: columns
//                                                                            last
//
// The library needs both float8 factors contiguous along the sum (product.h): x and w forward, dy and w^T for dx,
// dy^T and x^T for dw. A thread makes a strip of rows in one column. The threads of a warp read and write
// neighbouring columns, and each writes a strip of the transpose at once.
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/fake_float8.h"
#include "engine/ops/independent.h"

namespace nacre::inline NACRE_ISA {

struct TurnedFakeFloat8 : FakeFloat8 {
  int matrix_rows, columns;

  static constexpr int kStrip = 16;

  static constexpr TurnedFakeFloat8 from(const Words& words, const Operands& operands) {
    const Shape x = operands[kX];
    return {FakeFloat8::from(words, operands), x.product(0, x.rank - 1), x[x.rank - 1]};
  }

  template <class T, class Q>
  constexpr void codes_turned(const T* x, const float* scale, Update<uint32_t> amax, Q* y, Q* turned) const {
    struct alignas(kStrip) Strip {
      Q code[kStrip];
    };
    const auto s = this->scale_of<T>(*scale);
    const bool whole = matrix_rows % kStrip == 0;  // if true, strips are aligned to their size
    uint32_t largest = 0;                          // the largest that this thread sees
    const auto make = [&](int e) {
      largest = amax_bits(std::span<const T>(x + e, 1), largest);
      return y[e] = this->code<Q>(x[e], s);
    };
    for (int at : independent((matrix_rows + kStrip - 1) / kStrip * columns)) {
      const int j = at % columns, first = at / columns * kStrip;
      Q* const to = turned + j * matrix_rows + first;
      if (whole) {
        Strip strip;
        for (int i = 0; i < kStrip; ++i) strip.code[i] = make((first + i) * columns + j);
        *reinterpret_cast<Strip*>(to) = strip;
      } else {
        for (int i = 0; i < kStrip && first + i < matrix_rows; ++i) to[i] = make((first + i) * columns + j);
      }
    }
    raise(amax.data, largest);
  }
};

}  // namespace nacre::inline NACRE_ISA
