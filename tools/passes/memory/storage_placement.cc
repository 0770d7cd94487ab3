// Joins storages that take over each other's bytes to blocks, and places the blocks.
//
// Taking over is a choice, because a joined block lives longer and needs one offset for its whole life. Taking over
// wherever possible does not raise the liveness bound. So it is tried first, and usually reaches the bound.
#include <algorithm>
#include <limits>

#include "tools/passes/memory/plan_memory.h"

namespace nacre::tools {
namespace {

// If at most so many storages can take over bytes, all combinations are tried: 2^6 if each has one candidate.
constexpr size_t kMostCombined = 6;

Plan plan_of(const Joined& joined, const Placement& placement) {
  Plan plan{.offsets = {}, .banks = std::vector<uint8_t>(joined.block_of.size()), .order = placement.order};
  for (const uint32_t block : joined.block_of) plan.offsets.push_back(placement.offsets[block]);
  return plan;
}

// Advances to the next combination of choices, in which kNone comes first. Returns false after the last.
bool advance(std::span<const Storage> storages, std::vector<int>& choice) {
  for (size_t i = 0; i < choice.size(); ++i) {
    if (choice[i] + 1 < int(storages[i].takes_over.size())) {
      ++choice[i];
      return true;
    }
    choice[i] = kNone;
  }
  return false;
}

}  // namespace

std::vector<int> first_choice(std::span<const Storage> storages) {
  std::vector<int> choice;
  for (const Storage& s : storages) choice.push_back(s.takes_over.empty() ? kNone : 0);
  return choice;
}

Joined join(std::span<const Storage> storages, std::span<const int> choice) {
  // A chain ends at a storage that takes nothing over. Each storage ends at one step, and only that step's output 0
  // may take its bytes.
  std::vector<uint32_t> head(storages.size());
  std::vector<bool> known(storages.size());
  std::vector<uint32_t> chain;
  for (uint32_t i = 0; i < storages.size(); ++i) {
    uint32_t at = i;
    for (; !known[at] && choice[at] != kNone; at = storages[at].takes_over[size_t(choice[at])]) chain.push_back(at);
    if (!known[at]) {
      known[at] = true;
      head[at] = at;
    }
    for (; !chain.empty(); chain.pop_back()) {
      head[chain.back()] = head[at];
      known[chain.back()] = true;
    }
  }
  Joined joined{.blocks = {}, .traffic = {}, .block_of = std::vector<uint32_t>(storages.size())};
  for (uint32_t i = 0; i < storages.size(); ++i) {
    if (head[i] != i) continue;
    joined.block_of[i] = uint32_t(joined.blocks.size());
    joined.blocks.push_back(storages[i].block);
    joined.traffic.push_back(0);
  }
  for (uint32_t i = 0; i < storages.size(); ++i) {
    const uint32_t block = joined.block_of[i] = joined.block_of[head[i]];
    joined.blocks[block].first = std::min(joined.blocks[block].first, storages[i].block.first);
    joined.blocks[block].last = std::max(joined.blocks[block].last, storages[i].block.last);
    joined.traffic[block] += storages[i].traffic;
  }
  return joined;
}

uint64_t liveness_bound(std::span<const Storage> storages) {
  return liveness_bound(join(storages, first_choice(storages)).blocks);
}

uint64_t used_bytes(std::span<const Storage> storages, const Plan& plan) {
  uint64_t used = 0;
  for (size_t i = 0; i < storages.size(); ++i) used = std::max(used, plan.offsets[i] + storages[i].block.bytes);
  return used;
}

Plan place_storages(std::span<const Storage> storages, uint64_t comparisons) {
  const Joined joined = join(storages, first_choice(storages));
  const Placement together = place(joined.blocks, comparisons);
  Plan best = plan_of(joined, together);
  uint64_t least = together.used;
  if (least == liveness_bound(joined.blocks)) return best;
  const auto consider = [&](std::span<const int> choice, uint64_t effort) {
    const Joined other = join(storages, choice);
    if (liveness_bound(other.blocks) >= least) return;
    const Placement placement = place(other.blocks, effort);
    if (placement.used >= least) return;
    least = placement.used;
    best = plan_of(other, placement);
  };
  std::vector<int> choice(storages.size(), kNone);
  const auto chooses = [](const Storage& s) { return !s.takes_over.empty(); };
  if (size_t(std::count_if(storages.begin(), storages.end(), chooses)) > kMostCombined) {
    consider(choice, comparisons);
    return best;
  }
  do consider(choice, comparisons / 8);
  while (advance(storages, choice));
  return best;
}

}  // namespace nacre::tools
