// Offsets for blocks of memory that live over intervals of time. Pure algorithms: they know no graph.
//
//   find offset_i >= 0, a multiple of kAlignment, such that blocks whose lives meet do not share bytes,
//   minimising max_i (offset_i + bytes_i)
//
// This is dynamic storage allocation, strongly NP-hard (Garey and Johnson 1979, problem SR2), so several orders of
// first fit are tried, then a search over orders; up to kExactBlocks blocks an exhaustive one. Everything is a function
// of the blocks alone: effort is counted in comparisons, never in seconds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/tensor.h"

namespace nacre::tools {

struct Block {
  uint64_t bytes;
  uint32_t first, last;  // steps; alive in both and in all between

  bool meets(const Block& other) const { return first <= other.last && other.first <= last; }
};

struct Placement {
  std::vector<uint64_t> offsets;
  uint64_t used = 0;       // max_i (offset_i + bytes_i)
  const char* order = "";  // the rule that found it
};

constexpr uint64_t aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Bytes that no placement can do without: at every step the live blocks stand one above the other, all but the topmost
// rounded up to the alignment.
//
//   max over steps s of   sum_{i alive in s} aligned(bytes_i)  -  max_{i alive in s} (aligned(bytes_i) - bytes_i)
uint64_t liveness_bound(std::span<const Block> blocks);

// First fit: each block in turn, at the lowest offset that is free for as long as it lives.
Placement first_fit(std::span<const Block> blocks, std::span<const uint32_t> order);

// First fit in the order of first steps (or, `backwards`, of last steps from the end), in O(blocks x gaps).
Placement sweep(std::span<const Block> blocks, bool backwards);

// The best that was found within so many comparisons, about 10^9 a second. Ends early at liveness_bound(blocks).
inline constexpr size_t kExactBlocks = 12;
Placement place(std::span<const Block> blocks, uint64_t comparisons);

}  // namespace nacre::tools
