// Which output of a network the loss is of, what reaches it, and what a training model says of its rows.
#pragma once

#include <string>
#include <vector>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

inline constexpr const char* kLossOutputKey =
    "loss_output";  // metadata of a training model: the name that was asked for

// The value of the output of this name, of the first for "". Throws where there is none, with the names that there are.
ValueId loss_output(const Graph& graph, const std::string& name);

// The node that computes the value; null for inputs and constants.
const Node* writer_of(const Graph& graph, ValueId id);

// "scores, box"
std::string output_names(const Graph& graph);

// Throws where a cross-entropy over classes would sum over another axis than the network's classes: behind a transpose
// that brings the features of its last layer, or a softmax, to axis 1. Keras counts classes along the last axis.
void require_classes_last(const Graph& graph, ValueId y, Loss loss);

// Tells a training model's reader, by the metadata "rows" (tools/graph/row_places.h) and kLossOutputKey, what the flags
// of the tensors do not say.
void tell_rows(Graph& graph, const LossOptions& loss);

}  // namespace nacre::tools
