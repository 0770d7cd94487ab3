#include "tools/passes/memory/orders.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace nacre::tools {
namespace {

// Bytes of memory that are held `during` a node's run and `after` it.
struct Held {
  uint64_t during, after;
};

// Returns the bytes held around a node's run. begun(p) says that piece p is already held. ends(p) says that this node
// is the last to use p.
template <class Begun, class Ends>
Held held_with(const OrderProblem& problem, uint32_t node, uint64_t held, Begun begun, Ends ends) {
  uint64_t during = held, freed = 0;
  for (const uint32_t p : problem.uses[node]) {
    const OrderProblem::Piece& piece = problem.pieces[p];
    if (!begun(p)) during += piece.bytes;
    if (!piece.to_end && ends(p)) freed += piece.bytes;
  }
  for (const uint32_t p : problem.gives_way[node])
    if (!problem.pieces[p].to_end && ends(p)) return {during - problem.pieces[p].bytes, during - freed};
  return {during, during - freed};
}

uint64_t held_at_start(const OrderProblem& problem) {
  uint64_t held = 0;
  for (const OrderProblem::Piece& p : problem.pieces) held += p.from_start ? p.bytes : 0;
  return held;
}

// A set of nodes, for the beam search.
class Bits {
 public:
  explicit Bits(size_t count) : words_((count + 63) / 64) {}
  void set(uint32_t i) { words_[i / 64] |= uint64_t{1} << (i % 64); }
  bool has(uint32_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  bool operator==(const Bits&) const = default;
  bool meets(const Bits& other) const {
    for (size_t w = 0; w < words_.size(); ++w)
      if ((words_[w] & other.words_[w]) != 0) return true;
    return false;
  }
  bool contains(const Bits& other) const {
    for (size_t w = 0; w < words_.size(); ++w)
      if ((other.words_[w] & ~words_[w]) != 0) return false;
    return true;
  }
  size_t hash() const {
    uint64_t h = 0xCBF29CE484222325u;  // FNV-1a over words: Fowler, Noll and Vo
    for (const uint64_t word : words_) h = (h ^ word) * 0x100000001B3u, h ^= h >> 29;
    return size_t(h);
  }

 private:
  std::vector<uint64_t> words_;
};

struct BitsHash {
  size_t operator()(const Bits& bits) const { return bits.hash(); }
};

class Beam {
 public:
  Beam(const OrderProblem& problem, uint32_t width, uint64_t limit)
      : problem_(problem), width_(width), limit_(limit), users_(problem.pieces.size(), Bits(problem.nodes())) {
    for (uint32_t n = 0; n < problem.nodes(); ++n)
      for (const uint32_t p : problem.uses[n]) users_[p].set(n);
  }

  NodeOrder run(bool* exact) {
    State start{.done = Bits(problem_.nodes()), .ready = {}, .held = held_at_start(problem_), .peak = 0};
    for (uint32_t n = 0; n < problem_.nodes(); ++n)
      if (problem_.predecessors[n].empty()) start.ready.push_back(n);
    std::vector<State> level = {std::move(start)};
    for (uint32_t k = 0; k < problem_.nodes() && !level.empty(); ++k) level = next(level);
    *exact = !dropped_;
    return level.empty() ? NodeOrder() : trace(level[0].link);
  }

 private:
  static constexpr uint32_t kFirst = ~0u;

  struct Link {
    uint32_t before, node;
  };
  struct State {
    Bits done;
    std::vector<uint32_t> ready;
    uint64_t held, peak;
    uint32_t link = kFirst;  // index into links_
  };
  struct Step {
    uint32_t state, node;
    uint64_t held, peak;
  };

  std::vector<State> next(const std::vector<State>& level) {
    std::vector<Step> steps;
    for (uint32_t s = 0; s < level.size(); ++s)
      for (const uint32_t n : level[s].ready) steps.push_back(step(level[s], s, n));
    std::erase_if(steps, [this](const Step& s) { return s.peak > limit_; });
    std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
      return std::tie(a.peak, a.held, a.state, a.node) < std::tie(b.peak, b.held, b.state, b.node);
    });
    std::vector<State> states;
    std::unordered_map<Bits, bool, BitsHash> seen;
    for (const Step& s : steps) {
      Bits done = level[s.state].done;
      done.set(s.node);
      if (!seen.emplace(done, true).second) continue;  // this set was reached before, with a lower or equal peak
      if (states.size() == width_) {
        dropped_ = true;
        break;
      }
      states.push_back(advanced(level[s.state], s, std::move(done)));
    }
    return states;
  }

