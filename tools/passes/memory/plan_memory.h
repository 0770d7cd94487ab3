// Declarations that plan_memory and schedule share, and facts of a plan for reports, `nacre check` and the tests.
//
// The arena holds *storages*: values that are not aliases, each with all its aliases. A storage lives from the first
// step that writes any of it to the last that reads any; inputs of the graph live from step 0, outputs to the end. Two
// storages that live at the same time share no byte, but for one case: an output of a step may take exactly the bytes
// of an input that ends there, where the op's kernels work in place.
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

// "tcm=64K,sram=512K": names with limits in bytes, K = 2^10, M = 2^20. The first is the fastest. A last one without
// "=" has no limit. Throws Error(kUsage).
std::vector<Bank> parse_bank_list(std::string_view text);

// "65536", "64K", "2M"; throws Error at `place`.
uint64_t parse_bytes(std::string_view place, std::string_view text);

// Bytes that a value takes: storage_bytes of its type and elements.
uint64_t value_bytes(const Value& value);

// Bit i: the kernel that bind takes for this node may write its output 0 over input i. `kernels`: the target's.
uint32_t in_place_inputs(const Graph& graph, const Node& node, KernelSets kernels = reference_sets());

KernelSets kernels_of(const Target& target);

// Turns reshapes, copies, slices and concats of contiguous bytes into aliases and removes their nodes; resolves chains
// of aliases; gives constants and inputs that are outputs a copy of their own. The graph computes what it did.
void make_views(Graph& graph);

struct Storage {
  ValueId root = kNone;
  Block block = {};
  uint64_t traffic = 0;              // bytes read and written in one run
  bool pinned = false;               // an output, or an input to be kept: nothing overwrites it
  std::vector<uint32_t> takes_over;  // storages that end where this one begins and whose bytes it may take
};

// The storages of a graph for which make_views has run, when its nodes run in the order `order` (indices into nodes).
std::vector<Storage> storages(const Graph& graph, std::span<const uint32_t> order, bool keep_inputs,
                              KernelSets kernels = reference_sets());

// Offset and bank of every storage.
struct Plan {
  std::vector<uint64_t> offsets;
  std::vector<uint8_t> banks;
  const char* order = "";  // the rule that found it
};

// Bytes that no plan can do without.
uint64_t liveness_bound(std::span<const Storage> storages);

// In one bank without limit, with an effort of about so many comparisons: see place() in placement.h.
inline constexpr uint64_t kPlanEffort = 100'000'000, kQuickEffort = 10'000'000;
Plan place_storages(std::span<const Storage> storages, uint64_t comparisons = kPlanEffort);

// In the graph's banks: what is read and written most goes into the first that has room. Throws Error(kBadInput) naming
// what each bank lacks.
Plan place_in_banks(const Graph& graph, std::span<const Storage> storages);

// Storages that take over each other's bytes as one block.
struct Joined {
  std::vector<Block> blocks;
  std::vector<uint64_t> traffic;   // by block
  std::vector<uint32_t> block_of;  // by storage
};

// choice[i]: which of storage i's takes_over it does take, or kNone.
Joined join(std::span<const Storage> storages, std::span<const int> choice);
std::vector<int> first_choice(std::span<const Storage> storages);

// max (offset + bytes).
uint64_t used_bytes(std::span<const Storage> storages, const Plan& plan);

// Checks a planned graph without using the planner: lifetimes, aliases, banks, and every pair of storages. O(n^2) where
// all live at once. Throws Error(kBadInput) naming the values.
void verify_plan(const Graph& graph, KernelSets kernels = reference_sets());

}  // namespace nacre::tools
