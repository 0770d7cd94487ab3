// Reads the file of an ONNX network and imports its nodes one by one. Private to tools/importers/onnx.
//
//   file.cc     opsets, functions, outputs, nodes
//   control.cc  If, Loop and Scan whose conditions and counts are known at import
#pragma once

#include "tools/importers/onnx/declared.h"

namespace nacre::tools::onnx_import {

// Reads the file into `model`. Refuses bytes that are no ModelProto, and a model without a graph.
void parse_model(std::span<const uint8_t> bytes, const std::string& name, ::onnx::ModelProto& model);

class FileWalk {
 public:
  FileWalk(const std::string& name, const ImportOptions& options, const TorchConstants& torch, SplitParameters split,
           const Budget& budget);

  Graph run(const ::onnx::ModelProto& model);
  SplitParameters split_parameters() { return import_.parameters().split(); }

  const NodeList& live() const { return live_; }  // the nodes of the file's graph that outputs depend on
  DeclaredValues& declared() { return declared_; }
  void read_node(Scope& scope, const ::onnx::NodeProto& node);
  void run_body(Scope& scope, Scope& inner, const Source& call, const ::onnx::FunctionProto& function,
                const std::vector<OperandPtr>& inputs);
  // Counts the nodes of a function or inner graph each time it is imported, and refuses more than 262,144 in all.
  // Functions that call each other multiply fast.
  void spend_nodes(int64_t count);

 private:
  void read_opsets(Scope& scope, const google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto>& imports);
  void read_functions(const ::onnx::ModelProto& model);
  bool is_known(const ::onnx::NodeProto& node) const;
  void read_supported(Scope& scope, const ::onnx::NodeProto& node);
  void call_function(Scope& scope, const ::onnx::NodeProto& node, const ::onnx::FunctionProto& function);
  void write_output(Scope& scope, const ::onnx::ValueInfoProto& output);

  Import import_;
  Graph& graph_;
  CurrentNode& current_;
  ImportLog& log_;
  const ImportOptions& options_;
  DeclaredValues declared_;
  std::map<std::pair<std::string, std::string>, const ::onnx::FunctionProto*> functions_;
  NodeList live_;
  int64_t nodes_ = 0;  // nodes of functions and of inner graphs imported so far
};

// control.cc: imports the node if it is an If, Loop or Scan. Returns whether it is one.
bool run_control_flow(Import& import, Scope& scope, const Source& source);

}  // namespace nacre::tools::onnx_import
