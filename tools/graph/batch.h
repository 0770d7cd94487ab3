// This file says which values carry the batch on axis 0.
#pragma once

#include "tools/graph/graph.h"

namespace nacre::tools {

// Sets Value::batched, from the inputs and streams of the graph through its nodes. An input or stream is batched if its
// axis 0 has graph.batch rows. An output of a node is batched if its row n depends on row n of the batched inputs and
// on no other row of them. If a node moves or mixes axis 0 of a batched input, no value is batched. The network then
// runs with its compiled batch only, and graph.log says why. With `wanted` false no value is batched.
void mark_batched(Graph& graph, bool wanted);

// Calls mark_batched again if it marked no value because of a node. Importers call it first. simplify then removes
// nodes that move the batch away and back, such as the transposes around a recurrence of batch-first data.
void mark_batched_again(Graph& graph);

// Returns whether row n on axis 0 of the outputs of `node` depends on row n of its batched inputs only. If not, `why`
// says what the node does with the batch.
bool keeps_batch(const Graph& graph, const Node& node, std::string& why);

}  // namespace nacre::tools
