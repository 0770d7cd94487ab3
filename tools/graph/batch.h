// Which values carry the batch on axis 0.
#pragma once

#include "tools/graph/graph.h"

namespace nacre::tools {

// Sets Value::batched, from the inputs of the graph through its nodes. An input is batched if its axis 0 is
// graph.batch; an output of a node is, if row n of it depends on row n of the batched inputs and on nothing else of
// them. Where a node moves or mixes axis 0 nothing is batched: the network runs with its compiled batch only, and the
// log says why. `wanted` false: nothing is batched.
void mark_batched(Graph& graph, bool wanted);

// Marks again where mark_batched gave up. Importers mark the nodes of the file; simplify removes those that move the
// batch away and back: the transposes around a recurrence of batch-first data.
void mark_batched_again(Graph& graph);

// True if every batched input of `node` reaches its outputs with axis 0 in its place. `why` else says what happens to
// it.
bool keeps_batch(const Graph& graph, const Node& node, std::string& why);

}  // namespace nacre::tools
