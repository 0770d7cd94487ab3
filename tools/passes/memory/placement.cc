#include "tools/passes/memory/placement.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace nacre::tools {
namespace {

// With more blocks, one order of first fit costs over 0.1 s (blocks^2 comparisons). Then only sweeps are tried.
constexpr size_t kMostOrderedBlocks = 10'000;

uint64_t padding(const Block& b) { return aligned(b.bytes) - b.bytes; }

// SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators", figure 13).
struct Random {
  uint64_t state;
  uint64_t operator()() {
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  size_t below(size_t n) { return size_t((*this)() % n); }
};

// The blocks already placed, sorted by offset.
class Shelf {
 public:
  explicit Shelf(std::span<const Block> blocks) : blocks_(blocks) { placed_.reserve(blocks.size()); }

  // Returns the lowest offset at which block `i` shares no byte with a placed block that lives at the same time.
  uint64_t lowest(uint32_t i) const {
    const Block& block = blocks_[i];
    uint64_t at = 0;
    for (const Placed& p : placed_) {
      if (!block.meets(blocks_[p.block])) continue;
      if (p.offset >= at + block.bytes) break;
      at = std::max(at, aligned(p.offset + blocks_[p.block].bytes));
    }
    return at;
  }
  void put(uint32_t i, uint64_t offset) {
    const auto above = [](uint64_t o, const Placed& p) { return o < p.offset; };
    placed_.insert(std::upper_bound(placed_.begin(), placed_.end(), offset, above), {offset, i});
  }
  void take(uint32_t i) {
    placed_.erase(std::find_if(placed_.begin(), placed_.end(), [i](const Placed& p) { return p.block == i; }));
  }

 private:
  struct Placed {
    uint64_t offset;
    uint32_t block;
  };
  std::span<const Block> blocks_;
  std::vector<Placed> placed_;
};

// Searches all orders in which first fit gives ascending offsets. One of them is optimal. Proof: take an optimal
// placement, sort its blocks by offset, and place them anew by first fit. No block moves up, because the blocks below
// it have not moved up either. If a block moved down, repeat. The sum of the offsets falls, so this ends, and the
// final placement is such an order.
class Exhaustive {
 public:
  Exhaustive(std::span<const Block> blocks, uint64_t bound, Placement start, uint64_t comparisons)
      : blocks_(blocks), bound_(bound), shelf_(blocks), best_(std::move(start)), offsets_(blocks.size()),
        nodes_(comparisons / (kExactBlocks * kExactBlocks)) {}

  Placement run() {
    extend(0, 0, 0, 0);
    if (best_.used < start_used_) best_.order = "exhaustive";
    return std::move(best_);
  }

 private:
  void extend(uint32_t placed, uint64_t lowest, uint32_t after, uint64_t used) {
    if (placed == (1u << blocks_.size()) - 1) {
      best_ = {.offsets = offsets_, .used = used, .order = "exhaustive"};
      return;
    }
    for (uint32_t i = 0; i < blocks_.size(); ++i) {
      if ((placed >> i & 1) != 0) continue;
      if (best_.used == bound_ || nodes_ == 0) return;
      --nodes_;
      const uint64_t at = shelf_.lowest(i);
      // Blocks of equal offset never overlap in time, so their order does not matter. Only ascending numbers are
      // searched.
      if (at < lowest || (at == lowest && placed != 0 && i < after)) continue;
      const uint64_t top = std::max(used, at + blocks_[i].bytes);
      if (top >= best_.used) continue;
      offsets_[i] = at;
      shelf_.put(i, at);
      extend(placed | 1u << i, at, i, top);
      shelf_.take(i);
    }
  }

