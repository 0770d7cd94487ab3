// Imports the optimizers of the domain ai.onnx.preview.training. They update any number of tensors, with one node for
// each tensor. R is the rate, T the count of updates, X the tensors, G their gradients, V and H their states.
//
//   inputs   R, T, X_1 .. X_n, G_1 .. G_n, then each state V_1 .. V_n (H_1 .. H_n)
//   outputs  X_1' .. X_n', then each state
#include "tools/importers/onnx/import.h"

namespace nacre::tools::onnx_import {
namespace {

// Returns an input in the source's order of axes, because states have no layout.
ValueId operand(Import& import, const Source& source, int input) {
  need_float32(source, *source.operand(input));
  return import.plain(source.operand(input));
}

void optimizer(Import& import, const Source& source, const Node& like, int states) {
  const int given = int(source.inputs.size()) - 2, tensors = given / (2 + states);
  if (tensors < 1 || given % (2 + states) != 0)
    source.malformed("has " + std::to_string(source.inputs.size()) + " inputs: a rate, a count, then " +
                     std::to_string(2 + states) + " tensors for each that it updates");
  if (source.proto.output_size() > tensors * (1 + states)) source.malformed("has more outputs than tensors and states");
  if (source.operand(1)->type != ElementType::kInt64) source.malformed("counts updates in another type than int64");
  for (int i = 0; i < tensors; ++i) {
    Node node = like;
    if (tensors > 1) node.name += "/" + std::to_string(i + 1);
    node.inputs = {operand(import, source, 0), import.plain(source.operand(1))};
    for (int k = 0; k < 2 + states; ++k) node.inputs.push_back(operand(import, source, 2 + i + k * tensors));
    for (int k = 0; k < 1 + states; ++k) {
      const int output = i + k * tensors;
      Value value;
      value.name = source.wants(output) ? import.output_name(output) : node.name + "/state_" + std::to_string(k);
      node.outputs.push_back(import.graph().add(std::move(value)));
    }
    infer_shapes(import.graph(), node);
    for (int k = 0; k < 1 + states; ++k) import.give_plain(i + k * tensors, node.outputs[size_t(k)]);
    import.graph().nodes.push_back(std::move(node));
  }
}

// Set the attribute `name` of the node. `required` refuses a source without it; `optional` has a default.
void required(const Source& source, Node& node, const char* name) {
  if (!source.has(name)) source.malformed(std::string("has no attribute ") + name);
  set_real(node, name, source.real(name, 0));
}
void optional(const Source& source, Node& node, const char* name, float otherwise) {
  set_real(node, name, source.real(name, otherwise));
}

void momentum(Import& import, const Source& source) {
  Node node = import.step(Op::kOnnxMomentum);
  const std::string mode = source.text("mode", "");
  if (mode != "standard" && mode != "nesterov") source.malformed("has a mode that is neither standard nor nesterov");
  for (const char* name : {"norm_coefficient", "alpha", "beta"}) required(source, node, name);
  set_integer(node, "nesterov", mode == "nesterov" ? 1 : 0);
  optimizer(import, source, node, 1);
}

void adam(Import& import, const Source& source) {
  Node node = import.step(Op::kOnnxAdam);
  optional(source, node, "norm_coefficient", 0);
  optional(source, node, "alpha", 0.9f);
  optional(source, node, "beta", 0.999f);
  optional(source, node, "epsilon", 0);
  optional(source, node, "norm_coefficient_post", 0);
  optimizer(import, source, node, 2);
}

void adagrad(Import& import, const Source& source) {
  Node node = import.step(Op::kOnnxAdagrad);
  optional(source, node, "norm_coefficient", 0);
  optional(source, node, "decay_factor", 0);
  optional(source, node, "epsilon", 0);
  optimizer(import, source, node, 1);
}

constexpr OperatorImporter kTrainingImporters[] = {
    {"Momentum", momentum, kPreviewTraining}, {"Adam", adam, kPreviewTraining}, {"Adagrad", adagrad, kPreviewTraining}};

}  // namespace

std::span<const OperatorImporter> training_importers() { return kTrainingImporters; }

}  // namespace nacre::tools::onnx_import
