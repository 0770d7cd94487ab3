#include "tools/training/update_program.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string_view>

#include "tools/error.h"
#include "tools/graph/operands.h"
#include "tools/passes/apply_policy.h"
#include "tools/training/parameters.h"

namespace nacre::tools {
namespace {

struct OptimizerRow {
  Optimizer kind;
  Op op;
  int moments;  // state values of the parameter's shape
  const char* names[2];
};
constexpr OptimizerRow kOptimizers[] = {
    {Optimizer::kSgd, Op::kSgd, 0, {}},
    {Optimizer::kMomentum, Op::kMomentum, 1, {"velocity"}},
    {Optimizer::kNesterov, Op::kNesterov, 1, {"velocity"}},
    {Optimizer::kAdam, Op::kAdam, 2, {"first_moment", "second_moment"}},
    {Optimizer::kAdamW, Op::kAdamW, 2, {"first_moment", "second_moment"}},
    {Optimizer::kRmsprop, Op::kRmsprop, 1, {"mean_square"}},
    {Optimizer::kAdagrad, Op::kAdagrad, 1, {"square_sum"}},
};

bool has_attribute(const Node& node, std::string_view name) {
  return std::ranges::any_of(find_rule(node.op)->attributes, [&](const Attribute& a) { return a.name == name; });
}

class Update {
 public:
  Update(const Differentiated& differentiated, const TrainingOptions& options) : source_(differentiated), options_(options) {
    graph_.source = differentiated.graph.source;
    for (const Value& v : differentiated.graph.values)
      if (v.persists()) by_name_.emplace(v.name, &v);
  }

  Graph run(const Commit& commit) {
    const ValueId rate = arena("learning_rate", ElementType::kFloat32, 1);
    graph_.inputs.push_back({"learning_rate", rate, ""});
    verdict();
    for (const GradientOf& g : source_.gradients) optimize(g, rate);
    for (const StatisticsOf& s : source_.statistics) commit_statistics(s);
    add_commit(commit);
    guarded(Op::kCountStep, "count_step", {step_count()});
    adjust_loss_scale();
    return std::move(graph_);
  }

 private:
  ValueId arena(const std::string& name, ElementType type, int64_t elements) {
    Value v;
    v.name = name;
    v.type = type;
    v.dims = {elements};
    return graph_.add(std::move(v));
  }

  // The value of this name in `gradients`, once.
  ValueId shared(const std::string& name) {
    if (const auto found = ids_.find(name); found != ids_.end()) return found->second;
    Value v = *by_name_.at(name);
    if (v.alias_of != kNone) v.alias_of = shared(source_.graph.values[size_t(v.alias_of)].name);
    const ValueId id = graph_.add(std::move(v));
    ids_.emplace(name, id);
    return id;
  }

  ValueId state(const std::string& name, ElementType type, std::vector<int64_t> dims, Kept kept) {
    if (const auto found = ids_.find(name); found != ids_.end()) return found->second;
    Value v;
    v.name = name;
    v.type = type;
    v.dims = std::move(dims);
    v.region = Region::kState;
    v.kept = kept;
    const ValueId id = graph_.add(std::move(v));
    ids_.emplace(name, id);
    return id;
  }

  ValueId step_count() { return state(kStepCountName, ElementType::kUint32, {1}, Kept::kCounter); }

  Node& guarded(Op op, const std::string& name, std::vector<ValueId> inputs) {
    Node node = make_step(op, Node(), name, std::move(inputs), {});
    node.guard = apply_;
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.back();
  }

  void verdict() {
    apply_ = arena("apply", ElementType::kUint32, 1);
    amax_ = arena("amax", ElementType::kUint32, 1);
    report_ = arena("report", source_.sums, 4);
    Node node = make_step(Op::kVerdict, Node(), "verdict",
                          {shared(kGradientsName), shared(kLossName), shared(kCountName), shared(kLossScaleName)}, {apply_, amax_, report_});
    set_real(node, "clip_norm", options_.optimizer.clip_norm);
    graph_.nodes.push_back(std::move(node));
    for (const ValueId id : {apply_, amax_, report_}) graph_.outputs.push_back({graph_.values[size_t(id)].name, id, ""});
  }