  std::span<const Block> blocks_;
  uint64_t bound_;
  Shelf shelf_;
  Placement best_;
  uint64_t start_used_ = best_.used;
  std::vector<uint64_t> offsets_;
  uint64_t nodes_;  // number of nodes that may still be searched
};

// Free intervals, by offset. The last one has no end.
class Gaps {
 public:
  uint64_t take(uint64_t bytes) {
    if (bytes == 0) return 0;
    const auto gap = std::find_if(bytes_.begin(), bytes_.end(), [&](const auto& g) { return g.second >= bytes; });
    const uint64_t offset = gap->first;
    if (gap->second > bytes) bytes_.emplace(offset + bytes, gap->second - bytes);
    bytes_.erase(gap);
    return offset;
  }
  void release(uint64_t offset, uint64_t bytes) {
    if (bytes == 0) return;
    const auto gap = bytes_.emplace(offset, bytes).first;
    join(gap);
    if (gap != bytes_.begin()) join(std::prev(gap));
  }

 private:
  void join(std::map<uint64_t, uint64_t>::iterator gap) {
    const auto next = std::next(gap);
    if (next == bytes_.end() || gap->first + gap->second != next->first) return;
    gap->second += next->second;
    bytes_.erase(next);
  }
  std::map<uint64_t, uint64_t> bytes_ = {{0, std::numeric_limits<uint64_t>::max() / 2}};  // by offset
};

using Order = std::vector<uint32_t>;

template <class Key>
Order order_by(std::span<const Block> blocks, Key key) {
  Order order(blocks.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return std::pair(key(blocks[a]), a) < std::pair(key(blocks[b]), b); });
  return order;
}

struct NamedOrder {
  const char* name;
  Order order;
};

std::vector<NamedOrder> fixed_orders(std::span<const Block> blocks) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  const auto life = [](const Block& b) { return uint64_t{b.last} - b.first + 1; };
  // A falling key is written kMost - key, because the sort is ascending. Equal keys are sorted by number.
  return {
      {"first use", order_by(blocks, [](const Block& b) { return b.first; })},
      {"size", order_by(blocks, [](const Block& b) { return kMost - b.bytes; })},
      {"size x life", order_by(blocks, [&](const Block& b) { return kMost - b.bytes * life(b); })},
      {"life", order_by(blocks, [&](const Block& b) { return std::pair(kMost - life(b), kMost - b.bytes); })},
      // nntrainer's training planner uses this order: first step, then the later end first.
      {"first use, later end", order_by(blocks, [](const Block& b) { return std::pair(b.first, kMost - b.last); })},
      {"first use, larger", order_by(blocks, [](const Block& b) { return std::pair(b.first, kMost - b.bytes); })},
      {"last use", order_by(blocks, [](const Block& b) { return std::pair(kMost - b.last, kMost - b.bytes); })},
  };
}

// Hill climbing over orders: a move takes a block that ends at the top to an earlier place in the order, and swaps two
// pairs of blocks. It is kept if the result is not worse. After kRestart moves in vain the order is shuffled. In a test
// with 1000 random graphs of 5 to 64 nodes and 4 M comparisons each, 865 reach the bound. With one pair 836 do,
// without pairs 384.
Placement climb(std::span<const Block> blocks, Order order, Placement best, uint64_t bound, uint64_t comparisons) {
  constexpr int kRestart = 1000;
  Random random{0x6E61637265u};  // any constant: equal blocks must give equal plans
  Placement current = best;
  const uint64_t cost = blocks.size() * (blocks.size() / 2 + 32);  // includes the cost of moving and storing
  int fruitless = 0;
  for (uint64_t spent = 0; best.used > bound && spent < comparisons; spent += cost) {
    Order next = order;
    if (++fruitless > kRestart) {
      for (size_t i = next.size() - 1; i > 0; --i) std::swap(next[i], next[random.below(i + 1)]);
    } else {
      const auto top = std::find_if(next.begin(), next.end(),
                                    [&](uint32_t i) { return current.offsets[i] + blocks[i].bytes == current.used; });
      std::rotate(next.begin() + ptrdiff_t(random.below(size_t(top - next.begin()) + 1)), top, top + 1);
      std::swap(next[random.below(next.size())], next[random.below(next.size())]);
      std::swap(next[random.below(next.size())], next[random.below(next.size())]);
    }
    Placement placement = first_fit(blocks, next);
    if (fruitless <= kRestart && placement.used > current.used) continue;
    if (placement.used < current.used || fruitless > kRestart) fruitless = 0;
    order = std::move(next);
    current = std::move(placement);
    if (current.used < best.used) {
      best = current;
      best.order = "search";
    }
  }
  return best;
}

}  // namespace

