// A layer of Keras's as a graph, as the converter has it before the plan, and numbers in its types.
#pragma once

#include <string>
#include <vector>

#include "tests/claims/keras_tables.h"
#include "tools/compile/compile.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// x -> dense (-> relu) -> y, one layer named "dense".
Graph dense_network(const KerasLayer& layer, bool relu);

// Applies the options as the converter does, but for the plan, which the executor makes.
void apply(const CompileOptions& options, Graph& graph);

// Floats of any type; float32 is wide enough for all but float64.
std::vector<float> as_floats(ElementType type, const Bytes& bytes);
std::vector<double> as_reals(ElementType type, const Bytes& bytes);
Bytes in_type(ElementType type, const std::vector<float>& values);  // each rounded to the type

}  // namespace nacre::tools
