// Finds offsets for blocks of memory that live over intervals of time. These algorithms know no graph.
//
//   find offset_i >= 0, a multiple of kAlignment, such that blocks whose lives meet do not share bytes,
//   minimising max_i (offset_i + bytes_i)
//
// This is dynamic storage allocation, which is strongly NP-hard (Garey and Johnson 1979, problem SR2). So several
// orders of first fit are tried, then a search over orders, which is exhaustive for at most kExactBlocks blocks if the
// effort allows. The result does not depend on the machine, because effort is counted in comparisons, not in seconds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/tensor.h"

namespace nacre::tools {

struct Block {
  uint64_t bytes;
  uint32_t first, last;  // steps; the block lives from the first to the last

  bool meets(const Block& other) const { return first <= other.last && other.first <= last; }
};

struct Placement {
  std::vector<uint64_t> offsets;
  uint64_t used = 0;       // max_i (offset_i + bytes_i)
  const char* order = "";  // the rule that found the placement
};

constexpr uint64_t aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Returns a lower bound of every placement's bytes. At each step the live blocks lie one above the other, and all but
// the topmost are rounded up to the alignment:
//
//   max over steps s of   sum_{i alive in s} aligned(bytes_i)  -  max_{i alive in s} (aligned(bytes_i) - bytes_i)
uint64_t liveness_bound(std::span<const Block> blocks);

// First fit: places each block in turn at the lowest offset that is free for as long as the block lives.
Placement first_fit(std::span<const Block> blocks, std::span<const uint32_t> order);

// First fit in the order of first steps, in O(blocks x gaps). With `backwards`, in the order of last steps from the
// end.
Placement sweep(std::span<const Block> blocks, bool backwards);

// Returns the best placement found by fixed orders, and then by a search of so many comparisons (about 10^9 take a
// second). Ends early at liveness_bound(blocks).
inline constexpr size_t kExactBlocks = 12;
Placement place(std::span<const Block> blocks, uint64_t comparisons);

}  // namespace nacre::tools
