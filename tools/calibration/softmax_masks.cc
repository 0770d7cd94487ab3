#include "tools/calibration/softmax_masks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/ops/binary.h"

namespace nacre::tools {
namespace {

constexpr int kMostSteps = 24;  // most nodes on the way back from a softmax to its masks
// A number at or below this is a mask: BERT's is -1e4. A mask that is subtracted is at or above +1000.
constexpr float kMaskNumber = -1000;
constexpr float kMaskGap = 20;  // a constant so far below what a softmax can use is a mask: Swin's is -100
constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool is(const Node& node, Binary::Function function) {
  return node.op == Op::kBinary && get_integer(node, "function") == int(function);
}

bool moves(const Node& node) {
  return node.op == Op::kReshape || node.op == Op::kTranspose || node.op == Op::kCopy || node.op == Op::kCast ||
         node.op == Op::kClamp;
}

// Returns the range of the finite elements of a constant, [0, 0] if it has none.
Range finite_range(const Value& constant) {
  Range range = {kInfinity, -kInfinity};
  for (const float v : reals(constant))
    if (std::isfinite(v)) range = {std::min(range.low, v), std::max(range.high, v)};
  return range.low <= range.high ? range : Range{};
}

float least(const Value& constant) {
  const std::vector<float> x = reals(constant);
  return x.empty() ? 0 : *std::ranges::min_element(x);
}

float largest(const Value& constant) {
  const std::vector<float> x = reals(constant);
  return x.empty() ? 0 : *std::ranges::max_element(x);
}

// Returns the positive constant that a node multiplies its first input by (1 / c if it divides by c), 0 for others.
float factor_of(const Graph& graph, const Node& node) {
  const bool divides = is(node, Binary::kDiv);
  if (node.op != Op::kMul && !divides) return 0;
  const Value& number = graph.values[size_t(node.inputs[1])];
  if (!number.constant() || number.elements() != 1 || number.type != ElementType::kFloat32) return 0;
  const float factor = reals(number)[0];
  return factor > 0 && std::isfinite(factor) ? (divides ? 1 / factor : factor) : 0;
}

}  // namespace

double mask_depth(double width) { return std::log(512 * width); }

struct SoftmaxMasks::Walk {
  const std::map<ValueId, Range>& ranges;
  std::map<ValueId, float> low, high;
  std::map<Use, Range> operands;
};

SoftmaxMasks::SoftmaxMasks(const Graph& graph)
    : graph_(graph), writer_(graph.values.size(), -1), readers_(graph.values.size()) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (size_t slot = 0; slot < node.inputs.size(); ++slot)
      if (node.inputs[slot] != kNone) readers_[size_t(node.inputs[slot])].push_back({i, int(slot)});
    for (const ValueId id : node.outputs) writer_[size_t(id)] = int(i);
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op != Op::kSoftmax) continue;
    softmax_of_.emplace(graph.nodes[i].inputs[0], i);
    enter(i, 0, kMostSteps);
  }
}

void SoftmaxMasks::enter(size_t node, int slot, int left) {
  uses_.insert({node, slot});
  explore(graph_.nodes[node].inputs[size_t(slot)], left - 1);
}

void SoftmaxMasks::explore(ValueId id, int left) {
  if (left == 0 || graph_.values[size_t(id)].constant()) return;
  region_.insert(id);
  if (writer_[size_t(id)] < 0) return;
  const auto n = size_t(writer_[size_t(id)]);
  const Node& node = graph_.nodes[n];
  const bool two = node.op == Op::kAdd || node.op == Op::kSub || node.op == Op::kSelect || is(node, Binary::kMaximum);
  if (!two && !moves(node) && factor_of(graph_, node) == 0) return;
  for (int slot = 0; slot < (two ? 2 : 1); ++slot) enter(n, slot, left);
}

