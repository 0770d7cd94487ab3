// Choosing the values to repeat is a covering problem: every step s whose live bytes live_s exceed the limit needs
// values with a gap between two uses that spans s. It is solved greedily. The next gap is the one whose repetition
// takes the most from
//
//   excess = sum over steps s of max(0, live_s - limit)
//
// per unit of work (multiply-accumulates and bytes written). There are two ways to close a gap. Either the inputs of
// the step that writes the value are kept until then, or inputs that are gone by then are computed again too, and so
// are their inputs, down to values that still live.
#include "tools/differentiate/rematerialize.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "tools/graph/operands.h"
#include "tools/passes/memory/plan_memory.h"

namespace nacre::tools {
namespace {

constexpr int kLongestChain = 32;  // steps repeated for one value
constexpr int kTrials = 6;         // limits tried between the given limit and the peak, if the former is out of reach

uint64_t work_of(const Graph& graph, const Node& node, KernelSets kernels) {
  const KernelEntry* entry = find_kernel(graph, node, kernels);
  if (entry == nullptr || entry->work == nullptr) return 0;
  const NodeOperands operands(graph, node);
  return entry->work({node.words.data(), int(node.words.size())},
                     {operands.tensors.data(), int(operands.tensors.size()), 0});
}

// The steps of a program, and the pieces of the arena (one per storage of a value) that they use.
struct Tape {
  struct Piece {
    uint64_t bytes;  // aligned
    ValueId value;   // the value that holds the bytes; for a copy, the value that is copied
    bool from_start = false, to_end = false;
    bool copy = false;
    bool repeatable = false;  // one step writes all of it and nothing else, and nothing updates it
  };
  struct Step {
    uint32_t node;
    std::vector<int> reads;      // pieces, one per input of the node and one for its guard; kNone outside the arena
    std::vector<int> writes;     // pieces, per output
    std::vector<int> gives_way;  // pieces whose bytes output 0 may take if they end here
    std::vector<ValueId> values, updates;  // inputs; those that the step updates
    uint64_t work;
    bool pure;  // it updates nothing and has no guard
  };
  std::vector<Piece> pieces;
  std::vector<Step> steps;
};

class TapeMaker {
 public:
  TapeMaker(const Graph& graph, KernelSets kernels)
      : graph_(graph), kernels_(kernels), piece_of_(graph.values.size(), kNone) {}

  Tape run() {
    std::vector<uint32_t> order(graph_.nodes.size());
    std::iota(order.begin(), order.end(), 0u);
    for (const Storage& s : storages(graph_, order, false, kernels_)) {
      piece_of_[size_t(s.root)] = int(tape_.pieces.size());
      tape_.pieces.push_back({.bytes = aligned(s.block.bytes), .value = s.root, .to_end = s.pinned});
    }
    for (const Binding& b : graph_.inputs)
      if (piece(b.value) != kNone) tape_.pieces[size_t(piece(b.value))].from_start = true;
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) add(n);
    find_repeatable();
    return std::move(tape_);
  }

 private:
  int piece(ValueId v) const {
    if (v == kNone) return kNone;
    const ValueId root = graph_.values[size_t(v)].alias_of;
    return piece_of_[size_t(root == kNone ? v : root)];
  }

  void add(uint32_t n) {
    const Node& node = graph_.nodes[n];
    const OpRule& rule = rule_of(graph_, node);
    Tape::Step step{};
    step.node = n;
    step.values = node.inputs;
    step.work = work_of(graph_, node, kernels_);
    step.pure = node.guard == kNone;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      step.reads.push_back(piece(node.inputs[i]));
      if (is_updated(rule, i)) step.updates.push_back(node.inputs[i]), step.pure = false;
    }
    step.reads.push_back(piece(node.guard));
    for (const ValueId v : node.outputs) step.writes.push_back(piece(v));
    const uint32_t allowed = in_place_inputs(graph_, node, kernels_);
    for (size_t i = 0; i < std::min<size_t>(node.inputs.size(), 32); ++i)
      if ((allowed >> i & 1) != 0 && step.reads[i] != kNone && !step.writes.empty() && step.writes[0] != kNone)
        step.gives_way.push_back(step.reads[i]);
    tape_.steps.push_back(std::move(step));
  }

