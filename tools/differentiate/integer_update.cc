#include "tools/differentiate/integer_update.h"

#include <algorithm>

#include "tools/differentiate/differentiate.h"
#include "tools/differentiate/integer_masters.h"
#include "tools/passes/quantize_multiplier.h"

namespace nacre::tools {
namespace {

class IntegerUpdate {
 public:
  explicit IntegerUpdate(const Graph& gradients) : from_(gradients) { to_.source = gradients.source; }

  Graph run(const std::vector<IntegerParameter>& parameters, const std::vector<ErrorRange>& ranges) {
    const ValueId gradients = shared(kGradientsName), rate = arena("learning_rate", ElementType::kFloat32, 1);
    const ValueId amax = (apply_ = arena("apply", ElementType::kUint32, 1), arena("amax", ElementType::kUint32, 1)),
                  report = arena("report", ElementType::kFloat32, 4);
    to_.nodes.push_back(make_step(Op::kVerdictCodes, Node(), "verdict",
                                  {gradients, shared(kLossName), shared(kCountName), rate}, {apply_, amax, report}));
    for (const IntegerParameter& p : parameters) move(p, report);
    // From the first layer on: a range is made with those before it in the backward pass as they were in this step.
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

  ValueId arena(const char* name, ElementType type, int64_t elements) {
    return to_.add(named_value(name, type, {elements}, Region::kArena));
  }

  // The value of `gradients` of this name.
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

Graph integer_update(const Graph& gradients, const std::vector<IntegerParameter>& parameters,
                     const std::vector<ErrorRange>& ranges) {
  return IntegerUpdate(gradients).run(parameters, ranges);
}

}  // namespace nacre::tools
