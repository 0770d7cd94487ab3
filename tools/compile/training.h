// Compiles a network to a training model of up to four programs (infer, gradients, update, derive) that share state.
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

// The programs of a training model for one target.
struct TrainingPrograms {
  Target target;
  Graph infer, gradients, update, derive;  // after the last pass; the model lacks those without nodes
  Rematerialized rematerialized;           // of gradients, or of update under TrainingOptions::immediate
};

struct TrainingModel : TrainingPrograms {  // the programs for compiling.target
  std::vector<TrainingPrograms> others;    // the programs for each other target
  // From untrained_constants(). They are also the lines of the model's metadata "not_trained".
  std::vector<std::string> not_trained;
  FrozenLayers frozen;  // layers frozen by the source; also the metadata "frozen"
  std::vector<uint8_t> bytes;
};

// Compiles a training model. `simplified` comes from load_network() with batch norms not folded. `compiling.policies`
// say in which types layers are trained. The file also has programs for each target of `others`, over the same state.
TrainingModel compile_training(Graph simplified, const TrainingOptions& training, const CompileOptions& compiling,
                               const WriteOptions& writing = {}, std::span<const Target> others = {});
// Compile in two steps, for callers that add to the metadata of `infer`. With `names` the metadata says which
// constants are not trained, and which layers are frozen.
TrainingModel compile_training_graphs(Graph simplified, const TrainingOptions& training,
                                      const CompileOptions& compiling, bool names = true,
                                      std::span<const Target> others = {});
void write_training(TrainingModel& made, const WriteOptions& writing = {});

// Throws Error if a program needs more arena than training.arena_limit, unless that is 0. compile_training does not
// check the limit.
void require_arena_limit(const TrainingModel& made, const TrainingOptions& training);

// Refuses options about running statistics if no batch norm changes its own, because there is none or all are frozen.
void require_batch_norm(const TrainingModel& made, const TrainingOptions& training);

// Returns the constants that a training model does not train, from its metadata.
std::vector<std::string> not_trained_of(const LoadedModel& model);

// Returns the layers that the source freezes, from the model's metadata.
FrozenLayers frozen_of(const LoadedModel& model);
Json frozen_json(const FrozenLayers& frozen);

// Returns whether training draws random numbers, for dropout or for initial values of adapters.
bool draws(const TrainingModel& made, const TrainingOptions& training);

}  // namespace nacre::tools
