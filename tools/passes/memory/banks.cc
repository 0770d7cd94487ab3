// Places tensors in several banks with limits, the fastest bank first. Each tensor lies entirely in one bank.
//
// Tensors are placed one by one, those with the most traffic first, each in the first bank that has room. A bank has
// room if first fit finds an offset among its tensors, or if placing all its tensors anew does. If a tensor finds no
// room, all are placed again with the largest first, then with the earliest first, then in these three orders without
// outputs that take over the bytes of inputs. A slow plan that fits is better than no plan.
#include <algorithm>
#include <charconv>
#include <numeric>
#include <string>
#include <utility>

#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/passes/memory/plan_memory.h"

namespace nacre::tools {
namespace {

// Limits on comparisons for placing a bank's tensors anew: for all placements together, and for one.
constexpr uint64_t kEffort = 400'000'000, kEffortOnce = 200'000;

struct Content {
  Bank limits;
  std::vector<uint32_t> members;  // indices of blocks
  std::vector<uint64_t> offsets;  // of members

  bool has_room(uint64_t used) const { return limits.limit == 0 || used <= limits.limit; }
};

class BankFiller {
 public:
  BankFiller(const std::vector<Bank>& banks, const Joined& joined) : joined_(joined), contents_(banks.size()) {
    for (size_t b = 0; b < banks.size(); ++b) contents_[b].limits = banks[b];
  }

  // Fills the banks in this order of blocks. Returns the first block that fits nowhere, or kNone.
  int fill(std::span<const uint32_t> order) {
    for (const uint32_t i : order) {
      const bool placed = std::any_of(contents_.begin(), contents_.end(), [&](Content& c) { return put(c, i); });
      if (!placed) return int(i);
    }
    for (Content& c : contents_) {
      Placement again = place(blocks_of(c.members), kQuickEffort);
      if (again.used < used(c)) c.offsets = std::move(again.offsets);
    }
    return kNone;
  }

  // Returns by how many bytes a bank exceeds its limit if block `i` is added to it.
  uint64_t shortfall(const Content& content, uint32_t i) const {
    std::vector<uint32_t> members = content.members;
    members.push_back(i);
    const uint64_t used = place(blocks_of(members), kEffortOnce).used;
    return std::max(used, content.limits.limit) - content.limits.limit;
  }

  const std::vector<Content>& contents() const { return contents_; }

 private:
  std::vector<Block> blocks_of(std::span<const uint32_t> members) const {
    std::vector<Block> blocks;
    for (const uint32_t m : members) blocks.push_back(joined_.blocks[m]);
    return blocks;
  }

  uint64_t used(const Content& c) const {
    uint64_t most = 0;
    for (size_t m = 0; m < c.members.size(); ++m)
      most = std::max(most, c.offsets[m] + joined_.blocks[c.members[m]].bytes);
    return most;
  }

  bool put(Content& c, uint32_t i) {
    const Block& block = joined_.blocks[i];
    if (!c.has_room(block.bytes)) return false;
    if (const uint64_t at = lowest(c, block); c.has_room(at + block.bytes)) {
      c.members.push_back(i);
      c.offsets.push_back(at);
      return true;
    }
    const uint64_t cost = 10 * c.members.size() * c.members.size() + kEffortOnce;
    if (spent_ + cost > kEffort) return false;
    std::vector<uint32_t> members = c.members;
    members.push_back(i);
    const std::vector<Block> blocks = blocks_of(members);
    if (liveness_bound(blocks) > c.limits.limit) return false;
    spent_ += cost;
    Placement again = place(blocks, kEffortOnce);
    if (again.used > c.limits.limit) return false;
    c.members = std::move(members);
    c.offsets = std::move(again.offsets);
    return true;
  }

  // Returns the lowest offset at which the block fits among the tensors of a bank.
  uint64_t lowest(const Content& c, const Block& block) const {
    std::vector<std::pair<uint64_t, uint64_t>> taken;  // offset, end
    for (size_t m = 0; m < c.members.size(); ++m)
      if (const Block& other = joined_.blocks[c.members[m]]; block.meets(other))
        taken.emplace_back(c.offsets[m], c.offsets[m] + other.bytes);
    std::sort(taken.begin(), taken.end());
    uint64_t at = 0;
    for (const auto& [start, end] : taken) {
      if (start >= at + block.bytes) break;
      at = std::max(at, aligned(end));
    }
    return at;
  }

  const Joined& joined_;
  std::vector<Content> contents_;
  uint64_t spent_ = 0;
};

template <class Key>
std::vector<uint32_t> order_by(size_t count, Key key) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return std::pair(key(a), a) < std::pair(key(b), b); });
  return order;
}

