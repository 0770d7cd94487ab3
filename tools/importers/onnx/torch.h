// Reads facts that PyTorch's exporter (torch.onnx.export with dynamo=True) states about constants of a file that is to
// be trained.
//
// That exporter makes initializers of parameters, buffers and literals alike, and stores equal tensors once. The
// file's metadata tell parameters from the rest:
//
//   graph    pkg.torch.export.ExportedProgram.graph_signature   p_fc_weight: PARAMETER target='fc.weight'
//   node     pkg.torch.onnx.fx_node      %linear : [..](args = (%x, %p_fc_weight, %p_fc_bias), kwargs = {})
//   value    pkg.onnxscript.optimizer.folded_from               the names that a folded constant is computed from
//
// An operand is the parameter that its node's call names, whichever initializer holds its numbers.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <onnx/onnx_pb.h>

namespace nacre::tools::onnx_import {

struct TorchConstants {
  std::set<std::string> fixed;     // initializers that no training changes: literals and buffers
  std::vector<std::string> notes;  // notes for the user, on parameters that the file lacks or merges
  bool facts = false;              // the file has the exporter's metadata
  bool wrote = false;              // PyTorch wrote the file: its literals are Constant nodes, its parameters are not
};

// Gives each parameter of the module an initializer of its own in `model`. Does nothing if the file has no metadata.
// Throws if an initializer stands for several parameters and the file does not say which. `name` is the file's name.
TorchConstants separate_torch_constants(::onnx::ModelProto& model, const std::string& name);

}  // namespace nacre::tools::onnx_import
