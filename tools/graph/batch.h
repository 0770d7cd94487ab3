// Which values carry the batch on axis 0.
#pragma once

#include "tools/graph/graph.h"

namespace nacre::tools {

// Sets Value::batched, from the inputs and streams of the graph through its nodes. An input or stream is batched if its
// axis 0 has graph.batch rows. An output of a node is batched if its row n depends on row n of the batched inputs and
// on no other row of them. If a node moves or mixes axis 0, no value is batched. The network then runs with its
// compiled batch only, and graph.log says why. With `wanted` false no value is batched.
void mark_batched(Graph& graph, bool wanted);

// Marks again where mark_batched gave up. Importers mark the nodes of the file; simplify removes those that move the
// batch away and back: the transposes around a recurrence of batch-first data.
void mark_batched_again(Graph& graph);

// True if every batched input of `node` reaches its outputs with axis 0 in its place. `why` else says what happens to
// it.
bool keeps_batch(const Graph& graph, const Node& node, std::string& why);

}  // namespace nacre::tools
