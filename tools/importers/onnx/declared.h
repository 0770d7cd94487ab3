// Makes values whose types and sizes an ONNX file declares. Private to tools/importers/onnx.
//
//   inputs.cc   inputs of the graph
//   unknown.cc  values that stand for the outputs of refused nodes
#pragma once

#include "tools/importers/onnx/import.h"
#include "tools/importers/shared/open_shape.h"

namespace nacre::tools::onnx_import {

class DeclaredValues {
 public:
  explicit DeclaredValues(Import& import) : import_(import), graph_(import.graph()), options_(import.options()) {}

  void read_inputs(Scope& scope, const ::onnx::GraphProto& graph);
  bool has_symbolic_batch() const { return symbolic_batch_; }
  bool has_batch_first() const { return !rows_elsewhere_; }
  // Adds values that stand in for the outputs of a refused node. `known` says that the importer knows the operator.
  void leave_unknown(Scope& scope, const ::onnx::NodeProto& node, bool known);

 private:
  void read_input(Scope& scope, const ::onnx::ValueInfoProto& input);
  void read_open_axes(const ::onnx::GraphProto& graph);
  std::vector<int64_t> input_dims(const ::onnx::ValueInfoProto& input);
  OperandPtr stand_in(const ::onnx::ValueInfoProto& declared, bool guess);
  int64_t size_of(const ::onnx::TensorShapeProto::Dimension& dim) const;

  Import& import_;
  Graph& graph_;
  const ImportOptions& options_;
  std::map<std::string, int64_t> symbols_;  // sizes of the symbols (names of open axes) that stand for the batch
  std::vector<OpenShape> shapes_;           // shapes of the inputs, with the sizes that the user gave
  std::unordered_map<std::string, const ::onnx::ValueInfoProto*> declared_;  // types of inner values and outputs
  bool symbolic_batch_ = false;
  bool rows_elsewhere_ = false;  // the batch of some input is not its first axis
};

}  // namespace nacre::tools::onnx_import
