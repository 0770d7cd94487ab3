// Products of bfloat16 with weights of 8 bits, which are decoded to pairs of bfloat16.
#pragma once

#include "engine/kernels/fast/matmul/blocks.h"

namespace nacre::inline NACRE_ISA {

// Decodes `count` weights of 8 bits, of whole groups.
template <class V, class W>
void decode_pairs(Bfloat16* to, const W* w, ptrdiff_t count) {
  for (ptrdiff_t i = 0; i < count; i += 2 * V::kLanes) V::store_pairs(to + i, V::decoded_pairs(w + i));
}

// Calls finish(sums, rows, vectors, first row, first channel, end of the channels) for each tile. For many rows the
// weights of some panels are decoded at a time, for few rows in the tiles.
template <class V, class W, class O, int kLanes, class T, class Finish>
void each_decoded_tile(const FastMatmul<O, kLanes>& matmul, const T* x, const W* w, const float* start,
                       const Args& args, const Pieces& scratch, const Finish& finish) {
  constexpr Numbers kNumbers = kDecodedPairs;
  constexpr int kPanels = 2;
  const ProductSizes s = sizes_of(matmul.op, kNumbers.group);
  const ptrdiff_t panel = ptrdiff_t(matmul.row_step(s.length, kNumbers)) * kLanes;
  in_parts_behind(matmul, args, scratch, false, [&](const Part& part, Pieces mine) {
    typename BlocksOf<V>::Type blocks;
    const size_t numbers = matmul.decoded_pairs(s);
    Bfloat16* const decoded = numbers > 0 ? mine.take<Bfloat16>(numbers) : nullptr;
    each_block<V, Bfloat16, kNumbers>(
        matmul, x, mine, part, T(0.0f),
        [&](const Bfloat16* rows, const TileRows& shape, int count, int first, int group, int column, int columns) {
          const int k = group * s.out + column;
          // Multiplies the columns from c on, of which there are `some`.
          const auto multiply = [&](auto dots, const auto* weights, int c, int some) {
            const DotProduct<V, decltype(dots)> product = {some, weights, panel, start + k + c, blocks, s.rows};
            product.run(rows, shape, count, [&](const float* sums, int tile_rows, int vectors, int row, int at) {
              finish(sums, tile_rows, vectors, first + row, k + c + at, k + columns);
            });
          };
          const W* const from = w + k / kLanes * panel;
          if (decoded == nullptr || count < kDecodedRows) return multiply(DecodedDots<V, W>{}, from, 0, columns);
          for (int c = 0; c < columns; c += kPanels * kLanes) {
            const int some = columns - c < kPanels * kLanes ? columns - c : kPanels * kLanes;
            decode_pairs<V>(decoded, from + c / kLanes * panel, ceil_div(some, kLanes) * panel);
            multiply(PairDots<V>{}, static_cast<const Bfloat16*>(decoded), c, some);
          }
        });
  });
}

}  // namespace nacre::inline NACRE_ISA
