// Checks a network against the limits of a model file, as the engine's verifier counts them. Each function throws Error
// for a network beyond its limit. Callers check early: names after the import, steps and operands before passes whose
// time grows with the square of the steps.
#pragma once

#include "tools/graph/graph.h"

namespace nacre::tools {

void require_bindings(const Graph& graph, size_t inputs, size_t outputs);  // each is a tensor
void require_names(const Graph& graph);  // each input, output, layer, operator and value: at most 4,096 bytes
// for a value that is made when the file is written
void require_value_name(const Graph& graph, const std::string& name);
// Refuses a simplified network with more than four times the steps of a model: later passes do not fuse so many.
void require_operators(const Graph& graph);
void require_steps(const Graph& graph);                    // 16,384, each of at most 24 operands; 65,536 layers
void require_tensors(const Graph& graph, size_t tensors);  // 16,384, constants and scales among them

}  // namespace nacre::tools
