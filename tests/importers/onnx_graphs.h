// Helpers of the ONNX importer's tests: they import, convert and run a network, and look up values and nodes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/graph/run_graph.h"
#include "tests/importers/onnx_builder.h"
#include "tests/sanitized.h"
#include "tools/base/error.h"
#include "tools/importers/importer.h"
#include "tools/passes/passes.h"

namespace nacre::tools {

using Dims = std::vector<int64_t>;
using ::onnx::TensorProto;

inline Graph imported(const OnnxBuilder& builder, const ImportOptions& options = {}) {
  Graph graph = import_onnx(builder.finish(), "test.onnx", options);
  check(graph);
  return graph;
}

inline std::vector<Op> ops(const Graph& graph) {
  std::vector<Op> result;
  for (const Node& node : graph.nodes) result.push_back(node.op);
  return result;
}

inline const Value& value(const Graph& graph, const std::string& name) {
  for (const Value& v : graph.values)
    if (v.name == name) return v;
  throw Error(kFailed, name, "no such value");
}

inline const Value& output(const Graph& graph, size_t i = 0) { return graph.values[size_t(graph.outputs[i].value)]; }

inline const Node& first(const Graph& graph, Op op) {
  const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return n.op == op; });
  if (found == graph.nodes.end()) throw Error(kFailed, "graph", "has no such op");
  return *found;
}

inline const Value& operand(const Graph& graph, const Node& node, size_t i) {
  return graph.values[size_t(node.inputs[i])];
}

inline std::vector<float> computed(const OnnxBuilder& builder, const std::vector<float>& x) {
  const Graph graph = imported(builder);
  const Graph run = run_graph(graph, {bytes_of(x)});
  return reals(run.values[size_t(graph.outputs[0].value)]);
}

// Imports the file and runs simplify, apply_policy and fuse. Every value then has the type that it is stored in.
inline Graph converted(const OnnxBuilder& builder) {
  Graph graph = imported(builder);
  simplify(graph);
  apply_policy(graph);
  fuse(graph);
  check(graph);
  return graph;
}

// Runs the converted graph and returns its output.
template <class T>
Value run_converted(const OnnxBuilder& builder, const std::vector<T>& x) {
  const Graph graph = converted(builder);
  return run_graph(graph, {bytes_of(x)}).values[size_t(graph.outputs[0].value)];
}

inline void use_microsoft_domain(OnnxBuilder& b) {
  ::onnx::OperatorSetIdProto& import = *b.model().add_opset_import();
  import.set_domain("com.microsoft");
  import.set_version(1);
}

// Returns the sentence with which the importer refuses the file, or "" if it imports the file.
inline std::string refusal(const OnnxBuilder& builder) {
  try {
    imported(builder);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Flips bits of every byte. Each file must be imported, or refused with a reason. A sanitized build changes every
// third byte only; fuzz_onnx covers the others.
inline void flip_every_byte(const OnnxBuilder& builder, const ImportOptions& options = {}) {
  const std::vector<uint8_t> file = builder.finish();
  for (size_t i = 0; i < file.size(); i += nacre::test::sanitized() ? 3 : 1)
    for (const int bit : {0, 1, 3, 6, 7}) {
      std::vector<uint8_t> changed = file;
      changed[i] = uint8_t(changed[i] ^ (1 << bit));
      try {
        check(import_onnx(changed, "test.onnx", options));
      } catch (const Error& error) {
        EXPECT_NE(error.code, kFailed) << "byte " << i << ", bit " << bit << ": " << error.what();
      }
    }
}

}  // namespace nacre::tools
