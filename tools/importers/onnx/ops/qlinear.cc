// Imports operators on codes of ONNX and of ONNX Runtime (QOperator files). Each becomes its real-valued operator
// between DequantizeLinear and QuantizeLinear:
//
//   y = Q(f(DQ(x), DQ(w), s_x s_w b))      b is int32, in units of the accumulator
//
// See onnx/defs/quantization, and onnxruntime docs/ContribOperators.md.
#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/import.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

// Adds a DequantizeLinear of the inputs {codes, scale, zero point} from index `first` on. Returns its result's name.
std::string dequantized(Body& body, const Source& source, int first, int64_t axis = 0) {
  std::vector<std::string> inputs = {body.take(source.operand(first)), body.take(source.operand(first + 1))};
  if (source.given(first + 2)) inputs.push_back(body.take(source.operand(first + 2)));
  const std::string real = body.fresh(source.operand(first)->name);
  set_attribute(body.node("DequantizeLinear", inputs, real), "axis", axis);
  return real;
}

// Adds nodes that make the bias (input `bias`, int32) real. Its scale is the product of the scales of x and w (inputs
// `x_scale` and `w_scale`). Returns the name of the result.
std::string real_bias(Body& body, const Source& source, int bias, int x_scale, int w_scale) {
  const std::string name = source.operand(bias)->name, scale = body.fresh(name + "/scale"), real = body.fresh(name);
  body.node("Mul", {body.take(source.operand(x_scale)), body.take(source.operand(w_scale))}, scale);
  set_attribute(body.node("DequantizeLinear", {body.take(source.operand(bias)), scale}, real), "axis", 0);
  return real;
}

// Gives the codes of `real` by the scale and zero point from index `first` on. If the zero point is omitted, the
// codes have the type of `like`.
void give_codes(Body& body, const Source& source, const std::string& real, int first, const Operand& like) {
  const std::string codes = body.fresh(source.proto.output(0));
  std::vector<std::string> inputs = {real, body.take(source.operand(first))};
  if (source.given(first + 1)) inputs.push_back(body.take(source.operand(first + 1)));
  ::onnx::NodeProto& node = body.node("QuantizeLinear", inputs, codes);
  if (!source.given(first + 1))
    set_attribute(node, "output_dtype",
                  like.type == ElementType::kInt8 ? ::onnx::TensorProto::INT8 : ::onnx::TensorProto::UINT8);
  body.give(codes);
}

std::string real_output(Body& body, const Source& source) {
  if (source.proto.output_size() == 0) source.malformed("has no output");
  return body.fresh(source.proto.output(0));
}

void refuse_channels_last(const Source& source) {
  if (source.integer("channels_last", 0) != 0)
    source.refuse("works on NHWC: the file was optimized by ONNX Runtime", "export again with graph optimization off");
}

void convolution(Import& import, const Source& source) {
  refuse_channels_last(source);
  Body body(source);
  const std::string real = real_output(body, source);
  std::vector<std::string> inputs = {dequantized(body, source, 0), dequantized(body, source, 3)};
  if (source.given(8)) inputs.push_back(real_bias(body, source, 8, 1, 4));
  body.node_like(source.proto, "Conv", inputs, real, {"channels_last"});
  give_codes(body, source, real, 6, *source.operand(0));
  import.expand(source, body);
}

void qlinear_matmul(Import& import, const Source& source) {
  Body body(source);
  const std::string real = real_output(body, source);
  const int rank = source.operand(3)->rank();
  body.node("MatMul", {dequantized(body, source, 0), dequantized(body, source, 3, rank > 0 ? rank - 1 : 0)}, real);
  give_codes(body, source, real, 6, *source.operand(0));
  import.expand(source, body);
}

// y = A' B' + C, with C in units of s_a s_b. Without a scale for y the result is real. Refuses an alpha other than 1.
void qlinear_gemm(Import& import, const Source& source) {
  if (source.real("alpha", 1) != 1) source.refuse("alpha is not 1");
  Body body(source);
  const std::string real = real_output(body, source);
  const int64_t columns = source.integer("transB", 0) != 0 ? 0 : 1;
  std::vector<std::string> inputs = {dequantized(body, source, 0), dequantized(body, source, 3, columns)};
  if (source.given(6)) inputs.push_back(real_bias(body, source, 6, 1, 4));
  body.node_like(source.proto, "Gemm", inputs, real);
  if (source.given(7)) give_codes(body, source, real, 7, *source.operand(0));
  else body.give(real);
  import.expand(source, body);
}

// y = Q(f(DQ(x))),  f the operator whose name follows "QLinear"
void qlinear_unary(Import& import, const Source& source) {
  refuse_channels_last(source);
  Body body(source);
  const std::string real = real_output(body, source);
  if (source.has("opset")) body.opset = int(source.integer("opset", 0));  // opset of the softmax
  const std::string op = source.proto.op_type().substr(std::string("QLinear").size());
  body.node_like(source.proto, op.c_str(), {dequantized(body, source, 0)}, real, {"channels_last", "opset"});
  give_codes(body, source, real, 3, *source.operand(0));
  import.expand(source, body);
}

void qlinear_binary(Import& import, const Source& source) {
  Body body(source);
  const std::string real = real_output(body, source);
  const std::string op = source.proto.op_type().substr(std::string("QLinear").size());
  body.node(op.c_str(), {dequantized(body, source, 0), dequantized(body, source, 3)}, real);
  give_codes(body, source, real, 6, *source.operand(0));
  import.expand(source, body);
}

// Imports QLinearConcat. Inputs: scale and zero point of y, then {codes, scale, zero point} of each operand.
void qlinear_concat(Import& import, const Source& source) {
  const int count = int(source.inputs.size());
  if (count < 5 || count % 3 != 2) source.malformed("its inputs are no triples of codes, scale and zero point");
  Body body(source);
  const std::string real = real_output(body, source);
  std::vector<std::string> inputs;
  for (int i = 2; i < count; i += 3) inputs.push_back(dequantized(body, source, i));
  body.node_like(source.proto, "Concat", inputs, real);
  give_codes(body, source, real, 0, *source.operand(2));
  import.expand(source, body);
}

constexpr OperatorImporter kQlinearImporters[] = {
    {"QLinearConv", convolution},
    {"QLinearMatMul", qlinear_matmul},
    {"QLinearConv", convolution, kMicrosoft},
    {"QGemm", qlinear_gemm, kMicrosoft},
    {"QLinearAdd", qlinear_binary, kMicrosoft},
    {"QLinearMul", qlinear_binary, kMicrosoft},
    {"QLinearAveragePool", qlinear_unary, kMicrosoft},
    {"QLinearGlobalAveragePool", qlinear_unary, kMicrosoft},
    {"QLinearReduceMean", qlinear_unary, kMicrosoft},
    {"QLinearLeakyRelu", qlinear_unary, kMicrosoft},
    {"QLinearSigmoid", qlinear_unary, kMicrosoft},
    {"QLinearSoftmax", qlinear_unary, kMicrosoft},
    {"QLinearConcat", qlinear_concat, kMicrosoft},
};

}  // namespace

std::span<const OperatorImporter> qlinear_importers() { return kQlinearImporters; }

}  // namespace nacre::tools::onnx_import