uint64_t liveness_bound(std::span<const Block> blocks) {
  const Order starts = order_by(blocks, [](const Block& b) { return b.first; });
  const Order ends = order_by(blocks, [](const Block& b) { return b.last; });
  std::array<uint64_t, kAlignment> count_by_padding = {};
  uint64_t live = 0, bound = 0;
  size_t ended = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const Block& block = blocks[starts[i]];
    for (; blocks[ends[ended]].last < block.first; ++ended) {
      live -= aligned(blocks[ends[ended]].bytes);
      --count_by_padding[padding(blocks[ends[ended]])];
    }
    live += aligned(block.bytes);
    ++count_by_padding[padding(block)];
    size_t most = kAlignment - 1;
    while (count_by_padding[most] == 0) --most;
    bound = std::max(bound, live - most);
  }
  return bound;
}

Placement first_fit(std::span<const Block> blocks, std::span<const uint32_t> order) {
  Placement placement{.offsets = std::vector<uint64_t>(blocks.size()), .used = 0, .order = ""};
  Shelf shelf(blocks);
  for (const uint32_t i : order) {
    const uint64_t at = placement.offsets[i] = shelf.lowest(i);
    shelf.put(i, at);
    placement.used = std::max(placement.used, at + blocks[i].bytes);
  }
  return placement;
}

Placement sweep(std::span<const Block> blocks, bool backwards) {
  const auto start = [&](const Block& b) { return backwards ? ~b.last : b.first; };
  const auto end = [&](const Block& b) { return backwards ? ~b.first : b.last; };
  const Order starts = order_by(blocks, start), ends = order_by(blocks, end);
  Placement placement{.offsets = std::vector<uint64_t>(blocks.size()), .used = 0, .order = ""};
  placement.order = backwards ? "last use" : "first use";
  Gaps gaps;
  size_t ended = 0;
  for (const uint32_t i : starts) {
    for (; end(blocks[ends[ended]]) < start(blocks[i]); ++ended)
      gaps.release(placement.offsets[ends[ended]], aligned(blocks[ends[ended]].bytes));
    placement.offsets[i] = gaps.take(aligned(blocks[i].bytes));
    placement.used = std::max(placement.used, placement.offsets[i] + blocks[i].bytes);
  }
  return placement;
}

Placement place(std::span<const Block> blocks, uint64_t comparisons) {
  const uint64_t bound = liveness_bound(blocks);
  if (blocks.size() > kMostOrderedBlocks) {
    Placement forwards = sweep(blocks, false);
    if (forwards.used == bound) return forwards;
    Placement backwards = sweep(blocks, true);
    return backwards.used < forwards.used ? backwards : forwards;
  }
  Placement best{.offsets = {}, .used = std::numeric_limits<uint64_t>::max(), .order = ""};
  Order order;
  for (NamedOrder& fixed : fixed_orders(blocks)) {
    Placement other = first_fit(blocks, fixed.order);
    if (other.used >= best.used) continue;
    best = std::move(other);
    best.order = fixed.name;
    order = std::move(fixed.order);
    if (best.used == bound) return best;
  }
  if (blocks.size() <= kExactBlocks) return Exhaustive(blocks, bound, std::move(best), comparisons).run();
  return climb(blocks, std::move(order), std::move(best), bound, comparisons);
}

}  // namespace nacre::tools