  void find_repeatable() {
    std::vector<int> writers(tape_.pieces.size());
    std::vector<bool> spoilt(tape_.pieces.size());
    for (const Value& v : graph_.values)
      if (v.alias_of != kNone && piece_of_[size_t(v.alias_of)] != kNone)
        spoilt[size_t(piece_of_[size_t(v.alias_of)])] = true;
    for (const Tape::Step& step : tape_.steps) {
      for (const ValueId v : step.updates)
        if (piece(v) != kNone) spoilt[size_t(piece(v))] = true;
      for (const int p : step.writes) {
        if (p == kNone) continue;
        ++writers[size_t(p)];
        if (!step.pure || step.writes.size() != 1) spoilt[size_t(p)] = true;
      }
    }
    for (size_t p = 0; p < tape_.pieces.size(); ++p) {
      Tape::Piece& piece = tape_.pieces[p];
      piece.repeatable = writers[p] == 1 && !spoilt[p] && !piece.from_start && !piece.to_end;
    }
  }

  const Graph& graph_;
  KernelSets kernels_;
  std::vector<int> piece_of_;  // per value: the piece that holds its bytes
  Tape tape_;
};

// Lives of pieces, and the bytes that live at every step. An input that gives way to the step's output does not count.
struct Lives {
  std::vector<int> first, last;  // per piece
  std::vector<int64_t> live;     // per step

  explicit Lives(const Tape& tape) : first(tape.pieces.size(), -1), last(tape.pieces.size(), -1) {
    const int end = int(tape.steps.size());
    for (int s = 0; s < end; ++s)
      for (const std::vector<int>* list : {&tape.steps[size_t(s)].reads, &tape.steps[size_t(s)].writes})
        for (const int p : *list)
          if (p != kNone) {
            if (first[size_t(p)] < 0) first[size_t(p)] = s;
            last[size_t(p)] = s;
          }
    live.assign(size_t(end) + 1, 0);
    for (size_t p = 0; p < tape.pieces.size(); ++p) {
      const Tape::Piece& piece = tape.pieces[p];
      if (piece.from_start) first[p] = 0, last[p] = std::max(last[p], 0);
      if (first[p] < 0) continue;
      if (piece.to_end) last[p] = end - 1;
      live[size_t(first[p])] += int64_t(piece.bytes);
      live[size_t(last[p]) + 1] -= int64_t(piece.bytes);
    }
    for (int s = 0; s < end; ++s) take_over(tape, s);
    std::partial_sum(live.begin(), live.end(), live.begin());
    live.pop_back();
  }

  uint64_t peak() const { return live.empty() ? 0 : uint64_t(*std::ranges::max_element(live)); }
  uint64_t excess(uint64_t limit) const {
    uint64_t sum = 0;
    for (const int64_t bytes : live) sum += uint64_t(std::max<int64_t>(bytes - int64_t(limit), 0));
    return sum;
  }

 private:
  void take_over(const Tape& tape, int s) {
    const Tape::Step& step = tape.steps[size_t(s)];
    for (const int p : step.gives_way) {
      const Tape::Piece &x = tape.pieces[size_t(p)], &y = tape.pieces[size_t(step.writes[0])];
      if (last[size_t(p)] != s || x.to_end || first[size_t(step.writes[0])] != s || x.bytes != y.bytes) continue;
      live[size_t(s)] -= int64_t(x.bytes);
      live[size_t(s) + 1] += int64_t(x.bytes);
      return;
    }
  }
};

