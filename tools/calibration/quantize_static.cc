#include "tools/calibration/quantize_static.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "tools/base/error.h"
#include "tools/calibration/quantizers.h"
#include "tools/calibration/static_constants.h"
#include "tools/calibration/static_groups.h"
#include "tools/calibration/static_plan.h"
#include "tools/passes/simplify/simplify.h"

namespace nacre::tools {
namespace {

class StaticPass {
 public:
  StaticPass(Graph& graph, const Calibration* calibration, const StaticOptions& options)
      : graph_(graph), calibration_(calibration), options_(options), plan_(graph) {}

  void run() {
    if (!plan_.any()) return;
    cut_borders();
    StaticGroups groups(graph_.values.size());
    fix_given(groups);
    join_moves(groups);
    include_ranges(groups);
    assign(groups);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!coded_[i]) continue;
      Node node = graph_.nodes[i];
      if (facts_of(node.op).calibrated == StaticForm::kMatmul) code_matmul(graph_, node, options_.dense_per_channel);
      else
        code_operands(graph_, node, recorded_name(node.outputs[0]),
                      calibration_ == nullptr ? nullptr : &calibration_->masks);
      graph_.nodes[i] = std::move(node);
    }
    remove_dead_values(graph_, {});
  }

  // Returns the values that run() would give a quantizer. Adds border copies to the graph, but no quantizer.
  StaticValues values() {
    StaticValues result;
    if (!plan_.any()) return result;
    cut_borders();
    StaticGroups groups(graph_.values.size());
    fix_given(groups);
    join_moves(groups);
    std::map<ValueId, size_t> seen;  // index in result.values, by value
    std::map<ValueId, int> group_of;
    const auto add = [&](ValueId id, const Node* writer) {
      if (!takes_codes(id) || seen.contains(id)) return;
      const auto [group, fresh] = group_of.try_emplace(groups.root(id), int(result.groups.size()));
      if (fresh) result.groups.push_back({groups.fixed(id)});
      const auto origin = origins_.find(id);
      seen.emplace(id, result.values.size());
      const bool moved =
          writer != nullptr && joined_[size_t(id)] && writer->op != Op::kConcat && writer->op != Op::kAveragePool;
      result.values.push_back({.name = origin == origins_.end() ? value(id).name : origin->second,
                               .group = group->second,
                               .by_codes = writer != nullptr,
                               .moved = moved,
                               .observed = false});
    };
    std::vector<size_t> observed;  // index of the observed value, by group
    std::vector<bool> of_concat;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!coded_[i]) continue;
      const Node& node = graph_.nodes[i];
      for (const ValueId x : node.inputs) add(x, nullptr);
      for (const ValueId y : node.outputs) add(y, &node);
      observed.resize(result.groups.size(), SIZE_MAX);
      of_concat.resize(result.groups.size(), false);
      // A concat's output has the range of its group; the last concat counts. In a group without a concat the first
      // value that no move made counts.
      const auto consider = [&](ValueId id, bool concat) {
        if (!seen.contains(id)) return;
        const auto group = size_t(result.values[seen.at(id)].group);
        if (!concat && (of_concat[group] || observed[group] != SIZE_MAX || joined_[size_t(id)])) return;
        observed[group] = seen.at(id);
        of_concat[group] = concat;
      };
      for (const ValueId x : node.inputs) consider(x, false);
      for (const ValueId y : node.outputs) consider(y, node.op == Op::kConcat && joined_[size_t(y)]);
    }
    for (const size_t i : observed)
      if (i != SIZE_MAX) result.values[i].observed = true;
    return result;
  }

 private:
  Value& value(ValueId id) { return graph_.values[size_t(id)]; }

  // Cuts each value that int8 and real nodes share. The int8 side gets a value of its own (a twin), and a copy connects
  // both.
  void cut_borders() {
    std::vector<ValueId> twins(graph_.values.size(), kNone);
    for (size_t id = 0; id < twins.size(); ++id)
      if (needs_twin(ValueId(id))) twins[id] = kTwinWanted;
    for (size_t id = 0; id < twins.size(); ++id)
      if (twins[id] == kTwinWanted) twins[id] = add_twin(ValueId(id));

    std::vector<Node> nodes;
    const auto push = [&](Node node, bool coded) {
      nodes.push_back(std::move(node));
      coded_.push_back(coded);
    };
    const auto twin = [&](ValueId id) { return id != kNone && size_t(id) < twins.size() ? twins[size_t(id)] : kNone; };
    for (const Binding& b : graph_.inputs)
      if (twin(b.value) != kNone) push(border(b.value, b.value, twin(b.value)), false);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node node = graph_.nodes[i];
      const bool coded = plan_.coded(i);
      for (ValueId& id : node.inputs)
        if (coded && twin(id) != kNone) id = twin(id);
      for (ValueId& id : node.outputs)
        if (coded && twin(id) != kNone) id = twin(id);
      push(std::move(node), coded);
      for (const ValueId id : graph_.nodes[i].outputs) {
        if (twin(id) == kNone) continue;
        push(coded ? border(id, twin(id), id) : border(id, id, twin(id)), false);
      }
    }
    graph_.nodes = std::move(nodes);
  }

  bool needs_twin(ValueId id) const {
    const Value& v = graph_.values[size_t(id)];
    if (!is_activation(graph_, id) || v.quantizer || plan_.bare(id)) return false;
    const auto is_coded = [&](int node) { return plan_.coded(size_t(node)); };
    const std::vector<int>& readers = plan_.readers(id);
    const bool read_coded = std::ranges::any_of(readers, is_coded);
    const bool read_real = !std::ranges::all_of(readers, is_coded) || plan_.is_output(id);
    const bool written_coded = plan_.writer(id) >= 0 && is_coded(plan_.writer(id));
    return written_coded ? read_real : read_coded;
  }

  ValueId add_twin(ValueId id) {
    Value codes;
    codes.name = value(id).name + "/int8";
    codes.dims = value(id).dims;
    codes.batched = value(id).batched;
    const ValueId twin = graph_.add(std::move(codes));
    origins_.emplace(twin, value(id).name);
    return twin;
  }

  // Returns a copy node x -> y. Its layer is the int8 layer that writes `id`, else the first one that reads `id`.
  Node border(ValueId id, ValueId x, ValueId y) {
    Node node;
    node.op = Op::kCopy;
    node.name = value(y).name + "/border";
    node.inputs = {x};
    node.outputs = {y};
    const int writer = plan_.writer(id);
    if (writer >= 0 && plan_.coded(size_t(writer))) {
      node.layer = graph_.nodes[size_t(writer)].layer;
      return node;
    }
    for (const int reader : plan_.readers(id))
      if (plan_.coded(size_t(reader)) && node.layer == kNone) node.layer = graph_.nodes[size_t(reader)].layer;
    return node;
  }

  bool takes_codes(ValueId id) const { return is_activation(graph_, id) && !is_bare(id); }
  bool is_bare(ValueId id) const { return origins_.count(id) == 0 && plan_.bare(id); }

  // Fixes the quantizers that the source or the op prescribes.
  void fix_given(StaticGroups& groups) {
    for (size_t id = 0; id < graph_.values.size(); ++id)
      if (!value(ValueId(id)).constant() && value(ValueId(id)).quantizer)
        groups.fix(ValueId(id), *value(ValueId(id)).quantizer);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const std::optional<Quantizer> fixed = fixed_quantizer(graph_.nodes[i].op);
      if (!coded_[i] || !fixed) continue;
      for (const ValueId y : graph_.nodes[i].outputs)
        if (!groups.fixed(y)) groups.fix(y, *fixed);
    }
  }

  void join_moves(StaticGroups& groups) {
    joined_.resize(graph_.values.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (!coded_[i] || facts_of(node.op).calibrated != StaticForm::kSame) continue;
      const ValueId y = node.outputs[0];
      if (node.op == Op::kConcat) {
        join_concat(groups, node);
      } else if (takes_codes(node.inputs[0]) && !pads_beyond(groups, node)) {
        joined_[size_t(y)] = groups.merge(node.inputs[0], y);
      }
    }
  }

  // Returns whether the node pads with a number that the given int8 codes of its input do not reach, such as 1 after a
  // sigmoid, whose codes end at 255 / 256. The output then has a quantizer of its own.
  bool pads_beyond(StaticGroups& groups, const Node& node) {
    const std::optional<Quantizer>& given = groups.fixed(node.inputs[0]);
    if (node.op != Op::kPad || get_integer(node, "mode") != 0 || !given) return false;
    const double number = double(get_real(node, "value")),
                 code = number / double(given->scale[0]) + double(given->zero[0]);
    return std::isfinite(number) && (code < -128.5 || code > 127.5);
  }

  // Joins a concat and its inputs. If not all inputs have the same fixed quantizer, those that have one keep it, and
  // apply_policy requantizes them into the output's codes.
  void join_concat(StaticGroups& groups, const Node& node) {
    const ValueId y = node.outputs[0];
    const ValueId first = node.inputs[0];
    const bool alike = std::ranges::all_of(node.inputs, [&](ValueId x) {
      return takes_codes(x) && groups.fixed(x) && groups.fixed(first) &&
             same_codes(*groups.fixed(x), *groups.fixed(first));
    });
    for (const ValueId x : node.inputs)
      if (takes_codes(x) && (alike || !groups.fixed(x))) joined_[size_t(y)] = groups.merge(x, y) || joined_[size_t(y)];
  }

  // Adds to each group without a fixed quantizer the range of every value that no move made. Outputs of pads and
  // concats count too, because pads and constants add numbers.
  void include_ranges(StaticGroups& groups) {
    if (calibration_ == nullptr) return;
    const auto include = [&](ValueId id) {
      if (takes_codes(id) && !groups.fixed(id)) groups.include(id, calibrated(id));
    };
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!coded_[i]) continue;
      const Node& node = graph_.nodes[i];
      for (const ValueId x : node.inputs)
        if (x != kNone && !joined_[size_t(x)]) include(x);
      const bool adds = node.op == Op::kPad || node.op == Op::kConcat;
      for (const ValueId y : node.outputs)
        if (!joined_[size_t(y)] || adds) include(y);
    }
  }

  const std::string& recorded_name(ValueId id) {
    const auto origin = origins_.find(id);
    return origin == origins_.end() ? value(id).name : origin->second;
  }

  Range calibrated(ValueId id) {
    const std::string& name = recorded_name(id);
    if (const ValueRange* found = calibration_->find(name)) return found->range;
    throw NoRange(kFailed, graph_.source, "no range was recorded for " + name,
                  "calibrate this network, after simplify");
  }

  void assign(StaticGroups& groups) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!coded_[i]) continue;
      const Node& node = graph_.nodes[i];
      for (const ValueId x : node.inputs)
        if (takes_codes(x)) assign(groups, node, x, "input");
      for (const ValueId y : node.outputs)
        if (takes_codes(y)) assign(groups, node, y, "output");
    }
  }

  void assign(StaticGroups& groups, const Node& node, ValueId id, const char* what) {
    if (value(id).quantizer) return;
    if (!groups.fixed(id) && !groups.range(id))
      throw Error(kUsage, layer_place(graph_, node), fmt::format("policy int8/static needs a range for its {}", what),
                  options_.range_remedy);
    value(id).quantizer = groups.fixed(id) ? *groups.fixed(id) : quantizer_of_range(*groups.range(id));
  }

  Graph& graph_;
  const Calibration* calibration_;
  const StaticOptions& options_;
  const StaticPlan plan_;  // made from the graph without border copies
  static constexpr ValueId kTwinWanted = -2;

  std::vector<bool> coded_;                 // per node of the graph with its border copies: true if it becomes int8
  std::map<ValueId, std::string> origins_;  // name that a twin's range was recorded under, by the twin
  std::vector<bool> joined_;                // true if a move writes the value and shares its input's quantizer
};

