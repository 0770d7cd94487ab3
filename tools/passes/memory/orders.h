// Finds topological orders of a graph's nodes that need little memory. These algorithms know only nodes and bytes.
#pragma once

#include <cstdint>
#include <vector>

namespace nacre::tools {

// The nodes use pieces of memory. A piece is held from the first node that uses it (or from the start) to the last (or
// to the end).
struct OrderProblem {
  struct Piece {
    uint64_t bytes = 0;
    uint32_t users = 0;  // number of nodes
    bool from_start = false, to_end = false;
  };
  std::vector<Piece> pieces;
  std::vector<std::vector<uint32_t>> uses;        // per node: its pieces, each once
  std::vector<std::vector<uint32_t>> successors;  // per node
  std::vector<std::vector<uint32_t>> predecessors;
  std::vector<std::vector<uint32_t>> gives_way;  // per node: pieces whose bytes its output may take if they end there

  uint32_t nodes() const { return uint32_t(uses.size()); }
};

using NodeOrder = std::vector<uint32_t>;

// Returns the order that takes, among the ready nodes, the one that leaves the least memory held. Among equals it takes
// the one that needs the least while it runs.
NodeOrder greedy_order(const OrderProblem& problem);

// Returns the order of a depth-first search from the nodes without successors: a node follows its predecessors. With
// `reversed` the search visits the last predecessor first.
NodeOrder depth_first_order(const OrderProblem& problem, bool reversed);

// Beam search over the sets of nodes that have run: among all sets of k nodes it keeps the `width` sets that needed the
// least memory. It drops orders that need more than `limit`. `*exact` says that it dropped no other order; then no
// order has a lower peak than the result. The result is empty if no order is left.
NodeOrder beam_order(const OrderProblem& problem, uint32_t width, uint64_t limit, bool* exact);

}  // namespace nacre::tools