// Makes a tape in which one value is computed again before step `at`.
class Again {
 public:
  // With `whole`, inputs that are gone by then are computed again too.
  Again(const Tape& tape, const Lives& lives, int at, bool whole)
      : tape_(tape), lives_(lives), at_(at), whole_(whole) {}

  // Returns false if a needed step may not run again.
  bool run(int piece) {
    if (!repeat(piece)) return false;
    for (size_t s = size_t(at_); s < tape_.steps.size(); ++s) rename(tape_.steps[s], piece, names_.at(piece));
    tape_.steps.insert(tape_.steps.begin() + at_, steps_.begin(), steps_.end());
    return true;
  }

  Tape& tape() { return tape_; }
  int repeated() const { return int(steps_.size()); }
  uint64_t work() const {
    return std::accumulate(steps_.begin(), steps_.end(), uint64_t{0},
                           [](uint64_t sum, const Tape::Step& s) { return sum + s.work; });
  }
  uint64_t written() const {
    uint64_t bytes = 0;
    for (const Tape::Step& s : steps_) bytes += tape_.pieces[size_t(s.writes[0])].bytes;
    return bytes;
  }

 private:
  static void rename(Tape::Step& step, int from, int to) {
    std::ranges::replace(step.reads, from, to);
    std::ranges::replace(step.gives_way, from, to);
  }

  bool repeat(int piece) {
    if (!tape_.pieces[size_t(piece)].repeatable || int(steps_.size()) >= kLongestChain) return false;
    const int writer = lives_.first[size_t(piece)];
    if (writer >= at_ || reads_what_changed(writer)) return false;
    Tape::Step step = tape_.steps[size_t(writer)];
    for (const int u : std::vector<int>(step.reads)) {
      if (u == kNone) continue;
      const bool gone = lives_.last[size_t(u)] < at_;
      if (!names_.contains(u) && gone && whole_ && tape_.pieces[size_t(u)].repeatable && !repeat(u)) return false;
      if (names_.contains(u)) rename(step, u, names_.at(u));
    }
    Tape::Piece copy = tape_.pieces[size_t(piece)];
    copy.copy = true;
    names_[piece] = int(tape_.pieces.size());
    step.writes = {names_[piece]};
    tape_.pieces.push_back(copy);
    steps_.push_back(std::move(step));
    return true;
  }

  bool reads_what_changed(int writer) const {
    const std::vector<ValueId>& read = tape_.steps[size_t(writer)].values;
    for (int s = writer + 1; s < at_; ++s)
      for (const ValueId v : tape_.steps[size_t(s)].updates)
        if (std::ranges::count(read, v) > 0) return true;
    return false;
  }

  Tape tape_;
  const Lives& lives_;
  int at_;
  bool whole_;
  std::vector<Tape::Step> steps_;
  std::map<int, int> names_;  // per piece: its copy
};

struct Attempt {
  Tape tape;
  uint64_t peak = 0;
};

// A value between two uses, while more bytes live than the limit.
struct Gap {
  int piece, at;    // computed again before step `at`
  double most = 0;  // at most so much excess per unit of work goes if the gap is closed
};

std::vector<Gap> gaps(const Tape& tape, const Lives& lives, uint64_t limit) {
  std::vector<Gap> found;
  std::vector<int> previous(tape.pieces.size(), -1);  // per piece: its last use
  for (int s = 0; s < int(tape.steps.size()); ++s) {
    std::vector<int> used = tape.steps[size_t(s)].reads;
    used.insert(used.end(), tape.steps[size_t(s)].writes.begin(), tape.steps[size_t(s)].writes.end());
    for (const int p : used) {
      if (p == kNone || previous[size_t(p)] == s) continue;
      const int before = std::exchange(previous[size_t(p)], s);
      const Tape::Piece& piece = tape.pieces[size_t(p)];
      if (before < 0 || s == before + 1 || !piece.repeatable) continue;
      // An output may take over the bytes of a piece that ends at step `before`, so that step counts too.
      double most = 0;
      for (int t = before; t < s; ++t)
        most += double(std::clamp<int64_t>(lives.live[size_t(t)] - int64_t(limit), 0, int64_t(piece.bytes)));
      const Tape::Step& writer = tape.steps[size_t(lives.first[size_t(p)])];
      if (most > 0) found.push_back({p, s, most / double(writer.work + piece.bytes)});
    }
  }
  std::ranges::stable_sort(found, std::greater(), &Gap::most);
  return found;
}

