#include "tools/graph/row_places.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "tools/base/json.h"
#include "tools/graph/op_facts.h"

namespace nacre::tools {
namespace {

using Sizes = std::vector<int64_t>;

int64_t product(const Sizes& dims, size_t first, size_t end) {
  return std::accumulate(dims.begin() + ptrdiff_t(first), dims.begin() + ptrdiff_t(end), int64_t{1}, std::multiplies());
}

// Follower follows the rows of the batch through the nodes, in order. A value is `placed` if it has the rows.
class Follower {
 public:
  Follower(const Graph& graph, int64_t count) : graph_(graph), count_(count), outer_(graph.values.size()) {}

  void begin(ValueId id, int64_t outer) { outer_[size_t(id)] = outer; }

  // Returns whether y has the rows. If not, `why` says which node mixes them, or that y depends on no input. Nodes that
  // y does not depend on are skipped.
  bool run(ValueId y, std::string& why) {
    const std::vector<bool> before = nodes_before(graph_, y);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (!before[i] || std::ranges::none_of(node.inputs, [&](ValueId id) { return placed(id); })) continue;
      if (!step(node)) {
        why = node.name + " " + why_;
        return false;
      }
    }
    if (!placed(y)) why = graph_.values[size_t(y)].name + " does not depend on an input";
    return placed(y);
  }
  int64_t outer(ValueId id) const { return *outer_[size_t(id)]; }

 private:
  const Sizes& dims(ValueId id) const { return graph_.values[size_t(id)].dims; }
  bool placed(ValueId id) const { return id != kNone && outer_[size_t(id)].has_value(); }
  int64_t inner(ValueId id) const { return product(dims(id), 0, dims(id).size()) / (*outer_[size_t(id)] * count_); }
  std::optional<RowAxis> axis_of(ValueId id) const { return row_axis(dims(id), outer(id), count_); }

  bool fail(const std::string& why) {
    why_ = why;
    return false;
  }

  // Records that y has the rows in this axis. Returns false if the axis does not exist or has another size.
  bool give(ValueId y, const RowAxis& at) {
    const bool fits = size_t(at.axis) < dims(y).size() && dims(y)[size_t(at.axis)] == at.before * count_ * at.after;
    if (!fits) return fail("changes the size of the batch");
    outer_[size_t(y)] = outer_of(dims(y), at);
    return true;
  }

  bool first_alone(const Node& node) const {
    return placed(node.inputs[0]) &&
           std::none_of(node.inputs.begin() + 1, node.inputs.end(), [&](ValueId id) { return placed(id); });
  }

  bool step(const Node& node) {
    const ValueId y = node.outputs[0];
    const Rows rows = facts_of(node.op).rows;
    switch (rows) {
      case Rows::kBroadcast: return broadcast(node, y);
      case Rows::kMatrices: return multiply(node, y);
      case Rows::kJoined: return concatenate(node, y);
      case Rows::kRecurrent: return recur(node);
      case Rows::kTable:
        if (placed(node.inputs[0]) || !placed(node.inputs[1])) return fail("has a table that depends on the batch");
        return stays(node.inputs[1], y);
      default: break;
    }
    if (!first_alone(node)) return fail("has operands that depend on the batch");
    if (rows == Rows::kElements || rows == Rows::kReshaped) return stays(node.inputs[0], y);
    if (rows == Rows::kFeatures || rows == Rows::kNormalized) return on_rows(node, y);
    const std::optional<RowAxis> at = axis_of(node.inputs[0]);
    return at ? on_axis(node, rows, y, *at) : fail("splits the batch over several axes");
  }

  bool stays(ValueId x, ValueId y) {
    const bool whole = product(dims(y), 0, dims(y).size()) % (outer(x) * count_) == 0;
    if (whole) outer_[size_t(y)] = outer(x);
    return whole || fail("changes the size of the batch");
  }

  // Follows the rows through an op that works along the last axis. They must lie in the axes before it.
  bool on_rows(const Node& node, ValueId y) {
    const ValueId x = node.inputs[0];
    if (dims(x).empty() || inner(x) % dims(x).back() != 0) return fail("takes the batch as features");
    return stays(x, y);
  }

