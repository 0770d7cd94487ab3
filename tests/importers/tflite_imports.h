// Helpers that the tests of import_tflite share: import with check(), look-ups in the graph, files with one operator.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/importers/tflite_builder.h"
#include "tools/base/error.h"
#include "tools/importers/importer.h"

namespace nacre::tools::tflite {

using Dims = std::vector<int64_t>;
using nacre::Op;

inline Graph imported(const std::vector<uint8_t>& file, const ImportOptions& options = {}) {
  Graph graph = import_tflite(file, "test.tflite", options);
  check(graph);
  return graph;
}

inline std::string refusal(const std::vector<uint8_t>& file, ExitCode code, const ImportOptions& options = {}) {
  try {
    import_tflite(file, "test.tflite", options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code, code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "the file was accepted";
  return "";
}

inline const Value& value(const Graph& graph, const std::string& name) {
  for (const Value& v : graph.values)
    if (v.name == name) return v;
  throw Error(kFailed, name, "no such value");
}

inline const Value& input(const Graph& graph, const Node& node, size_t i) {
  return graph.values[size_t(node.inputs[i])];
}
inline const Value& output(const Graph& graph, const Node& node) { return graph.values[size_t(node.outputs[0])]; }

// Builds a file with one operator without weights: x -> y.
template <class Options>
std::vector<uint8_t> unary(BuiltinOperator code, const std::vector<int32_t>& x_shape,
                           const std::vector<int32_t>& y_shape, Options make) {
  TfliteBuilder b;
  const int x = b.activation("x", x_shape), y = b.activation("y", y_shape);
  b.op(code, {x}, {y}, make(b.fbb()));
  return b.finish({x}, {y});
}
inline std::vector<uint8_t> unary(BuiltinOperator code, const std::vector<int32_t>& x_shape,
                                  const std::vector<int32_t>& y_shape) {
  TfliteBuilder b;
  const int x = b.activation("x", x_shape), y = b.activation("y", y_shape);
  b.op(code, {x}, {y});
  return b.finish({x}, {y});
}

// Builds a file with one operator whose second input is an int32 list.
inline std::vector<uint8_t> with_list(BuiltinOperator code, const std::vector<int32_t>& x_shape,
                                      const std::vector<int32_t>& y_shape, const std::vector<int32_t>& list_shape,
                                      const std::vector<int32_t>& list) {
  TfliteBuilder b;
  const int x = b.activation("x", x_shape), y = b.activation("y", y_shape), l = b.int32s("list", list_shape, list);
  b.op(code, {x, l}, {y});
  return b.finish({x}, {y});
}

// Add int32 tensors, and bool tensors that may be constants.
inline int whole(TfliteBuilder& b, const std::string& name, const std::vector<int32_t>& shape = {}) {
  return b.tensor({.name = name, .type = TensorType::INT32, .shape = shape, .data = {}, .codes = {}, .signature = {}});
}
inline int bools(TfliteBuilder& b, const std::string& name, const std::vector<int32_t>& shape = {},
                 const std::vector<uint8_t>& data = {}) {
  return b.tensor({.name = name, .type = TensorType::BOOL, .shape = shape, .data = data, .codes = {}, .signature = {}});
}

inline std::vector<Op> ops(const Graph& graph) {
  std::vector<Op> list;
  for (const Node& node : graph.nodes) list.push_back(node.op);
  return list;
}

}  // namespace nacre::tools::tflite
