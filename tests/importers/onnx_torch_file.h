// Builds ONNX files as PyTorch's exporter writes them, with the metadata of its program.
#pragma once

#include <string>
#include <vector>

#include "tests/importers/onnx_graphs.h"
#include "tools/importers/onnx/metadata.h"

namespace nacre::tools {

namespace torch = onnx_import;
inline const ImportOptions kTorchTraining = {.train = true};
inline constexpr const char* kSignatureKey = "pkg.torch.export.ExportedProgram.graph_signature";

template <class Message>
void put_metadata(Message& message, int field, const std::string& key, const std::string& value) {
  ::onnx::StringStringEntryProto entry;
  entry.set_key(key);
  entry.set_value(value);
  if constexpr (requires { message.mutable_metadata_props(); }) *message.add_metadata_props() = entry;
  else message.mutable_unknown_fields()->AddLengthDelimited(field, entry.SerializeAsString());
}

template <class Message>
void clear_metadata(Message& message) {
  if constexpr (requires { message.mutable_metadata_props(); }) message.clear_metadata_props();
  else message.mutable_unknown_fields()->Clear();
}

// A file of PyTorch's exporter. `signature` lists its parameters, buffers and so on, one per line.
class TorchFile : public OnnxBuilder {
 public:
  explicit TorchFile(const std::string& signature) {
    model().set_producer_name("pytorch");
    put_metadata(*model().mutable_graph(), torch::kGraphMetadata, kSignatureKey, signature);
    input("x", {1, 3});
  }

  // Adds a node with the metadata of a call of torch.ops.aten.target: `%result : .. (args = (arguments), kwargs =
  // {})`.
  OnnxNode call(const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
                const std::string& arguments, const std::string& result = "", const std::string& rule = "",
                const std::string& target = "any") {
    const OnnxNode made = node(op, inputs, {output});
    ::onnx::NodeProto& proto = *model().mutable_graph()->mutable_node(model().graph().node_size() - 1);
    proto.set_name("node_" + output);
    const std::string call = "%" + (result.empty() ? output : result) +
                             " : [num_users=1] = call_function[target=torch.ops.aten." + target + ".default](args = (" +
                             arguments + "), kwargs = {})";
    put_metadata(proto, torch::kNodeMetadata, "pkg.torch.onnx.fx_node", call);
    if (!rule.empty()) put_metadata(proto, torch::kNodeMetadata, "pkg.onnxscript.rewriter.rule_name", rule);
    return made;
  }
  void folded(const std::string& name, const std::string& from) {
    ::onnx::ValueInfoProto& value = *model().mutable_graph()->add_value_info();
    value.set_name(name);
    put_metadata(value, torch::kValueMetadata, "pkg.onnxscript.optimizer.folded_from", from);
  }
};

inline Graph to_train(const OnnxBuilder& b) {
  Graph graph = imported(b, kTorchTraining);
  simplify(graph, kSimplifyToTrain);
  return graph;
}

inline std::string refusal_to_train(const OnnxBuilder& b) {
  try {
    imported(b, kTorchTraining);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace nacre::tools
