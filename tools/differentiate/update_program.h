// The program `update` decides whether a training step counts, and updates the state. Its steps are, in order: verdict,
// optimizers, running statistics, quantizers' steps (scales, ranges), step count. The verdict guards these steps. The
// loss scale comes last, unguarded.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/differentiate/differentiate.h"

namespace nacre::tools {

// Returns the number of steps that the source's optimizer made, if this one continues from its state; else 0.
uint32_t resumed_steps(const Graph& graph, Optimizer kind);

Graph update_program(const Differentiated& differentiated, const TrainingOptions& options, const Commit& commit = {});

// Writes the steps of an update into a graph. update_program uses it. differentiate uses it for `--update immediate`,
// which updates each parameter as soon as its gradient is complete.
class UpdateSteps {
 public:
  struct Verdict {
    ValueId apply = kNone, amax = kNone, report = kNone;
  };

  // Values are copied by name from the graph `shared` if `graph` lacks them. `shared` may be `graph` itself.
  UpdateSteps(Graph& graph, const Graph& shared, const TrainingOptions& options, ElementType sums);

  // Adds the step that judges `gradients` (the sums of all gradients, one gradient, or the loss). Its outputs are named
  // apply, amax and report, each followed by `suffix`.
  Verdict verdict(ValueId gradients, const std::string& suffix = "");
  void optimize(const GradientOf& of, ValueId gradient, const Verdict& verdict);
  void statistics(const StatisticsOf& of, const Verdict& verdict);
  void commit(const Commit& commit, const Verdict& verdict);
  // Adds the last steps, and the program's outputs and its input learning_rate.
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
  std::shared_ptr<const SourceTraining> saved_;  // the source's settings and optimizer state, or null
  bool resumes_ = false;                         // whether this optimizer continues from it
  float losses_of_sample_ = 1;                   // losses in one sample, whose mean the loss step takes
  ElementType sums_;
  std::map<std::string, Value> source_;       // persistent values of `shared`
  std::map<std::string, std::string> roots_;  // by alias among them: its root
  std::map<std::string, ValueId> ids_;
  ValueId rate_ = kNone;
};

}  // namespace nacre::tools
