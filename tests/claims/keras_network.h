// Makes a Keras layer as a graph, in the converter's form before the plan, and converts numbers to its types.
#pragma once

#include <string>
#include <vector>

#include "tests/claims/keras_tables.h"
#include "tools/compile/compile.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Makes x -> dense (-> relu) -> y, with one layer named "dense".
Graph dense_network(const KerasLayer& layer, bool relu);

// Applies the options as the converter does, but leaves the plan to the executor.
void apply(const CompileOptions& options, Graph& graph);

// Returns the floats of any type; float32 is wide enough for all but float64.
std::vector<float> as_floats(ElementType type, const Bytes& bytes);
std::vector<double> as_reals(ElementType type, const Bytes& bytes);
Bytes in_type(ElementType type, const std::vector<float>& values);  // rounds each to the type

}  // namespace nacre::tools