void fill_amaxes(Graph& graph, const Calibration& calibration) {
  for (const Node& node : graph.nodes) {
    if (node.layer == kNone || !reads_amaxes(graph.layers[size_t(node.layer)].policy)) continue;
    for (const ValueId id : node.inputs) {
      if (!is_activation(graph, id)) continue;
      Value& v = graph.values[size_t(id)];
      if (const ValueRange* found = calibration.find(v.name)) v.amaxes = found->amaxes;
    }
  }
}

void fill_moments(Graph& graph, const Calibration& calibration) {
  for (Node& node : graph.nodes) {
    if (!is_matmul(node.op) || node.layer == kNone || !reads_moments(graph.layers[size_t(node.layer)].policy)) continue;
    const auto found = calibration.moments.find(graph.values[size_t(node.outputs[0])].name);
    if (found != calibration.moments.end()) node.moments = found->second;
  }
}

}  // namespace

bool reads_ranges(const Policy& policy) {
  return policy.quantization == Quantization::kInt8Static || policy.quantization == Quantization::kInt8Full;
}
bool reads_amaxes(const Policy& policy) { return policy.quantization == Quantization::kFloat8; }
bool reads_moments(const Policy& policy) { return policy.weight_fit != WeightFit::kNearest; }
bool reads_samples(const Policy& policy) {
  return reads_ranges(policy) || reads_amaxes(policy) || reads_moments(policy);
}

std::function<bool(const Node&)> fitted_by(const Graph& resolved) {
  std::vector<bool> fitted;
  for (const Layer& layer : resolved.layers) fitted.push_back(layer.asked && reads_moments(layer.policy));
  return [fitted](const Node& node) { return node.layer != kNone && fitted[size_t(node.layer)]; };
}

void quantize_static(Graph& graph, const Calibration* calibration, const StaticOptions& options) {
  if (calibration != nullptr) {
    fill_amaxes(graph, *calibration);
    fill_moments(graph, *calibration);
  }
  StaticPass(graph, calibration, options).run();
}

StaticValues static_values(const Graph& graph, const StaticOptions& options) {
  Graph copy = graph;
  return StaticPass(copy, nullptr, options).values();
}

}  // namespace nacre::tools