  // Of a parameter in float64 float64; else as asked, but float32 where the parameter is not float32 itself.
  ElementType moment_type(ElementType parameter) const {
    if (parameter == ElementType::kFloat64) return parameter;
    return parameter == ElementType::kFloat32 ? options_.optimizer.moments : ElementType::kFloat32;
  }

  void optimize(const GradientOf& g, ValueId rate) {
    const OptimizerOptions& o = options_.optimizer;
    const OptimizerRow& row = *std::ranges::find(kOptimizers, o.kind, &OptimizerRow::kind);
    const ValueId parameter = shared(g.parameter);
    std::vector<ValueId> inputs = {shared(g.gradient), report_, rate};
    if (row.moments == 2) inputs.push_back(step_count());
    inputs.push_back(parameter);
    const Value p = graph_.values[size_t(parameter)];
    for (int i = 0; i < row.moments; ++i)
      inputs.push_back(state(g.parameter + "/" + row.names[i], moment_type(p.type), p.dims, Kept::kOptimizer));
    Node& node = guarded(row.op, g.parameter + "/" + find_rule(row.op)->name, std::move(inputs));
    const bool decays = g.decays && (o.no_decay.empty() || !matches_any(g.layer, o.no_decay));
    const std::pair<const char*, float> attributes[] = {
        {"momentum", o.momentum}, {"beta1", o.beta1},     {"beta2", o.beta2},           {"alpha", o.alpha},
        {"epsilon", o.epsilon},   {"clip_value", o.clip_value}, {"weight_decay", decays ? o.weight_decay : 0}};
    for (const auto& [name, number] : attributes)
      if (has_attribute(node, name)) set_real(node, name, number);
  }

  void commit_statistics(const StatisticsOf& s) {
    const std::pair<std::string, std::string> rows[] = {{s.mean_sum, s.running_mean}, {s.variance_sum, s.running_variance}};
    for (const auto& [sum, running] : rows) {
      Node& node = guarded(Op::kUpdateStatistics, running + "/update", {shared(sum), shared(s.batches), shared(running)});
      set_real(node, "momentum", options_.batch_norm_momentum);
    }
  }

  // Values that `gradients` has too are the same.
  void add_commit(const Commit& commit) {
    std::vector<ValueId> ids;
    for (const Value& v : commit.values) {
      if (by_name_.contains(v.name)) ids.push_back(shared(v.name));
      else ids.push_back(graph_.add(v));
    }
    for (Node node : commit.nodes) {
      for (ValueId& id : node.inputs)
        if (id != kNone) id = ids[size_t(id)];
      node.guard = apply_;
      graph_.nodes.push_back(std::move(node));
    }
  }

  void adjust_loss_scale() {
    const ValueId counters = state("loss_scale_counters", ElementType::kUint32, {3}, Kept::kCounter);
    Node node = make_step(Op::kAdjustLossScale, Node(), "adjust_loss_scale", {amax_, shared(kLossScaleName), counters}, {});
    const LossScaler& rule = options_.loss_scale;
    set_integer(node, "system", int(rule.system));
    set_integer(node, "kind", int(rule.kind));
    set_real(node, "initial", rule.initial);
    set_integer(node, "period", int(rule.period));
    set_real(node, "factor", rule.factor);
    set_real(node, "min", rule.min);
    set_real(node, "max", rule.max);
    graph_.nodes.push_back(std::move(node));
  }

  const Differentiated& source_;
  const TrainingOptions& options_;
  Graph graph_;
  std::map<std::string, const Value*> by_name_;  // of `gradients`
  std::map<std::string, ValueId> ids_;
  ValueId apply_ = kNone, amax_ = kNone, report_ = kNone;
};

}  // namespace

Graph update_program(const Differentiated& differentiated, const TrainingOptions& options, const Commit& commit) {
  return Update(differentiated, options).run(commit);
}

}  // namespace nacre::tools
