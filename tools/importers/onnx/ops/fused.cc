// Imports operators that onnxruntime's optimizer fuses from several operators of ONNX (com.microsoft). Each becomes
// these operators of ONNX again.
//
// Source: onnxruntime, docs/ContribOperators.md. Later passes fuse again what the engine has a kernel for.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tools/importers/onnx/import.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

constexpr int kOpset = 20;  // opset of the operators below; the oldest with Gelu

std::string real_constant(Body& body, const std::string& name, float number) {
  const std::string wanted = body.fresh(name);
  return body.take(constant_operand(make_constant(wanted, ElementType::kFloat32, {}, std::vector<float>{number})));
}

void set_real_attribute(::onnx::NodeProto& node, const char* key, float number) {
  ::onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(key);
  attribute.set_type(::onnx::AttributeProto::FLOAT);
  attribute.set_f(number);
}

void set_text_attribute(::onnx::NodeProto& node, const char* key, const std::string& text) {
  ::onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(key);
  attribute.set_type(::onnx::AttributeProto::STRING);
  attribute.set_s(text);
}

// A chain of operators, each on the result of the one before.
struct Chain {
  Chain(Import& to, const Source& from) : import(to), source(from), body(from) { body.opset = kOpset; }

  std::string take(int input) { return body.take(source.operand(input)); }
  std::string real(const char* what, float number) {
    return real_constant(body, import.output_name() + "/" + what, number);
  }
  ::onnx::NodeProto& then(const char* op, const std::vector<std::string>& inputs) {
    value = body.fresh(import.output_name());
    return body.node(op, inputs, value);
  }
  void give() { body.give(value); }
  void finish() { import.expand(source, body); }

  Import& import;
  const Source& source;
  Body body;
  std::string value;
};

// Adds the activation that onnxruntime calls `function`, with up to two parameters. Adds none if the name is empty.
void activate(Chain& chain, const std::string& function, std::vector<float> parameters) {
  const Source& source = chain.source;
  if (function.empty()) return;
  parameters.resize(2, 0);
  if (function == "Clip") {
    const std::string low = chain.real("low", parameters[0]), high = chain.real("high", parameters[1]);
    chain.then("Clip", {chain.value, low, high});
    return;
  }
  constexpr const char* kFunctions[] = {"Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid", "Elu"};
  const auto named = [&](const char* name) { return function == name; };
  if (std::none_of(std::begin(kFunctions), std::end(kFunctions), named))
    source.refuse("its activation '" + function + "' is not supported", "export again with graph optimization off");
  ::onnx::NodeProto& node = chain.then(function.c_str(), {chain.value});
  if (function == "LeakyRelu" || function == "HardSigmoid" || function == "Elu")
    set_real_attribute(node, "alpha", parameters[0]);
  if (function == "HardSigmoid") set_real_attribute(node, "beta", parameters[1]);
}

std::vector<float> reals_of(const Source& source, const char* key) {
  const ::onnx::AttributeProto* attribute = source.find(key);
  return attribute == nullptr ? std::vector<float>()
                              : std::vector<float>(attribute->floats().begin(), attribute->floats().end());
}

// y = f(Conv(x, w, b) + z),  f the activation
void fused_conv(Import& import, const Source& source) {
  Chain chain(import, source);
  std::vector<std::string> inputs = {chain.take(0), chain.take(1)};
  if (source.given(2)) inputs.push_back(chain.take(2));
  chain.value = chain.body.fresh(import.output_name());
  chain.body.node_like(source.proto, "Conv", inputs, chain.value, {"activation", "activation_params"});
  if (source.given(3)) chain.then("Add", {chain.value, chain.take(3)});
  activate(chain, source.text("activation", ""), reals_of(source, "activation_params"));
  chain.give();
  chain.finish();
}

// y = f(alpha A' B' + beta C),  f the activation, A' and B' A and B or their transposes
void fused_gemm(Import& import, const Source& source) {
  Chain chain(import, source);
  std::vector<std::string> inputs = {chain.take(0), chain.take(1)};
  if (source.given(2)) inputs.push_back(chain.take(2));
  chain.value = chain.body.fresh(import.output_name());
  chain.body.node_like(source.proto, "Gemm", inputs, chain.value,
                       {"activation", "activation_alpha", "activation_beta", "activation_gamma"});
  activate(chain, source.text("activation", ""),
           {source.real("activation_alpha", 0), source.real("activation_beta", 0)});
  chain.give();
  chain.finish();
}

