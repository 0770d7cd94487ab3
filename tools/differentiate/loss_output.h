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

// Returns the node that computes the value. null for inputs and constants.
const Node* writer_of(const Graph& graph, ValueId id);

// Returns the names as in "scores, box".
std::string output_names(const Graph& graph);

// Throws if a cross-entropy over classes would sum over another axis than the classes'. This happens behind a
// transpose that moves the features of the last layer, or a softmax, to axis 1. Keras counts classes along the last
// axis.
void require_classes_last(const Graph& graph, ValueId y, Loss loss);

// Adds the metadata "rows" (tools/graph/row_places.h) and kLossOutputKey, for facts about rows that a training model's
// tensor flags do not say.
void tell_rows(Graph& graph, const LossOptions& loss);

}  // namespace nacre::tools