// Returns whether the value is a mask by the way it is computed: a constant that no score reaches, a product with one,
// a sum or choice of one with other constants or masks, or a move of one.
bool SoftmaxMasks::makes_mask(ValueId id, Mask mask, int left) const {
  const Value& value = graph_.values[size_t(id)];
  if (value.type != ElementType::kFloat32 || left == 0) return false;
  if (value.constant() || value.initial != nullptr) {
    Value number = value;  // a parameter is judged by its initial numbers
    if (!value.constant()) number.data = value.initial, number.stored = value.type;
    return mask == kAdded ? least(number) <= kMaskNumber : largest(number) >= -kMaskNumber;
  }
  if (writer_[size_t(id)] < 0) return false;
  const Node& node = graph_.nodes[size_t(writer_[size_t(id)])];
  const auto is_mask = [&](int slot) { return makes_mask(node.inputs[size_t(slot)], mask, left - 1); };
  const auto fixed = [&](int slot) { return graph_.values[size_t(node.inputs[size_t(slot)])].constant(); };
  switch (node.op) {
    case Op::kMul: return is_mask(0) || is_mask(1);
    case Op::kAdd:
    case Op::kSub:
    case Op::kSelect:
    case Op::kBinary: {
      const bool first = is_mask(0), second = is_mask(1);
      return (first || second) && (first || fixed(0)) && (second || fixed(1));
    }
    case Op::kConcat:
    case Op::kSlice:
    case Op::kPad: return is_mask(0);
    default: return moves(node) && is_mask(0);
  }
}

bool SoftmaxMasks::only_masks(ValueId id) const {
  const bool mask = makes_mask(id, kAdded, kMostSteps) || makes_mask(id, kSubtracted, kMostSteps);
  if (!mask || graph_.values[size_t(id)].constant()) return false;
  if (std::ranges::count(graph_.outputs, id, &Binding::value) > 0) return false;
  return std::ranges::all_of(readers_[size_t(id)], [&](const Use& use) {
    return uses_.contains(use) ||
           std::ranges::all_of(graph_.nodes[use.node].outputs, [&](ValueId y) { return only_masks(y); });
  });
}

bool SoftmaxMasks::holds_mask(ValueId id) const { return region_.contains(id) && holds_mask(id, kMostSteps); }

bool SoftmaxMasks::holds_mask(ValueId id, int left) const {
  if (left == 0 || graph_.values[size_t(id)].constant() || writer_[size_t(id)] < 0) return false;
  const auto n = size_t(writer_[size_t(id)]);
  const Node& node = graph_.nodes[n];
  for (int slot = 0; slot < int(node.inputs.size()) && slot < 2; ++slot) {
    const ValueId x = node.inputs[size_t(slot)];
    if (x == kNone || !uses_.contains(Use{n, slot})) continue;
    const Mask mask = node.op == Op::kSub && slot == 1 ? kSubtracted : kAdded;
    if (holds_mask(x, left - 1) || (!is(node, Binary::kMaximum) && makes_mask(x, mask, kMostSteps))) return true;
  }
  return false;
}

// Skips a row whose scores are all masked: its peak is far below that of the other rows.
void SoftmaxMasks::add_rows(ValueId id, std::span<const float> x) {
  const auto found = softmax_of_.find(id);
  if (found == softmax_of_.end()) return;
  const std::vector<int64_t>& dims = graph_.values[size_t(id)].dims;
  const auto axis = size_t(get_integer(graph_.nodes[found->second], "axis"));
  size_t inner = 1;
  for (size_t i = axis + 1; i < dims.size(); ++i) inner *= size_t(dims[i]);
  const auto width = size_t(dims[axis]);
  const size_t outer = x.size() / (width * inner);
  Peaks& peaks = peaks_[id];
  for (size_t o = 0; o < outer; ++o)
    for (size_t i = 0; i < inner; ++i) {
      float peak = -kInfinity;
      for (size_t k = 0; k < width; ++k) peak = std::max(peak, x[(o * width + k) * inner + i]);
      if (!std::isfinite(peak) || (peaks.any && peak < peaks.highest + kMaskNumber)) continue;
      const bool restart = !peaks.any || peaks.lowest < peak + kMaskNumber;
      peaks = {restart ? peak : std::min(peaks.lowest, peak), peaks.any ? std::max(peaks.highest, peak) : peak, true};
    }
}

Range SoftmaxMasks::finite(const Walk& walk, ValueId id) const {
  const Value& value = graph_.values[size_t(id)];
  if (value.constant()) return finite_range(value);
  const auto found = walk.ranges.find(id);
  if (found == walk.ranges.end()) return {};
  return {found->second.low, found->second.high};
}