// Returns the operand with its last two axes exchanged if transA or transB says so.
std::string maybe_transposed(Chain& chain, int input, const char* flag) {
  const int rank = chain.source.operand(input)->rank();
  const std::string x = chain.take(input);
  if (chain.source.integer(flag, 0) == 0 || rank < 2) return x;
  ::onnx::AttributeProto perm;
  perm.set_name("perm");
  perm.set_type(::onnx::AttributeProto::INTS);
  for (int i = 0; i < rank; ++i) perm.add_ints(i < rank - 2 ? i : 2 * rank - 3 - i);
  *chain.then("Transpose", {x}).add_attribute() = perm;
  return chain.value;
}

// y = alpha A' B' on stacks of matrices
void fused_matmul(Import& import, const Source& source) {
  if (source.integer("transBatchA", 0) != 0 || source.integer("transBatchB", 0) != 0)
    source.refuse("moves its batch axes (transBatchA, transBatchB)", "export again with graph optimization off");
  Chain chain(import, source);
  const std::string a = maybe_transposed(chain, 0, "transA"), b = maybe_transposed(chain, 1, "transB");
  chain.then("MatMul", {a, b});
  if (const float alpha = source.real("alpha", 1); alpha != 1)
    chain.then("Mul", {chain.value, chain.real("alpha", alpha)});
  chain.give();
  chain.finish();
}

// Imports Gelu: gelu(x);  BiasGelu: gelu(x + b);  FastGelu: gelu(x) or gelu(x + b) with the approximation by tanh.
void gelu_of_sum(Import& import, const Source& source, const char* approximate) {
  Chain chain(import, source);
  chain.value = chain.take(0);
  if (source.given(1)) chain.then("Add", {chain.value, chain.take(1)});
  set_text_attribute(chain.then("Gelu", {chain.value}), "approximate", approximate);
  chain.give();
  chain.finish();
}
void exact_gelu(Import& import, const Source& source) { gelu_of_sum(import, source, "none"); }
void fast_gelu(Import& import, const Source& source) { gelu_of_sum(import, source, "tanh"); }

// y = x sigmoid(alpha x)
void quick_gelu(Import& import, const Source& source) {
  Chain chain(import, source);
  const std::string x = chain.take(0);
  chain.value = x;
  if (const float alpha = source.real("alpha", 1.702f); alpha != 1) chain.then("Mul", {x, chain.real("alpha", alpha)});
  chain.then("Sigmoid", {chain.value});
  chain.then("Mul", {x, chain.value});
  chain.give();
  chain.finish();
}

void layer_norm(Chain& chain, const std::string& x, const std::vector<std::string>& parameters) {
  std::vector<std::string> inputs = {x};
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  ::onnx::NodeProto& node = chain.then("LayerNormalization", inputs);
  set_attribute(node, "axis", -1);
  set_real_attribute(node, "epsilon", chain.source.real("epsilon", 1e-12f));
}

// y_j = w_j x_j / sqrt(mean_k x_k^2 + epsilon), over the last axis
void root_mean_square_norm(Chain& chain, const std::string& x, const std::string& w, float epsilon) {
  const std::string axes = chain.import.output_name() + "/axes";
  const auto last = constant_operand(make_constant(axes, ElementType::kInt64, {1}, std::vector<int64_t>{-1}));
  chain.then("Mul", {x, x});
  chain.then("ReduceMean", {chain.value, chain.body.take(last)});
  chain.then("Add", {chain.value, chain.real("epsilon", epsilon)});
  chain.then("Sqrt", {chain.value});
  chain.then("Div", {x, chain.value});
  chain.then("Mul", {chain.value, w});
}

void simplified_layer_normalization(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  if (source.axis(source.integer("axis", -1), std::max(1, x->rank())) != x->rank() - 1)
    source.refuse("normalizes other axes than the last one");
  if (source.wants(1)) source.refuse("its second output (the inverse deviation) is used");
  Chain chain(import, source);
  root_mean_square_norm(chain, chain.take(0), chain.take(1), source.real("epsilon", 1e-5f));
  chain.give();
  chain.finish();
}

