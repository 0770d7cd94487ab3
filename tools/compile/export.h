// A new inference model with what training learned.
//
//   inference_graph   from a training model alone: its program `infer` as it is, with state and what is derived from it
//                     as constants. Computes to the bit what Trainer::infer() does.
//   with_parameters   into the network's own graph, from which any policy can be compiled anew: batch norms folded,
//                     int8, ...
#pragma once

#include <span>

#include "engine/run/program.h"
#include "tools/graph/graph.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

// After the last pass: ready for write_model. `infer`: bound, its state and derived tensors as they shall be.
Graph inference_graph(const LoadedModel& model, const Program& infer);

// The constants of `simplified` (load_network, as given to compile_training) whose names are state tensors of `model`
// get the numbers of `state`, those with masters their codes. Returns how many. Throws if one has another size.
int with_parameters(Graph& simplified, const LoadedModel& model, std::span<const std::byte> state);

}  // namespace nacre::tools