  bool on_axis(const Node& node, Rows rows, ValueId y, const RowAxis& at) {
    const size_t axis = size_t(at.axis);
    const auto mask = [&](const char* name) { return (get_integer(node, name) >> axis & 1) != 0; };
    const int a = at.axis;
    switch (rows) {
      case Rows::kAlongAxis: return get_integer(node, "axis") == a ? fail("normalizes over the batch") : give(y, at);
      case Rows::kReduced:
        return mask("axes") ? fail("reduces the batch")
                            : reduce(node.inputs[0], y, uint32_t(get_integer(node, "axes")));
      case Rows::kSearched:
        if (get_integer(node, "axis") == a) return fail("searches the batch");
        return reduce(node.inputs[0], y, 1u << get_integer(node, "axis"));
      case Rows::kSliced: {
        const bool whole = get_integer(node, "begin", a) == 0 && get_integer(node, "step", a) == 1 &&
                           get_integer(node, "size", a) == dims(node.inputs[0])[axis];
        return whole ? give(y, at) : fail("takes a part of the batch");
      }
      case Rows::kPadded: {
        const bool padded = get_integer(node, "before", a) != 0 || get_integer(node, "after", a) != 0;
        return padded ? fail("pads the batch") : give(y, at);
      }
      case Rows::kPermuted:
        for (size_t i = 0; i < dims(y).size(); ++i)
          if (get_integer(node, "perm", int(i)) == a) return give(y, {int(i), at.before, at.after});
        return fail("loses the batch");
      default: return samples(node, rows, at);
    }
  }

  bool reduce(ValueId x, ValueId y, uint32_t axes) {
    const size_t axis = size_t(axis_of(x)->axis);
    int64_t outer = this->outer(x);
    for (size_t i = 0; i < axis; ++i)
      if ((axes >> i & 1) != 0) outer /= dims(x)[i];
    outer_[size_t(y)] = outer;
    return true;
  }

  // Follows the rows through ops that compute each sample of axis 0 alone. Refuses ops that mix rows or keep a state.
  bool samples(const Node& node, Rows rows, const RowAxis& at) {
    std::string why;
    if (at.axis != 0) return fail("works along the batch: it takes samples on its first axis");
    if (rows == Rows::kMixed || rows == Rows::kStates)
      return fail("keeps a state, or selects boxes of the whole batch");
    for (const ValueId y : node.outputs)
      if (y != kNone && !give(y, at)) return false;
    return true;
  }

  bool broadcast(const Node& node, ValueId y) {
    const size_t operands = std::min(node.inputs.size(), size_t(facts_of(node.op).broadcast));
    std::optional<RowAxis> all;
    for (size_t i = 0; i < operands; ++i) {
      const ValueId x = node.inputs[i];
      if (!placed(x)) continue;
      std::optional<RowAxis> at = axis_of(x);
      if (at) at->axis += int(dims(y).size()) - int(dims(x).size());
      if (!at || (all && *all != *at)) return fail("broadcasts the batch against another axis");
      all = at;
    }
    return give(y, *all);
  }

  bool concatenate(const Node& node, ValueId y) {
    std::optional<RowAxis> all;
    for (const ValueId x : node.inputs) {
      if (!placed(x)) continue;
      const std::optional<RowAxis> at = axis_of(x);
      if (!at || at->axis == get_integer(node, "axis") || (all && *all != *at))
        return fail("joins the batch with another axis");
      all = at;
    }
    return give(y, *all);
  }

  // Follows the rows through a [.., m, k] times b [.., k, n]. They may lie in the leading axes, in m or in n.
  bool multiply(const Node& node, ValueId y) {
    const size_t rank = dims(y).size();
    std::optional<RowAxis> all;
    for (size_t i = 0; i < 2; ++i) {
      const ValueId x = node.inputs[i];
      if (!placed(x)) continue;
      std::optional<RowAxis> at = axis_of(x);
      if (!at) return fail("splits the batch over several axes");
      const size_t r = dims(x).size(), axis = size_t(at->axis);
      const bool transposed = get_integer(node, i == 0 ? "transpose_a" : "transpose_b") != 0;
      const size_t kept = (i == 0) != transposed ? r - 2 : r - 1;  // m or n
      if (axis < r - 2) at->axis += int(rank) - int(r);
      else if (axis == kept) at->axis = int(i == 0 ? rank - 2 : rank - 1);
      else return fail("multiplies along the batch");
      if (all && *all != *at) return fail("multiplies along the batch");
      all = at;
    }
    return give(y, *all);
  }

  bool recur(const Node& node) {
    std::optional<RowAxis> all;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!placed(node.inputs[i])) continue;
      const std::optional<RowAxis> at = axis_of(node.inputs[i]);
      if (i == 1 || i == 2) return fail("has weights that depend on the batch");
      if (!at || at->axis != 0 || (all && *all != *at)) return fail("goes on from row to row of the batch");
      all = at;
    }
    for (const ValueId y : node.outputs)
      if (y != kNone && !give(y, *all)) return false;
    return true;
  }

  const Graph& graph_;
  int64_t count_;
  std::vector<std::optional<int64_t>> outer_;  // per value: `outer` if it has the rows
  std::string why_;
};

// Returns the input's axis of rows from the metadata that the importer wrote. -1 if it wrote none.
int told_axis(const Graph& graph, const Binding& input) {
  const std::string key = rows_metadata(input.name);
  for (const auto& [name, value] : graph.metadata)
    if (name == key) return std::atoi(value.c_str());
  return -1;
}