// Returns whether `id`, whose numbers below `low` a softmax cannot use, holds a mask. If so, keeps that limit.
bool SoftmaxMasks::masked(Walk& walk, ValueId id, Use use, float low, int left) const {
  const Value& value = graph_.values[size_t(id)];
  if (value.constant()) {
    if (least(value) >= low - kMaskGap) return false;
    walk.operands.insert_or_assign(use, Range{low, kInfinity});
    return true;
  }
  bool found = makes_mask(id, kAdded, kMostSteps);
  const int writer = left == 0 || found ? -1 : writer_[size_t(id)];
  if (writer >= 0) {
    const auto n = size_t(writer);
    const Node& node = graph_.nodes[n];
    const auto operand = [&](int slot) { return node.inputs[size_t(slot)]; };
    const auto below = [&](int slot, float bound) {
      found = masked(walk, operand(slot), {n, slot}, bound, left - 1) || found;
    };
    if (node.op == Op::kAdd) {
      below(0, low - finite(walk, operand(1)).high);
      below(1, low - finite(walk, operand(0)).high);
    } else if (node.op == Op::kSub) {
      const float high = finite(walk, operand(0)).high - low;
      const Range b = finite(walk, operand(1));
      found = masked_above(walk, operand(1), {n, 1}, high) || found;
      below(0, low + std::min(b.low, high));
    } else if (node.op == Op::kSelect) {
      below(0, low);
      below(1, low);
    } else if (is(node, Binary::kMaximum)) {
      for (const int slot : {0, 1})
        if (!graph_.values[size_t(operand(slot))].constant()) below(slot, low);
    } else if (const float factor = factor_of(graph_, node); factor > 0) {
      below(0, low / factor);
    } else if (moves(node)) {
      below(0, low);
    }
  }
  const auto range = walk.ranges.find(id);
  if (range != walk.ranges.end() && range->second.low < low + kMaskNumber) found = true;
  if (!found) return false;
  const auto [at, fresh] = walk.low.emplace(id, low);
  if (!fresh) at->second = std::min(at->second, low);
  return true;
}

// Returns whether the subtrahend `id`, whose numbers above `high` a softmax cannot use, holds a mask. Keeps that limit.
bool SoftmaxMasks::masked_above(Walk& walk, ValueId id, Use use, float high) const {
  const Value& value = graph_.values[size_t(id)];
  const Range range = finite(walk, id);
  if (value.constant()) {
    if (largest(value) <= high + kMaskGap) return false;
    walk.operands.insert_or_assign(use, Range{-kInfinity, high});
    return true;
  }
  if (range.high <= high - kMaskNumber && !makes_mask(id, kSubtracted, kMostSteps)) return false;
  const auto [at, fresh] = walk.high.emplace(id, high);
  if (!fresh) at->second = std::max(at->second, high);
  return true;
}

// Returns whether a graph output, or an operand that is not in `uses`, is the value. All its numbers then need codes.
bool SoftmaxMasks::read_elsewhere(ValueId id, const std::set<Use>& uses) const {
  return std::ranges::count(graph_.outputs, id, &Binding::value) > 0 ||
         !std::ranges::all_of(readers_[size_t(id)], [&](const Use& use) { return uses.contains(use); });
}

MaskLimits SoftmaxMasks::limits(const std::map<ValueId, Range>& ranges) const {
  Walk walk{ranges, {}, {}, {}};
  for (const auto& [id, softmax] : softmax_of_) {
    const Node& node = graph_.nodes[softmax];
    const auto width = double(graph_.values[size_t(id)].dims[size_t(get_integer(node, "axis"))]);
    const auto peaks = peaks_.find(id);
    const auto lowest = lowest_.find(id);
    if (lowest == lowest_.end() && (peaks == peaks_.end() || !peaks->second.any)) continue;
    const double real_beta = double(get_real(node, "beta")), beta = real_beta > 0 ? real_beta : 1;
    const float low =
        lowest != lowest_.end() ? lowest->second : float(double(peaks->second.lowest) - mask_depth(width) / beta);
    masked(walk, id, {softmax, 0}, low, kMostSteps);
  }
  MaskLimits limits;
  for (const auto& [id, low] : walk.low)
    if (!read_elsewhere(id, uses_)) limits.low.emplace(graph_.values[size_t(id)].name, low);
  for (const auto& [id, high] : walk.high)
    if (!read_elsewhere(id, uses_)) limits.high.emplace(graph_.values[size_t(id)].name, high);
  for (const auto& [use, range] : walk.operands)
    limits.operands.emplace(std::pair(graph_.values[size_t(graph_.nodes[use.node].outputs[0])].name, use.slot), range);
  return limits;
}

}  // namespace nacre::tools
