// Makes an inference model that has what training learned.
//
//   inference_graph   makes it from a training model alone: the program `infer`, in which state and derived tensors
//                     become constants. The model gives the same bits as Trainer::infer().
//   with_parameters   puts the learned numbers into the graph of the network's file. A caller can then fold batch
//                     norms and compile it under any policy.
#pragma once

#include <span>

#include "engine/run/program.h"
#include "tools/graph/graph.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

// Returns a graph that write_model can write without further passes. `infer` must be bound. Its state and derived
// tensors must hold their final numbers.
Graph inference_graph(const LoadedModel& model, const Program& infer);

// Sets the constants of `simplified` that have the name of a state tensor of `model` to the numbers of `state`. A
// constant trained in codes gets the codes of its master copy; one trained by channels gets these channels. Returns how
// many constants it set. Throws if a shape differs. `simplified` is a graph as given to compile_training.
int with_parameters(Graph& simplified, const LoadedModel& model, std::span<const std::byte> state);

}  // namespace nacre::tools