struct Attempt {
  const char* name;
  std::vector<uint32_t> order;
};

std::vector<Attempt> attempts(const Joined& joined) {
  const size_t count = joined.blocks.size();
  return {{"most traffic", order_by(count, [&](uint32_t i) { return ~joined.traffic[i]; })},
          {"largest", order_by(count, [&](uint32_t i) { return ~joined.blocks[i].bytes; })},
          {"first use", order_by(count, [&](uint32_t i) { return joined.blocks[i].first; })}};
}

Plan plan_of(const Joined& joined, const std::vector<Content>& contents, const char* name) {
  std::vector<uint64_t> offset(joined.blocks.size());
  std::vector<uint8_t> bank(joined.blocks.size());
  for (size_t b = 0; b < contents.size(); ++b)
    for (size_t m = 0; m < contents[b].members.size(); ++m) {
      offset[contents[b].members[m]] = contents[b].offsets[m];
      bank[contents[b].members[m]] = uint8_t(b);
    }
  Plan plan{.offsets = {}, .banks = {}, .order = name};
  for (const uint32_t block : joined.block_of) {
    plan.offsets.push_back(offset[block]);
    plan.banks.push_back(bank[block]);
  }
  return plan;
}

Error does_not_fit(const Graph& graph, std::span<const Storage> storages, const Joined& joined,
                   const BankFiller& filler, uint32_t block) {
  const auto at = std::find(joined.block_of.begin(), joined.block_of.end(), block) - joined.block_of.begin();
  std::string fact = "the arena does not fit into the banks: tensor " +
                     graph.values[size_t(storages[size_t(at)].root)].name + " (" +
                     std::to_string(joined.blocks[block].bytes) + " bytes) finds no room;";
  for (const Content& c : filler.contents())
    fact += " " + c.limits.name + " (" + std::to_string(c.limits.limit) + " bytes) is " +
            std::to_string(filler.shortfall(c, block)) + " bytes short,";
  fact.back() = '.';
  return {kBadInput, graph.source.empty() ? "graph" : graph.source, fact,
          "at least " + std::to_string(liveness_bound(storages)) +
              " bytes are in use at one time: give larger banks, or a last one without a limit"};
}

}  // namespace

uint64_t parse_bytes(std::string_view place, std::string_view text) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, failed] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, size_t(end - rest));
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : -1;
  if (failed != std::errc() || shift < 0 || number == 0 || number > (uint64_t{1} << 40) >> shift)
    throw Error(kUsage, std::string(place), "not a size, expected bytes such as 65536, 64K or 2M, at most 2^40");
  return number << shift;
}

std::vector<Bank> parse_bank_list(std::string_view text) {
  std::vector<Bank> banks;
  const std::string place = option("bank", text);
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string_view entry = text.substr(at, end - at);
    const size_t equals = std::min(entry.find('='), entry.size());
    Bank bank{.name = std::string(entry.substr(0, equals))};
    if (bank.name.empty()) throw Error(kUsage, place, "a bank has no name", "write tcm=64K,sram=512K");
    if (equals < entry.size()) bank.limit = parse_bytes(option("bank", entry), entry.substr(equals + 1));
    if (bank.limit == 0 && end < text.size())
      throw Error(kUsage, place, "bank " + bank.name + " has no limit, so those after it would stay empty");
    if (std::any_of(banks.begin(), banks.end(), [&](const Bank& b) { return b.name == bank.name; }))
      throw Error(kUsage, place, "bank " + bank.name + " is given twice");
    banks.push_back(std::move(bank));
    at = end + 1;
  }
  if (banks.size() > size_t(kMaxBanks)) throw Error(kUsage, place, "more than " + std::to_string(kMaxBanks) + " banks");
  return banks;
}

Plan place_in_banks(const Graph& graph, std::span<const Storage> storages) {
  if (graph.banks.size() == 1) {
    const Plan plan = place_storages(storages);
    if (graph.banks[0].limit == 0 || used_bytes(storages, plan) <= graph.banks[0].limit) return plan;
  }
  const std::vector<int> choices[] = {first_choice(storages), std::vector<int>(storages.size(), kNone)};
  for (const std::vector<int>& choice : choices) {
    const Joined joined = join(storages, choice);
    for (const Attempt& attempt : attempts(joined)) {
      BankFiller filler(graph.banks, joined);
      if (filler.fill(attempt.order) == kNone) return plan_of(joined, filler.contents(), attempt.name);
    }
  }
  const Joined joined = join(storages, choices[0]);
  BankFiller filler(graph.banks, joined);
  const int block = filler.fill(attempts(joined)[1].order);
  throw does_not_fit(graph, storages, joined, filler, uint32_t(block));
}

}  // namespace nacre::tools