// Repeats values until nothing exceeds the limit, nothing lowers the excess, or the steps are four times as many.
Attempt lower(Tape tape, uint64_t limit) {
  const size_t most = 4 * tape.steps.size();
  for (;;) {
    const Lives lives(tape);
    const uint64_t excess = lives.excess(limit);
    if (excess == 0 || tape.steps.size() > most) return {std::move(tape), lives.peak()};
    std::optional<Tape> best;
    double best_rate = 0;
    for (const Gap& gap : gaps(tape, lives, limit)) {
      if (gap.most <= best_rate) break;
      for (const bool whole : {false, true}) {
        Again again(tape, lives, gap.at, whole);
        if (!again.run(gap.piece)) continue;
        const uint64_t then = Lives(again.tape()).excess(limit);
        if (then >= excess) continue;
        const double rate = double(excess - then) / double(again.work() + again.written());
        if (rate > best_rate) best_rate = rate, best = std::move(again.tape());
      }
    }
    if (!best) return {std::move(tape), lives.peak()};
    tape = std::move(*best);
  }
}

void write_back(Graph& graph, const Tape& tape) {
  std::vector<ValueId> values;  // per piece
  for (const Tape::Piece& piece : tape.pieces) {
    values.push_back(piece.value);
    if (!piece.copy) continue;
    Value copy = graph.values[size_t(piece.value)];
    copy.name += "/again";
    values.back() = graph.add(std::move(copy));
  }
  std::vector<Node> nodes;
  for (const Tape::Step& step : tape.steps) {
    Node node = graph.nodes[step.node];
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (step.reads[i] != kNone && tape.pieces[size_t(step.reads[i])].copy)
        node.inputs[i] = values[size_t(step.reads[i])];
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (step.writes[i] != kNone && tape.pieces[size_t(step.writes[i])].copy)
        node.outputs[i] = values[size_t(step.writes[i])];
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
}

uint64_t work_of(const Tape& tape) {
  return std::accumulate(tape.steps.begin(), tape.steps.end(), uint64_t{0},
                         [](uint64_t sum, const Tape::Step& s) { return sum + s.work; });
}

}  // namespace

Rematerialized rematerialize(Graph& graph, uint64_t limit, KernelSets kernels) {
  make_views(graph);
  const Tape before = TapeMaker(graph, kernels).run();
  Attempt best = lower(before, limit);
  // If the limit is out of reach, looks for a low limit that is not, by bisection between it and the peak.
  uint64_t low = limit, high = best.peak > limit ? Lives(before).peak() : limit;
  for (int trial = 0; trial < kTrials && best.peak > limit && high > low + 1; ++trial) {
    const uint64_t middle = low + (high - low) / 2;
    Attempt attempt = lower(before, middle);
    (attempt.peak <= middle ? high : low) = middle;
    if (attempt.peak < best.peak) best = std::move(attempt), high = std::min(high, best.peak);
  }
  Rematerialized result;
  result.steps = int(best.tape.steps.size() - before.steps.size());
  result.work_before = work_of(before);
  result.work = work_of(best.tape) - result.work_before;
  result.bound = best.peak;
  result.reached = best.peak <= limit;
  write_back(graph, best.tape);
  graph.log.push_back("rematerialize: " + std::to_string(result.steps) + " steps again, " +
                      std::to_string(result.work) + " of " + std::to_string(result.work_before) +
                      " multiply-accumulates more, " + std::to_string(result.bound) + " bytes live");
  return result;
}

}  // namespace nacre::tools
