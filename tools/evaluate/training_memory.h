// Computes the bytes of a training model by purpose, as the engine's measure counts them.
#pragma once

#include "tools/model/loaded_model.h"
#include "tools/model/machines.h"

namespace nacre::tools {

struct TrainingMemory {
  uint64_t weights = 0;     // constants in the file: frozen parameters, and initial values of trained ones
  uint64_t parameters = 0;  // trained, in state; for int8/full with --train-share the codes too
  uint64_t moments = 0;     // of the optimizer, in state
  uint64_t statistics = 0;  // the rest of state: running statistics, scales, histories, counters, gaps
  uint64_t gradients = 0;   // in the step block
  uint64_t sums = 0;        // the rest of the step block: loss, counts, statistics, amaxes
  uint64_t derived = 0;     // casts of parameters
  uint64_t stream = 0;
  uint64_t arena = 0;  // the largest of the programs
  // of the arena: values that the backward pass reads from the forward pass
  uint64_t activations = 0;
  uint64_t bound = 0;                            // of the arena: no memory plan of these steps is smaller
  uint64_t scratch = 0, calls = 0, objects = 0;  // objects: Model, Trainer

  uint64_t state() const { return parameters + moments + statistics; }
  uint64_t total() const {  // RAM: all but the weights
    return state() + gradients + sums + derived + stream + arena + scratch + calls + objects;
  }
};

bool trains(const LoadedModel& model);  // it has a program `update`
TrainingMemory training_memory(const LoadedModel& model, const TargetMachine& machine);

}  // namespace nacre::tools
