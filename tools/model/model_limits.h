// Limits of a model file, as the verifier counts them. A network beyond a limit is refused by place, fact and remedy
// as soon as that is known. Names are known after the import. Steps and operands are counted before the passes that
// take time in steps squared. Tensors are known when they are counted.
#pragma once

#include "tools/graph/graph.h"

namespace nacre::tools {

void require_bindings(const Graph& graph, size_t inputs, size_t outputs);  // each is a tensor
void require_names(const Graph& graph);  // each input, output, layer, operator and value: at most 4,096 bytes
// for a value that is made when the file is written
void require_value_name(const Graph& graph, const std::string& name);
// Takes a simplified network. Later passes fuse operators into steps, but never four into one.
void require_operators(const Graph& graph);
void require_steps(const Graph& graph);                    // 16,384, each of at most 24 operands; 65,536 layers
void require_tensors(const Graph& graph, size_t tensors);  // 16,384, constants and scales among them

}  // namespace nacre::tools
