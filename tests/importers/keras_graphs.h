// Helpers of the Keras importer's tests: one imports an .h5 file with variables of the layer "d", another runs a graph.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/graph/run_graph.h"
#include "tests/importers/keras_builder.h"
#include "tools/importers/keras/files.h"

namespace nacre::tools {

using Floats = std::vector<float>;

inline Graph file_graph(const std::string& config, const std::vector<KerasVariable>& variables,
                        const ImportOptions& options = {}) {
  Graph graph = import_keras_hdf5(legacy_keras(config, {{"d", variables}}), "m.h5", options);
  check(graph);
  return graph;
}

template <class T>
Floats outputs_of(const Graph& graph, const std::vector<T>& x) {
  const Graph ran = run_graph(graph, {bytes_of(x)});
  return reals(ran.values[size_t(ran.outputs[0].value)]);
}

}  // namespace nacre::tools
