// Declares the types and functions that plan_memory and schedule share, and facts of a plan for reports, `nacre check`
// and the tests.
//
// The arena holds *storages*. A storage is a value that is not an alias, together with all its aliases. It lives from
// the first step that uses any part of it to the last. Inputs of the graph live from step 0, outputs to the end. Two
// storages that live at one time share no byte, with one exception. Output 0 of a step may take exactly the bytes of
// an input that ends there, if the kernel works in place.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tools/graph/graph.h"
#include "tools/graph/operands.h"
#include "tools/passes/memory/placement.h"
#include "tools/passes/passes.h"

namespace nacre::tools {

// Parses "tcm=64K,sram=512K": names with limits in bytes, K = 2^10, M = 2^20. The first bank is the fastest. The last
// may have no "=", and then has no limit. Throws Error(kUsage).
std::vector<Bank> parse_bank_list(std::string_view text);

// Parses "65536", "64K" or "2M". Throws an Error at `place`.
uint64_t parse_bytes(std::string_view place, std::string_view text);

// Returns the bytes of a value in its type and layout.
uint64_t value_bytes(const Value& value);

// Returns a mask. Bit i says that the kernel that bind takes for this node may write output 0 over input i. `kernels`
// are the target's.
uint32_t in_place_inputs(const Graph& graph, const Node& node, KernelSets kernels = reference_sets());

KernelSets kernels_of(const Target& target);

// Turns reshapes, copies, slices and concats of contiguous bytes into aliases and removes their nodes. Resolves chains
// of aliases. Copies outputs that are constants, inputs or state to other values. The graph's results do not change.
void make_views(Graph& graph);

struct Storage {
  ValueId root = kNone;
  Block block = {};
  uint64_t traffic = 0;              // bytes read and written in one run
  bool pinned = false;               // an output, or an input to keep: nothing overwrites it
  std::vector<uint32_t> takes_over;  // storages that end where this begins, whose bytes it may take
};

// Returns the storages of a graph for which make_views has run. `order` holds indices of nodes in the order of their
// runs.
std::vector<Storage> storages(const Graph& graph, std::span<const uint32_t> order, bool keep_inputs,
                              KernelSets kernels = reference_sets());

// The offset and the bank of every storage.
struct Plan {
  std::vector<uint64_t> offsets;
  std::vector<uint8_t> banks;
  const char* order = "";  // the rule that found the plan
};

// Returns a lower bound of every plan's bytes.
uint64_t liveness_bound(std::span<const Storage> storages);

// Places storages in one bank without limit, with about so many comparisons: see place() in placement.h.
inline constexpr uint64_t kPlanEffort = 100'000'000, kQuickEffort = 10'000'000;
Plan place_storages(std::span<const Storage> storages, uint64_t comparisons = kPlanEffort);

// Places storages in the graph's banks. If that fits, storages that are read and written the most come first, each in
// the first bank that has room. Throws an Error(kBadInput) that says how many bytes each bank lacks.
Plan place_in_banks(const Graph& graph, std::span<const Storage> storages);

// Blocks, each made of storages that take over each other's bytes.
struct Joined {
  std::vector<Block> blocks;
  std::vector<uint64_t> traffic;   // per block
  std::vector<uint32_t> block_of;  // per storage
};

// Joins storages to blocks. choice[i] is the index in storage i's takes_over of the storage whose bytes it takes, or
// kNone.
Joined join(std::span<const Storage> storages, std::span<const int> choice);
std::vector<int> first_choice(std::span<const Storage> storages);

// Returns max (offset + bytes).
uint64_t used_bytes(std::span<const Storage> storages, const Plan& plan);

// Checks a planned graph without using the planner: lifetimes, aliases, banks, and pairs of storages. It takes O(n^2)
// if all live at once. Throws an Error(kBadInput) that names the value.
void verify_plan(const Graph& graph, KernelSets kernels = reference_sets());

}  // namespace nacre::tools
