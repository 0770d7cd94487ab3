// The program `update`: decides whether a step counts, and commits it. Steps, in order: verdict, optimizers, running
// statistics, what other passes add (scales, ranges), step count; all guarded by the verdict. Last, unguarded, the loss
// scale.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/differentiate/differentiate.h"

namespace nacre::tools {

// Steps that the source's optimizer has made, where this one goes on with what it left; else 0.
uint32_t resumed_steps(const Graph& graph, Optimizer kind);

Graph update_program(const Differentiated& differentiated, const TrainingOptions& options, const Commit& commit = {});

// Writes the steps of an update into a graph: for update_program, and for differentiate where every parameter is
// updated at once.
class UpdateSteps {
 public:
  struct Verdict {
    ValueId apply = kNone, amax = kNone, report = kNone;
  };

  // `shared`: the graph that values of a name are copied from where `graph` has none; may be `graph` itself.
  UpdateSteps(Graph& graph, const Graph& shared, const TrainingOptions& options, ElementType sums);

  // Judges `gradients`: a sum of the step block, or one gradient. The first verdict's outputs are named apply, amax
  // and report.
  Verdict verdict(ValueId gradients, const std::string& suffix = "");
  void optimize(const GradientOf& of, ValueId gradient, const Verdict& verdict);
  void statistics(const StatisticsOf& of, const Verdict& verdict);
  void commit(const Commit& commit, const Verdict& verdict);
  // The last steps, and the outputs and the input learning_rate of the program.
  void finish(const Verdict& verdict);

  ValueId shared(const std::string& name);  // the value of this name

 private:
  ValueId arena(const std::string& name, ElementType type, int64_t elements);
  ValueId state(const std::string& name, ElementType type, std::vector<int64_t> dims, Kept kept);
  ValueId moment(const std::string& parameter, const std::string& name, const Value& like);
  ValueId step_count();
  ValueId learning_rate();
  ValueId count();
  float momentum_of(const std::string& statistic) const;
  Node& guarded(Op op, const std::string& name, std::vector<ValueId> inputs, const Verdict& verdict);
  int layer_of_sums() const;
  ElementType moment_type(ElementType parameter) const;

  Graph& graph_;
  const TrainingOptions& options_;
  std::shared_ptr<const SourceTraining> saved_;  // what the source's optimizer left
  bool resumes_ = false;                         // whether this one goes on with it
  float losses_of_sample_ = 1;                   // that the loss takes the mean of
  ElementType sums_;
  std::map<std::string, Value> source_;       // persistent values of `shared`
  std::map<std::string, std::string> roots_;  // of aliases among them
  std::map<std::string, ValueId> ids_;
  ValueId rate_ = kNone;
};

}  // namespace nacre::tools