// Returns whether the rows may lie on this axis of the input, by what the importer says or else by the sizes.
bool may_have_rows(const Graph& graph, const Binding& input, size_t axis) {
  const Sizes& dims = graph.values[size_t(input.value)].dims;
  if (axis >= dims.size()) return false;
  if (const int told = told_axis(graph, input); told >= 0) return size_t(told) == axis;
  if (graph.batch > 1) return dims[axis] == graph.batch && (axis == 0 || dims[0] != graph.batch);
  return axis == 0 || dims[0] > 1;
}

}  // namespace

std::vector<bool> nodes_before(const Graph& graph, ValueId y) {
  std::vector<bool> needed(graph.values.size()), before(graph.nodes.size());
  needed[size_t(y)] = true;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    before[i] = std::ranges::any_of(node.outputs, [&](ValueId id) { return id != kNone && needed[size_t(id)]; });
    if (!before[i]) continue;
    for (const ValueId id : node.inputs)
      if (id != kNone) needed[size_t(id)] = true;
  }
  return before;
}

std::string rows_metadata(const std::string& input) { return "input." + input + ".rows"; }

std::string rows_text(const FoundRows& rows) {
  if (rows.count == 0) return Json({{"none", rows.why}}).dump();
  Json outer = Json::array();
  for (const int64_t o : rows.outer) outer.push_back(o);
  return Json({{"count", rows.count}, {"inputs", outer}, {"output", rows.outer_of_y}}).dump();
}

FoundRows parse_rows(const std::string& text) {
  const Json json = Json::parse(text);
  FoundRows rows;
  if (json.contains("none")) {
    rows.why = json.at("none").get<std::string>();
    return rows;
  }
  rows.count = json.at("count").get<int64_t>();
  for (const Json& outer : json.at("inputs")) rows.outer.push_back(outer.get<int64_t>());
  rows.outer_of_y = json.at("output").get<int64_t>();
  return rows;
}

std::optional<RowAxis> row_axis(const Sizes& dims, int64_t outer, int64_t count) {
  std::optional<RowAxis> found;
  int64_t before = 1;  // product of the axes before this one
  for (size_t axis = 0; axis < dims.size(); before *= dims[axis], ++axis) {
    if (outer % before != 0) continue;
    const int64_t more = outer / before;
    if (dims[axis] % (more * count) != 0) continue;
    const RowAxis at = {int(axis), more, dims[axis] / (more * count)};
    if (at.before == 1 && at.after == 1) return at;
    if (!found) found = at;
  }
  return found;
}

int64_t outer_of(const Sizes& dims, const RowAxis& at) { return product(dims, 0, size_t(at.axis)) * at.before; }

Sizes dims_of_row(const Sizes& dims, int64_t outer, int64_t count) {
  Sizes row = dims;
  const std::optional<RowAxis> at = row_axis(dims, outer, count);
  if (!at) return {product(dims, 0, dims.size()) / count};
  row[size_t(at->axis)] = at->before * at->after;
  if (row[size_t(at->axis)] == 1) row.erase(row.begin() + at->axis);
  return row;
}

FoundRows find_rows(const Graph& graph, ValueId y) {
  constexpr size_t kMostInputs = 6;
  const size_t inputs = graph.inputs.size(), choices = size_t{1} << std::min(inputs, kMostInputs);
  FoundRows found;
  if (inputs == 0) found.why = "it has no input";
  for (size_t choice = 0; choice < 2 * choices && inputs > 0; ++choice) {
    // Choice 0 puts all rows on axis 0, choice 1 on axis 1. In a later choice, bit i gives the axis of input i.
    const bool same = choice < 2;
    if (!same && choice >= choices) break;
    const auto axis_of = [&](size_t i) { return same ? choice : choice >> std::min(i, kMostInputs - 1) & 1; };
    int64_t count = 0;
    bool fits = true;
    for (size_t i = 0; i < inputs && fits; ++i) {
      size_t axis = axis_of(i);
      if (const int told = told_axis(graph, graph.inputs[i]); told >= 0) axis = size_t(told);
      const Sizes& dims = graph.values[size_t(graph.inputs[i].value)].dims;
      fits = may_have_rows(graph, graph.inputs[i], axis) && (count == 0 || dims[axis] == count);
      if (fits) count = dims[axis];
    }
    if (!fits) continue;
    Follower follower(graph, count);
    std::vector<int64_t> outer;
    for (size_t i = 0; i < inputs; ++i) {
      const int told = told_axis(graph, graph.inputs[i]);
      const Sizes& dims = graph.values[size_t(graph.inputs[i].value)].dims;
      outer.push_back(product(dims, 0, told >= 0 ? size_t(told) : axis_of(i)));
      follower.begin(graph.inputs[i].value, outer.back());
    }
    std::string why;
    if (follower.run(y, why)) return {.count = count, .outer = outer, .outer_of_y = follower.outer(y)};
    if (found.why.empty()) found.why = why;
  }
  if (found.why.empty()) found.why = "its inputs have no axis of one size in common";
  return found;
}

}  // namespace nacre::tools
