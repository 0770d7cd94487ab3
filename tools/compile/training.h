// A network becomes a training model: the programs infer, gradients, update and derive over one state.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tools/compile/compile.h"
#include "tools/differentiate/differentiate.h"
#include "tools/differentiate/options.h"
#include "tools/differentiate/parameters.h"
#include "tools/differentiate/rematerialize.h"
#include "tools/model/loaded_model.h"
#include "tools/policies/policy_loss_scale.h"

namespace nacre::tools {

// For one target.
struct TrainingPrograms {
  Target target;
  Graph infer, gradients, update, derive;  // after the last pass; derive without nodes: the model has none
  Rematerialized rematerialized;           // of gradients
};

struct TrainingModel : TrainingPrograms {  // of compiling.target
  std::vector<TrainingPrograms> others;    // of each other target
  // untrained_constants(): also the model's metadata "not_trained", a line for each
  std::vector<std::string> not_trained;
  FrozenLayers frozen;  // by the source; also the metadata "frozen"
  std::vector<uint8_t> bytes;
};

// `simplified`: load_network() with batch norms not folded. `compiling.policies` say in which types layers are trained.
// `others`: targets for which the file has programs beside those for compiling.target, over the same state.
TrainingModel compile_training(Graph simplified, const TrainingOptions& training, const CompileOptions& compiling,
                               const WriteOptions& writing = {}, std::span<const Target> others = {});
// In two steps, for those who add to the metadata of `infer`. `names`: it says what is not trained, and what is frozen.
TrainingModel compile_training_graphs(Graph simplified, const TrainingOptions& training,
                                      const CompileOptions& compiling, bool names = true,
                                      std::span<const Target> others = {});
void write_training(TrainingModel& made, const WriteOptions& writing = {});

// Refuses a model that needs more than training.arena_limit, where there is one: compile_training gives the least that
// it finds.
void require_arena_limit(const TrainingModel& made, const TrainingOptions& training);

// Refuses options about batch norms where none trains.
void require_batch_norm(const TrainingModel& made, const TrainingOptions& training);

// Returns the constants that a training model does not train, from its metadata.
std::vector<std::string> not_trained_of(const LoadedModel& model);

// And of the layers that its source freezes.
FrozenLayers frozen_of(const LoadedModel& model);
Json frozen_json(const FrozenLayers& frozen);

// Whether training draws random numbers: for dropout, for what is initialised.
bool draws(const TrainingModel& made, const TrainingOptions& training);

}  // namespace nacre::tools