  Step step(const State& state, uint32_t index, uint32_t n) const {
    Bits done = state.done;
    done.set(n);
    const auto begun = [&](uint32_t p) { return problem_.pieces[p].from_start || state.done.meets(users_[p]); };
    const auto ends = [&](uint32_t p) { return done.contains(users_[p]); };
    const Held held = held_with(problem_, n, state.held, begun, ends);
    return {index, n, held.after, std::max(state.peak, held.during)};
  }

  State advanced(const State& state, const Step& s, Bits done) {
    State result{.done = std::move(done), .ready = state.ready, .held = s.held, .peak = s.peak};
    std::erase(result.ready, s.node);
    for (const uint32_t n : problem_.successors[s.node]) {
      const auto& before = problem_.predecessors[n];
      if (std::all_of(before.begin(), before.end(), [&](uint32_t b) { return result.done.has(b); }))
        result.ready.push_back(n);
    }
    std::sort(result.ready.begin(), result.ready.end());
    result.link = uint32_t(links_.size());
    links_.push_back({state.link, s.node});
    return result;
  }

  NodeOrder trace(uint32_t link) const {
    NodeOrder order;
    for (; link != kFirst; link = links_[link].before) order.push_back(links_[link].node);
    std::reverse(order.begin(), order.end());
    return order;
  }

  const OrderProblem& problem_;
  uint32_t width_;
  uint64_t limit_;
  std::vector<Bits> users_;  // per piece
  std::vector<Link> links_;
  bool dropped_ = false;
};

}  // namespace

NodeOrder greedy_order(const OrderProblem& problem) {
  std::vector<uint32_t> waits(problem.nodes()), left(problem.pieces.size());
  std::vector<bool> begun(problem.pieces.size());
  for (size_t p = 0; p < problem.pieces.size(); ++p) {
    left[p] = problem.pieces[p].users;
    begun[p] = problem.pieces[p].from_start;
  }
  NodeOrder order, ready;
  for (uint32_t n = 0; n < problem.nodes(); ++n) {
    waits[n] = uint32_t(problem.predecessors[n].size());
    if (waits[n] == 0) ready.push_back(n);
  }
  uint64_t held = held_at_start(problem);
  while (!ready.empty()) {
    size_t best = 0;
    Held least{std::numeric_limits<uint64_t>::max(), std::numeric_limits<uint64_t>::max()};
    for (size_t i = 0; i < ready.size(); ++i) {
      const Held h = held_with(
          problem, ready[i], held, [&](uint32_t p) { return begun[p]; }, [&](uint32_t p) { return left[p] == 1; });
      if (std::tie(h.after, h.during, ready[i]) >= std::tie(least.after, least.during, ready[best])) continue;
      least = h;
      best = i;
    }
    const uint32_t node = ready[best];
    ready.erase(ready.begin() + std::ptrdiff_t(best));
    order.push_back(node);
    held = least.after;
    for (const uint32_t p : problem.uses[node]) {
      begun[p] = true;
      --left[p];
    }
    for (const uint32_t n : problem.successors[node])
      if (--waits[n] == 0) ready.push_back(n);
  }
  return order;
}

NodeOrder depth_first_order(const OrderProblem& problem, bool reversed) {
  NodeOrder order;
  std::vector<uint32_t> visited(problem.nodes());  // per node: number of predecessors looked at, plus 1
  std::vector<uint32_t> stack;
  for (uint32_t end = 0; end < problem.nodes(); ++end) {
    if (!problem.successors[end].empty()) continue;
    stack.push_back(end);
    visited[end] = 1;
    while (!stack.empty()) {
      const uint32_t node = stack.back();
      const auto& before = problem.predecessors[node];
      const uint32_t i = visited[node]++ - 1;
      if (i < before.size()) {
        const uint32_t n = reversed ? before[before.size() - 1 - i] : before[i];
        if (visited[n] == 0) {
          visited[n] = 1;
          stack.push_back(n);
        }
      } else {
        order.push_back(node);
        stack.pop_back();
      }
    }
  }
  return order;
}

NodeOrder beam_order(const OrderProblem& problem, uint32_t width, uint64_t limit, bool* exact) {
  return Beam(problem, width, limit).run(exact);
}

}  // namespace nacre::tools
