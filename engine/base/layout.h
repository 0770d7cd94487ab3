// Layouts say in which order the elements of a tensor are stored. A layout is one byte of the tensor's record; 0 is
// row-major.
//
// A layout sees a tensor x as matrices of `rows` rows and `columns` columns:
//
//   of weights   one matrix: rows = dims[0], columns = the product of the other dims, element (r, c) = x[r, ..]
//   of channels  one for each index n of axis 0: rows = the last dim, columns = the product of the dims between,
//                element (r, c) = x[n, .., r]
//
// It stores panels of rows one after another. A panel holds groups of columns, and a group goes row by row:
//
//   element (r, c) of matrix n stands at   n R C + (r / panel) panel C + (c / group) panel group
//                                          + (r mod panel) group + c mod group
//   R = rows rounded up to whole panels, C = columns rounded up to whole groups; the added elements are 0
//
//   panel 1, group 1       row-major                     panel = rows, group 1     transposed
//   panel 16, group 1      a vector of 16 outputs for each column: what a matrix kernel loads at a time
//   panel 16, group 4      the same in quads, for dot products of int8
//   panel 16 of channels   [N, C / 16, H, W, 16]
//   panel 1, group 16      rows padded to 16 columns; with kWholeTiles the rows are a multiple of 16 too (Tensor Cores)
//
// The byte has log2(panel) in bits 0 to 2 (7 for all rows), log2(group) in bits 3 to 5, kWholeTiles in bit 6 (R is a
// multiple of 16), and `of channels` in bit 7.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/isa.h"
#include "engine/base/tensor.h"

namespace nacre::inline NACRE_ISA {

enum LayoutBits : uint8_t { kAllRows = 7, kGroupShift = 3, kWholeTiles = 64, kOfChannels = 128 };

// Returns the layout of panels of 2^panel rows (kAllRows: all of them) and groups of 2^group columns.
constexpr Layout layout_of(unsigned panel, unsigned group = 0, unsigned more = 0) {
  return Layout((panel & 7) | (group & 7) << kGroupShift | (more & (kWholeTiles | kOfChannels)));
}
inline constexpr Layout kTransposed = layout_of(kAllRows);

// The numbers of the formula above.
struct StoredMatrices {
  uint32_t count, rows, columns;         // matrices, and the rows and columns of each
  uint32_t panel, group;                 // rows of a panel, columns of a group
  uint32_t padded_rows, padded_columns;  // R, C

  // Returns the number of stored elements, below 2^45: a tensor has below 2^31, and padding multiplies by at most 2^13.
  constexpr uint64_t elements() const { return uint64_t{count} * padded_rows * padded_columns; }

  // Returns where element (r, c) of matrix n stands.
  constexpr size_t position(uint32_t n, uint32_t r, uint32_t c) const {
    return (size_t{n} * padded_rows + r / panel * panel) * padded_columns + size_t(c / group) * panel * group +
           size_t(r % panel) * group + c % group;
  }

  // Calls f(index in row-major order, position) for every element.
  template <class F>
  constexpr void each(bool of_channels, F f) const {
    size_t index = 0;
    for (uint32_t n = 0; n < count; ++n)
      for (uint32_t i = 0; i < (of_channels ? columns : rows); ++i)
        for (uint32_t j = 0; j < (of_channels ? rows : columns); ++j, ++index)
          f(index, of_channels ? position(n, j, i) : position(n, i, j));
  }
};

// Returns whether tensors of this type may have layouts other than row-major: float32, float16, bfloat16, float64,
// int8, uint8, float8_e4m3 and float8_e5m2.
constexpr bool has_layouts(ElementType element) {
  constexpr auto bit = [](ElementType type) { return 1u << uint8_t(type); };
  constexpr uint32_t kTypes = bit(ElementType::kFloat32) | bit(ElementType::kFloat16) | bit(ElementType::kBfloat16) |
                              bit(ElementType::kFloat64) | bit(ElementType::kInt8) | bit(ElementType::kUint8) |
                              bit(ElementType::kFloat8E4M3) | bit(ElementType::kFloat8E5M2);
  return (kTypes >> uint8_t(element) & 1) != 0;
}

constexpr bool of_channels(Layout layout) { return (uint8_t(layout) & kOfChannels) != 0; }

// Returns how `shape`, of at least 2 axes, is stored. Rounding up works by masks, because the units are powers of
// two.
constexpr StoredMatrices stored_matrices(Layout layout, Shape shape) {
  const auto bits = uint8_t(layout);
  const bool channels = of_channels(layout);
  const auto product = [&](int first, int end) { return uint32_t(shape.product(first, end)); };
  StoredMatrices m = {};
  m.count = channels ? uint32_t(shape[0]) : 1;
  m.rows = uint32_t(channels ? shape.last() : shape[0]);
  m.columns = channels ? product(1, shape.rank - 1) : product(1, shape.rank);
  const uint32_t whole = (bits & kWholeTiles) != 0 ? 16 : 1, log2_panel = bits & 7;
  m.group = 1u << (bits >> kGroupShift & 7);
  m.panel = log2_panel == kAllRows ? (m.rows + whole - 1) & ~(whole - 1) : 1u << log2_panel;
  const uint32_t unit = log2_panel == kAllRows || m.panel < whole ? whole : m.panel;
  m.padded_rows = (m.rows + unit - 1) & ~(unit - 1);
  m.padded_columns = (m.columns + m.group - 1) & ~(m.group - 1);
  return m;
}

// Returns the number of stored elements, as stored_matrices(layout, shape).elements() does, in less code.
constexpr uint64_t stored_elements(Layout layout, Shape shape, uint32_t elements) {
  const unsigned bits = uint8_t(layout), log2_panel = bits & 7;
  const uint32_t group = (1u << (bits >> kGroupShift & 7)) - 1;
  uint32_t panel = log2_panel == kAllRows ? 0 : (1u << log2_panel) - 1;
  if ((bits & kWholeTiles) != 0) panel |= 15;
  uint32_t count = 1, rows = uint32_t(shape[0]);
  if (of_channels(layout)) count = rows, rows = uint32_t(shape.last());
  const uint32_t columns = elements / count / rows;
  return uint64_t{count} * ((rows + panel) & ~panel) * ((columns + group) & ~group);
}
constexpr uint64_t stored_elements(Layout layout, Shape shape) {
  return stored_elements(layout, shape, uint32_t(shape.elements()));
}

}  // namespace nacre::inline NACRE_ISA
