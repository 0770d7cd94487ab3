// Cuts a product into the blocks of rows and columns of one worker.
#pragma once

#include "engine/kernels/fast/product.h"
#include "engine/kernels/fast/windows.h"

namespace nacre::inline NACRE_ISA {

// The element type in memory from which the rows of D are made.
template <class D>
using XOf = std::conditional_t<D::kGroup == 4, int8_t, typename D::X>;

// Calls f(rows of X, their shape, count, first row, group, first column, columns) for each block of this part.
template <class V, class X, Numbers kNumbers = kNumbersOf<X>, class O, int kLanes, class T, class F>
void each_block(const FastMatmul<O, kLanes>& matmul, const T* x, Pieces scratch, const Part& part, T padding,
                const F& f) {
  const ProductSizes s = sizes_of(matmul.op, kNumbers.group);
  Share share =
      Share::from(part, s.rows, block_starts(matmul.op, s), matmul.block_rows(s, kNumbers), s.out, s.length, kLanes);
  each_block_of<V, X>(matmul.op, s, x, matmul.row_step(s.length, kNumbers), scratch, padding, share,
                      [&](const X* rows, const TileRows& shape, int count, int first, int group) {
                        for (int k = 0, c = 0; k < s.out; k += share.chunk, ++c)
                          if (share.takes(c))
                            f(rows, shape, count, first, group, k, share.chunk < s.out - k ? share.chunk : s.out - k);
                      });
}

// Calls f(part, its scratch) on all workers. `scratch` is worker 0's scratch past the data that all workers read.
template <class O, int kLanes, class F>
void in_parts_behind(const FastMatmul<O, kLanes>& matmul, const Args& args, const Pieces& scratch, bool dots,
                     const F& f) {
  constexpr uint64_t kOfOutput = 24;  // multiply-accumulates that the other work for one output takes
  const ProductSizes s = sizes_of(matmul.op, 1);
  const uint64_t outputs = uint64_t(s.rows) * uint64_t(s.out) * uint64_t(s.groups);
  const ptrdiff_t used = scratch.at - args.scratch.data();
  in_parts(args, (dots ? matmul.work() / 4 : matmul.work()) + outputs * kOfOutput,  // dot products: 4 times as fast
           [&](const Part& part, std::span<std::byte> memory) { f(part, Pieces{memory.data() + used}); });
}

}  // namespace nacre::inline NACRE_ISA
