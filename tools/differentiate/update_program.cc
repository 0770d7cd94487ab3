#include "tools/differentiate/update_program.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <string_view>

#include "tools/base/error.h"
#include "tools/base/nearest.h"
#include "tools/base/option_id.h"
#include "tools/differentiate/loss_step.h"
#include "tools/differentiate/parameters.h"
#include "tools/graph/operands.h"
#include "tools/graph/source_training.h"
#include "tools/policies/pattern.h"

namespace nacre::tools {
namespace {

struct OptimizerRow {
  Optimizer kind;
  Op op;
  int moments;  // number of state values of the parameter's shape
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

const OptimizerRow& row_of(Optimizer kind) { return *std::ranges::find(kOptimizers, kind, &OptimizerRow::kind); }

// Returns whether the source's file has the state of this optimizer.
bool keeps(const SourceTraining& saved, const OptimizerRow& row) {
  return row.moments > 0 && std::ranges::any_of(saved.moments, [&](const auto& of_parameter) {
           return of_parameter.second.contains(row.names[0]);
         });
}

bool has_attribute(const Node& node, std::string_view name) {
  return std::ranges::any_of(find_rule(node.op)->attributes, [&](const Attribute& a) { return a.name == name; });
}

void check_no_decay(const Graph& graph, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    require_pattern(pattern, {option("no-decay", in_quotes(pattern))});
    const RE2 expression(pattern, RE2::Quiet);
    if (std::ranges::none_of(graph.layers, [&](const Layer& layer) { return RE2::FullMatch(layer.name, expression); }))
      throw Error(kUsage, option("no-decay"), fmt::format("'{}' matches no layer", pattern),
                  "nacre inspect NETWORK lists the layers");
  }
}

// Returns the penalty on a parameter. A parameter "w/channels[0:8]", some channels of a constant, has the penalty of
// "w".
float penalty_on(const std::string& parameter, const SourceTraining& saved) {
  const auto found = saved.decays.find(parameter.substr(0, parameter.find("/channels[")));
  return found == saved.decays.end() ? 0 : found->second;
}

// Throws if gradients are clipped or the optimizer is adamw. A penalty must enter the gradient before these act.
void check_penalties(const std::string& source, const OptimizerOptions& o) {
  const bool clips = o.clip_norm > 0 || o.clip_value > 0, apart = o.kind == Optimizer::kAdamW;
  if (!clips && !apart) return;
  throw Error(kUnsupported, source,
              fmt::format("its L2 penalties are part of the gradient, which {}",
                          clips ? "is clipped without them here" : "adamw keeps weight decay apart from"),
              "train without " + std::string(clips ? "clipping" : "adamw") +
                  ", or go on without them: " + option("ignore-setting", "L2"));
}

}  // namespace

UpdateSteps::UpdateSteps(Graph& graph, const Graph& shared, const TrainingOptions& options, ElementType sums)
    : graph_(graph), options_(options), saved_(shared.training), sums_(sums) {
  resumes_ = saved_ != nullptr && keeps(*saved_, row_of(options.optimizer.kind));
  check_no_decay(shared, options.optimizer.no_decay);
  if (saved_ != nullptr && !saved_->decays.empty()) check_penalties(shared.source, options.optimizer);
  losses_of_sample_ = losses_of_sample(shared);
  for (const Value& v : shared.values) {
    if (!v.persists()) continue;
    source_.emplace(v.name, v);
    if (v.alias_of != kNone) roots_.emplace(v.name, shared.values[size_t(v.alias_of)].name);
  }
  for (size_t id = 0; id < graph.values.size(); ++id)
    if (graph.values[id].persists()) ids_.emplace(graph.values[id].name, ValueId(id));
}

ValueId UpdateSteps::arena(const std::string& name, ElementType type, int64_t elements) {
  Value v;
  v.name = name;
  v.type = type;
  v.dims = {elements};
  return graph_.add(std::move(v));
}

ValueId UpdateSteps::shared(const std::string& name) {
  if (const auto found = ids_.find(name); found != ids_.end()) return found->second;
  Value v = source_.at(name);
  if (v.alias_of != kNone) v.alias_of = shared(roots_.at(name));
  const ValueId id = graph_.add(std::move(v));
  ids_.emplace(name, id);
  return id;
}

ValueId UpdateSteps::state(const std::string& name, ElementType type, std::vector<int64_t> dims, Kept kept) {
  if (ids_.contains(name) || source_.contains(name)) return shared(name);
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

ValueId UpdateSteps::moment(const std::string& parameter, const std::string& name, const Value& like) {
  const ValueId id = state(parameter + "/" + name, moment_type(like.type), like.dims, Kept::kOptimizer);
  Value& v = graph_.values[size_t(id)];
  if (!resumes_ || !saved_->moments.contains(parameter)) return id;
  const std::map<std::string, std::vector<float>>& kept = saved_->moments.at(parameter);
  const auto found = kept.find(name);
  if (found != kept.end() && int64_t(found->second.size()) == v.elements())
    v.initial = std::make_shared<const std::vector<uint8_t>>(stored_as(v.type, found->second));
  return id;
}

ValueId UpdateSteps::step_count() {
  const ValueId id = state(kStepCountName, ElementType::kUint32, {1}, Kept::kCounter);
  if (!resumes_) return id;
  std::vector<uint8_t> steps(sizeof saved_->steps);
  std::memcpy(steps.data(), &saved_->steps, steps.size());
  graph_.values[size_t(id)].initial = std::make_shared<const std::vector<uint8_t>>(std::move(steps));
  return id;
}

ValueId UpdateSteps::learning_rate() {
  if (rate_ == kNone) rate_ = arena("learning_rate", ElementType::kFloat32, 1);
  return rate_;
}

Node& UpdateSteps::guarded(Op op, const std::string& name, std::vector<ValueId> inputs, const Verdict& verdict) {
  Node node = make_step(op, Node(), name, std::move(inputs), {});
  node.guard = verdict.apply;
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back();
}

// Returns the layer of the steps that read sums. For float64 sums it is the loss's layer, whose policy gives them
// float64 if the graph gets its types later (--update immediate).
int UpdateSteps::layer_of_sums() const { return sums_ == ElementType::kFloat64 ? loss_layer(graph_) : kNone; }

UpdateSteps::Verdict UpdateSteps::verdict(ValueId gradients, const std::string& suffix) {
  const Verdict made = {arena("apply" + suffix, ElementType::kUint32, 1),
                        arena("amax" + suffix, ElementType::kUint32, 1), arena("report" + suffix, sums_, 4)};
  Node node =
      make_step(Op::kVerdict, Node(), "verdict" + suffix,
                {gradients, shared(kLossName), count(), shared(kLossScaleName)}, {made.apply, made.amax, made.report});
  node.layer = layer_of_sums();
  set_real(node, "clip_norm", options_.optimizer.clip_norm);
  graph_.nodes.push_back(std::move(node));
  return made;
}

// Returns the divisor of the sums: the number of samples. If the loss stays a sum, the divisor is 1 / T for T losses in
// a sample, of which the loss step takes the mean. Keras takes a mean over the last axis and a sum over all others.
ValueId UpdateSteps::count() {
  if (!options_.loss.sums) return shared(kCountName);
  return graph_.constant("sum_divisor", {1}, std::vector<float>{1 / losses_of_sample_});
}

// Returns the type of the moments: float64 for a parameter in float64, the asked type for one in float32, else
// float32.
ElementType UpdateSteps::moment_type(ElementType parameter) const {
  if (parameter == ElementType::kFloat64) return parameter;
  return parameter == ElementType::kFloat32 ? options_.optimizer.moments : ElementType::kFloat32;
}

void UpdateSteps::optimize(const GradientOf& g, ValueId gradient, const Verdict& verdict) {
  const OptimizerOptions& o = options_.optimizer;
  const OptimizerRow& row = row_of(o.kind);
  const ValueId parameter = shared(g.parameter);
  std::vector<ValueId> inputs = {gradient, verdict.report, learning_rate()};
  if (row.moments == 2) inputs.push_back(step_count());
  inputs.push_back(parameter);
  const Value p = graph_.values[size_t(parameter)];
  for (int i = 0; i < row.moments; ++i) inputs.push_back(moment(g.parameter, row.names[i], p));
  Node& node = guarded(row.op, g.parameter + "/" + find_rule(row.op)->name, std::move(inputs), verdict);
  node.layer = layer_of_sums();
  const auto is_named = [&](const std::string& layer) { return !o.no_decay.empty() && matches_any(layer, o.no_decay); };
  const bool decays =  // no, if one of the layers that share the parameter is named in no_decay
      (g.decays || o.decay_all != 0) && std::ranges::none_of(g.layers, is_named);
  const float penalty = saved_ == nullptr ? 0 : penalty_on(g.parameter, *saved_);
  const std::pair<const char*, float> attributes[] = {{"momentum", o.momentum},
                                                      {"beta1", o.beta1},
                                                      {"beta2", o.beta2},
                                                      {"alpha", o.alpha},
                                                      {"epsilon", o.epsilon},
                                                      {"clip_value", o.clip_value},
                                                      {"weight_decay", (decays ? o.weight_decay : 0) + penalty}};
  for (const auto& [name, number] : attributes)
    if (has_attribute(node, name)) set_real(node, name, number);
  if (o.epsilon_before != 0 && has_attribute(node, "epsilon_before")) set_integer(node, "epsilon_before", 1);
  if (o.epsilon_in_root != 0 && has_attribute(node, "epsilon_in_root")) set_integer(node, "epsilon_in_root", 1);
}

// Returns the file's momentum, unless another than the usual one is asked for.
float UpdateSteps::momentum_of(const std::string& statistic) const {
  const bool usual = options_.batch_norm_momentum == TrainingOptions().batch_norm_momentum;
  const bool said = usual && saved_ != nullptr && saved_->momenta.contains(statistic);
  return said ? saved_->momenta.at(statistic) : options_.batch_norm_momentum;
}

void UpdateSteps::statistics(const StatisticsOf& s, const Verdict& verdict) {
  const std::pair<std::string, std::string> rows[] = {{s.mean_sum, s.running_mean},
                                                      {s.variance_sum, s.running_variance}};
  for (const auto& [sum, running] : rows) {
    Node& node =
        guarded(Op::kUpdateStatistics, running + "/update", {shared(sum), shared(s.batches), shared(running)}, verdict);
    node.layer = layer_of_sums();
    set_real(node, "momentum", momentum_of(running));
  }
}

void UpdateSteps::commit(const Commit& commit, const Verdict& verdict) {
  std::vector<ValueId> ids;
  for (const Value& v : commit.values) {
    if (!ids_.contains(v.name) && !source_.contains(v.name)) ids_.emplace(v.name, graph_.add(v));
    ids.push_back(shared(v.name));
  }
  for (Node node : commit.nodes) {
    for (ValueId& id : node.inputs)
      if (id != kNone) id = ids[size_t(id)];
    node.guard = verdict.apply;
    graph_.nodes.push_back(std::move(node));
  }
}

void UpdateSteps::finish(const Verdict& verdict) {
  guarded(Op::kCountStep, "count_step", {step_count()}, verdict);
  const ValueId counters = state("loss_scale_counters", ElementType::kUint32, {3}, Kept::kCounter);
  if (saved_ != nullptr && saved_->steps_with_scale > 0 && options_.loss_scale.kind == LossScale::kDynamic) {
    std::vector<uint8_t> good(3 * sizeof saved_->steps_with_scale, 0);
    std::memcpy(good.data(), &saved_->steps_with_scale, sizeof saved_->steps_with_scale);
    graph_.values[size_t(counters)].initial = std::make_shared<const std::vector<uint8_t>>(std::move(good));
  }
  Node node = make_step(Op::kAdjustLossScale, Node(), "adjust_loss_scale",
                        {verdict.amax, verdict.apply, shared(kLossScaleName), counters}, {});
  const LossScaler& rule = options_.loss_scale;
  set_integer(node, "system", int(rule.system));
  set_integer(node, "kind", int(rule.kind));
  set_real(node, "initial", rule.initial);
  set_integer(node, "period", int(rule.period));
  set_real(node, "factor", rule.factor);
  set_real(node, "min", rule.min);
  set_real(node, "max", rule.max);
  graph_.nodes.push_back(std::move(node));
  graph_.inputs.push_back({"learning_rate", learning_rate(), ""});
  for (const ValueId id : {verdict.apply, verdict.amax, verdict.report})
    graph_.outputs.push_back({graph_.values[size_t(id)].name, id, ""});
}

uint32_t resumed_steps(const Graph& graph, Optimizer kind) {
  const SourceTraining* saved = graph.training.get();
  return saved != nullptr && keeps(*saved, row_of(kind)) ? saved->steps : 0;
}

Graph update_program(const Differentiated& differentiated, const TrainingOptions& options, const Commit& commit) {
  Graph graph;
  graph.source = differentiated.graph.source;
  UpdateSteps steps(graph, differentiated.graph, options, differentiated.sums);
  const UpdateSteps::Verdict verdict = steps.verdict(steps.shared(kGradientsName));
  for (const GradientOf& g : differentiated.gradients) steps.optimize(g, steps.shared(g.gradient), verdict);
  for (const StatisticsOf& s : differentiated.statistics) steps.statistics(s, verdict);
  steps.commit(commit, verdict);
  steps.finish(verdict);
  return graph;
}

}  // namespace nacre::tools