// Imports norm(x + skip), or norm(x + skip + bias) if a bias is given. The sum is output 3.
void skip_norm(Import& import, const Source& source, bool simplified) {
  if (source.wants(1) || source.wants(2)) source.refuse("its mean or deviation is used", "export for inference");
  Chain chain(import, source);
  const int bias = simplified ? 3 : 4;
  chain.then("Add", {chain.take(0), chain.take(1)});
  if (source.given(bias)) chain.then("Add", {chain.value, chain.take(bias)});
  const std::string sum = chain.value;
  if (simplified) {
    root_mean_square_norm(chain, sum, chain.take(2), source.real("epsilon", 1e-12f));
  } else {
    std::vector<std::string> parameters = {chain.take(2)};
    if (source.given(3)) parameters.push_back(chain.take(3));
    layer_norm(chain, sum, parameters);
  }
  chain.give();
  for (int i = 1; i < 4; ++i) chain.body.give(sum);
  chain.finish();
}
void skip_layer_normalization(Import& import, const Source& source) { skip_norm(import, source, false); }
void skip_simplified_layer_normalization(Import& import, const Source& source) { skip_norm(import, source, true); }

// Imports norm(words[ids] + positions[position ids, or 0 .. n - 1] + segments[segment ids]). The sum is output 2.
// Inputs: ids, segment ids, tables of words, positions and segments, gamma, beta, mask (not read), position ids.
void embed_layer_normalization(Import& import, const Source& source) {
  if (source.wants(1)) source.refuse("its index of masks is used", "export again with graph optimization off");
  const OperandPtr &ids = source.operand(0), &table = source.operand(3);
  if (ids->rank() != 2 || table->rank() != 2) source.malformed("its ids or positions are no matrix");
  Chain chain(import, source);
  chain.then("Gather", {chain.take(2), chain.take(0)});
  const std::string words = chain.value;
  std::string positions;
  if (source.given(8)) {
    positions = chain.take(8);
  } else {
    if (ids->dims[1] > table->dims[0]) source.malformed("has more ids than positions");
    import.spend(uint64_t(ids->dims[1]) * 8);
    std::vector<int64_t> counted(size_t(ids->dims[1]));
    for (size_t i = 0; i < counted.size(); ++i) counted[i] = int64_t(i);
    const std::string name = import.output_name() + "/positions";
    positions = chain.body.take(constant_operand(make_constant(name, ElementType::kInt64, {1, ids->dims[1]}, counted)));
  }
  chain.then("Gather", {chain.take(3), positions});
  chain.then("Add", {words, chain.value});
  if (source.given(1) && source.given(4)) {
    const std::string sum = chain.value;
    chain.then("Gather", {chain.take(4), chain.take(1)});
    chain.then("Add", {sum, chain.value});
  }
  const std::string sum = chain.value;
  layer_norm(chain, sum, {chain.take(5), chain.take(6)});
  chain.give();
  for (int i = 1; i < 3; ++i) chain.body.give(sum);
  chain.finish();
}

constexpr OperatorImporter kFusedImporters[] = {
    {"FusedConv", fused_conv, kMicrosoft},
    {"FusedGemm", fused_gemm, kMicrosoft},
    {"FusedMatMul", fused_matmul, kMicrosoft},
    {"TransposeMatMul", fused_matmul, kMicrosoft},
    {"Gelu", exact_gelu, kMicrosoft},
    {"BiasGelu", exact_gelu, kMicrosoft},
    {"FastGelu", fast_gelu, kMicrosoft},
    {"QuickGelu", quick_gelu, kMicrosoft},
    {"SimplifiedLayerNormalization", simplified_layer_normalization, kMicrosoft},
    {"SkipLayerNormalization", skip_layer_normalization, kMicrosoft},
    {"SkipSimplifiedLayerNormalization", skip_simplified_layer_normalization, kMicrosoft},
    {"EmbedLayerNormalization", embed_layer_normalization, kMicrosoft},
    {"SimplifiedLayerNormalization", simplified_layer_normalization},  // as onnxruntime writes it
};

}  // namespace

std::span<const OperatorImporter> fused_importers() { return kFusedImporters; }

}  // namespace nacre::tools::onnx_import
