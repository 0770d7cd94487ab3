// Finds the output of a network that the loss reads, and tells a training model's readers where its rows lie.
#pragma once

#include <string>
#include <vector>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

inline constexpr const char* kLossOutputKey =
    "loss_output";  // metadata of a training model: the name that was asked for

// Returns the value of the output of this name, or of the first output for "". If there is none, throws and lists the
// names.
ValueId loss_output(const Graph& graph, const std::string& name);

// Returns the node that computes the value. Null if no node does.
const Node* writer_of(const Graph& graph, ValueId id);

// Returns the names as in "scores, box".
std::string output_names(const Graph& graph);

// Throws if the loss is a cross-entropy over classes, which takes the last axis, but the classes of `y` lie on axis 1.
// A softmax over axis 1, or a transpose that moves the last layer's features there, shows that. A file with training
// settings is not checked.
void require_classes_last(const Graph& graph, ValueId y, Loss loss);

// Adds the metadata "rows" (tools/graph/row_places.h) and kLossOutputKey, for facts about rows that a training model's
// tensor flags do not say.
void tell_rows(Graph& graph, const LossOptions& loss);

}  // namespace nacre::tools
