// Makes an inference model that has what training learned.
//
//   inference_graph   makes it from a training model alone. It is the program `infer`, in which state and derived
//                     tensors are constants. Computes to the bit what Trainer::infer() does.
//   with_parameters   puts the numbers into the network's own graph, from which any policy can be compiled anew:
//                     batch norms folded, int8, ...
#pragma once

#include <span>

#include "engine/run/program.h"
#include "tools/graph/graph.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

// Returns a graph as after the last pass, ready for write_model. `infer` must be bound. Its state and derived tensors
// must hold their final numbers.
Graph inference_graph(const LoadedModel& model, const Program& infer);

// Sets the constants of `simplified` (load_network, as given to compile_training) that have the name of a state tensor
// of `model` to the numbers of `state`. A constant with a master gets its codes. Returns how many constants it set.
// Throws if a shape differs.
int with_parameters(Graph& simplified, const LoadedModel& model, std::span<const std::byte> state);

}  // namespace nacre::tools
