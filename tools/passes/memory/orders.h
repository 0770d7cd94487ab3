// Topological orders of a graph's nodes that need little memory. Pure algorithms on nodes and the bytes they hold.
#pragma once

#include <cstdint>
#include <vector>

namespace nacre::tools {

// Nodes that use pieces of memory: a piece is held from the first node that uses it (or from the start) to the last (or
// to the end).
struct OrderProblem {
  struct Piece {
    uint64_t bytes = 0;
    uint32_t users = 0;  // nodes
    bool from_start = false, to_end = false;
  };
  std::vector<Piece> pieces;
  std::vector<std::vector<uint32_t>> uses;        // by node: pieces, each once
  std::vector<std::vector<uint32_t>> successors;  // by node
  std::vector<std::vector<uint32_t>> predecessors;
  std::vector<std::vector<uint32_t>> gives_way;  // by node: pieces whose bytes its output may take if they end here

  uint32_t nodes() const { return uint32_t(uses.size()); }
};

using NodeOrder = std::vector<uint32_t>;

// Takes, of the ready nodes, always the one that leaves the least memory held, then needs the least while it runs.
NodeOrder greedy_order(const OrderProblem& problem);

// Post-order from the nodes that nothing follows: everything a node needs right before it; `reversed`: last input
// first.
NodeOrder depth_first_order(const OrderProblem& problem, bool reversed);

// Beam search over the sets of nodes that have run: of all sets of k nodes the `width` that needed the least so far. If
// it never had to drop one (`*exact`) no order has a lower peak. `limit`: orders that need more are not followed; empty
// if none is left.
NodeOrder beam_order(const OrderProblem& problem, uint32_t width, uint64_t limit, bool* exact);

}  // namespace nacre::tools
