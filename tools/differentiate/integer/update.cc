#include "tools/differentiate/integer/update.h"

#include <algorithm>
#include <cmath>

#include "tools/differentiate/differentiate.h"
#include "tools/differentiate/integer/masters.h"
#include "tools/differentiate/trained_codes.h"
#include "tools/graph/matmul_operands.h"
#include "tools/passes/policy/quantize_multiplier.h"

namespace nacre::tools {
namespace {

class IntegerUpdate {
 public:
  explicit IntegerUpdate(const Graph& gradients) : from_(gradients) { to_.source = gradients.source; }

  Graph run(const IntegerCommit& commit) {
    const ValueId gradients = shared(kGradientsName), rate = arena("learning_rate", ElementType::kFloat32, 1);
    const ValueId amax = (apply_ = arena("apply", ElementType::kUint32, 1), arena("amax", ElementType::kUint32, 1)),
                  report = arena("report", ElementType::kFloat32, 4);
    to_.nodes.push_back(make_step(Op::kVerdictCodes, Node(), "verdict",
                                  {gradients, shared(kLossName), shared(kCountName), rate}, {apply_, amax, report}));
    for (const IntegerParameter& p : commit.parameters) move(p, report);
    for (const PartialLayer& layer : commit.partial) write(layer);
    // The range that the backward pass made last comes first. A range is computed from earlier ranges of the backward
    // pass, which must still be those of this step.
    const std::vector<ErrorRange>& ranges = commit.ranges;
    for (size_t i = ranges.size(); i-- > 0;)
      guarded(Op::kUpdateErrorRange, ranges[i].range + "/update",
              {shared(ranges[i].amax), optional(ranges[i].of_error), optional(ranges[i].of_other),
               shared(ranges[i].range)});
    Value count = named_value(kStepCountName, ElementType::kUint32, {1}, Region::kState);
    count.kept = Kept::kCounter;
    guarded(Op::kCountStep, "count_step", {to_.add(std::move(count))});
    to_.inputs.push_back({"learning_rate", rate, ""});
    for (const ValueId id : {apply_, amax, report}) to_.outputs.push_back({to_.values[size_t(id)].name, id, ""});
    return std::move(to_);
  }

 private:
  void move(const IntegerParameter& p, ValueId report) {
    std::vector<int32_t> pairs;
    for (const double change : p.change) {
      const FixedPoint pair = quantize_multiplier(change);
      pairs.insert(pairs.end(), {pair.multiplier, pair.shift});
    }
    const ValueId multiplier = to_.constant(p.master + "/change", {int64_t(p.change.size()), 2}, pairs);
    Node& node = guarded(Op::kSgdCodes, p.master + "/sgd_codes",
                         {shared(p.gradient), report, multiplier, optional(p.range), shared(p.master)});
    if (p.channels_last) set_integer(node, "channels_last", 1);
  }

  void write(const PartialLayer& layer) {
    const bool weighs = !layer.weights.master.empty();
    if (!weighs && layer.bias.master.empty()) return;
    const StoredCodes &first = weighs ? layer.weights : layer.bias, second = weighs ? layer.bias : StoredCodes();
    const ValueId codes = shared(first.codes);
    const std::vector<int64_t>& dims = to_.values[size_t(codes)].dims;
    const ValueId pending =
        arena(layer.name + "/pending", ElementType::kUint32, layer.channels_last ? dims.back() : dims.front());
    Node& count = guarded(Op::kPendingCodes, layer.name + "/pending_codes",
                          {shared(first.master), codes, optional(second.master), optional(second.codes)});
    count.outputs = {pending};
    set_integer(count, "bits", first.bits);
    set_integer(count, "bias_bits", second.bits);
    if (layer.channels_last) set_integer(count, "channels_last", 1);
    for (const StoredCodes* stored : {&layer.weights, &layer.bias}) {
      if (stored->master.empty()) continue;
      Node& node = guarded(Op::kWriteCodes, stored->codes + "/write_codes",
                           {pending, shared(stored->master), shared(stored->codes)});
      set_integer(node, "bits", stored->bits);
      set_integer(node, "count", layer.count);
      if (layer.channels_last && stored == &layer.weights) set_integer(node, "channels_last", 1);
    }
  }

  ValueId arena(const std::string& name, ElementType type, int64_t elements) {
    return to_.add(named_value(name, type, {elements}, Region::kArena));
  }

  // Returns the value of `gradients` that has this name.
  ValueId shared(const std::string& name) {
    if (const auto at = std::ranges::find(to_.values, name, &Value::name); at != to_.values.end())
      return ValueId(at - to_.values.begin());
    Value v = *std::ranges::find(from_.values, name, &Value::name);
    if (v.alias_of != kNone) v.alias_of = shared(from_.values[size_t(v.alias_of)].name);
    return to_.add(std::move(v));
  }
  ValueId optional(const std::string& name) { return name.empty() ? kNone : shared(name); }

  Node& guarded(Op op, const std::string& name, std::vector<ValueId> inputs) {
    Node node = make_step(op, Node(), name, std::move(inputs), {});
    node.guard = apply_;
    to_.nodes.push_back(std::move(node));
    return to_.nodes.back();
  }

  const Graph& from_;
  Graph to_;
  ValueId apply_ = kNone;
};

}  // namespace

// Computes count = ceil(share * channels), at least 1. The 1e-9 makes it robust to the product's rounding.
PartialLayer partial_layer(const Graph& graph, const Node& node, const std::map<std::string, int>& bits,
                           const TrainingOptions& options) {
  const auto stored = [&](size_t slot, bool trains) -> StoredCodes {
    if (!trains || node.inputs[slot] == kNone) return {};
    const std::string& name = graph.values[size_t(node.inputs[slot])].name;
    return {name + kMaster, name, bits.at(name)};
  };
  const int64_t channels = graph.values[size_t(node.inputs[kW])].dims[channel_axis(node.op)];
  const auto count = int64_t(std::ceil(options.share * double(channels) - 1e-9));
  return {.name = node.name,
          .weights = stored(kW, !options.train.biases_only),
          .bias = stored(kBias, true),
          .count = int(std::clamp(count, int64_t{1}, channels)),
          .channels_last = node.op == Op::kDepthwiseConv2d};
}

Graph integer_update(const Graph& gradients, const IntegerCommit& commit) {
  return IntegerUpdate(gradients).run(commit);
}

}  // namespace nacre::tools
