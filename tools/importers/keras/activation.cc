// Converts activation layers, and the activations that a configuration names (keras.activations, 3.15; hard_sigmoid of
// Keras 2).
#include <algorithm>

#include "engine/ops/binary.h"
#include "engine/ops/select.h"
#include "engine/ops/unary.h"
#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {
namespace {

ValueId product(const Call& call, ValueId a, ValueId b) { return call.emit(Op::kMul, {a, b}); }

ValueId leaky(const Call& call, ValueId x, float slope) {
  Node node = call.step(Op::kLeakyRelu, {x});
  set_real(node, "alpha", slope);
  return call.emit(std::move(node));
}

ValueId log_softmax(const Call& call, ValueId x) {
  Node node = call.step(Op::kLogSoftmax, {x});
  set_integer(node, "axis", call.rank(x) - 1);
  return call.emit(std::move(node));
}

ValueId gelu(const Call& call, ValueId x, bool tanh) {
  Node node = call.step(Op::kGelu, {x});
  set_integer(node, "tanh", tanh ? 1 : 0);
  return call.emit(std::move(node));
}

// Returns the value `kept` where the comparison of x with a number holds, else 0.
ValueId where(const Call& call, ValueId x, uint32_t comparison, float number, ValueId kept) {
  const ValueId condition = call.compare(comparison, x, call.constant("threshold", {1}, {number}));
  return call.select(condition, kept, call.constant("zero", {1}, {0}));
}

// Returns relu6(x + 3) / 6 for Keras 3, min(max(0.2 x + 0.5, 0), 1) for Keras 2.
ValueId hard_sigmoid(const Call& call, ValueId x) {
  if (call.importer->keras2()) return call.clamp(call.shifted(call.scaled(x, 0.2f), 0.5f), 0, 1);
  return call.scaled(call.clamp(call.shifted(x, 3), 0, 6), 1.0f / 6);
}

// Returns (x + sqrt(x^2 + 4)) / 2.
ValueId squareplus(const Call& call, ValueId x) {
  const ValueId root = call.unary(Unary::kSqrt, call.shifted(call.unary(Unary::kSquare, x), 4));
  return call.scaled(call.emit(Op::kAdd, {x, root}), 0.5f);
}

// Returns x moved by 0.5 towards 0; 0 if |x| is at most 0.5.
ValueId soft_shrink(const Call& call, ValueId x) {
  return call.emit(
      Op::kAdd, {call.clamp(call.shifted(x, -0.5f), 0, kInfinity), call.clamp(call.shifted(x, 0.5f), -kInfinity, 0)});
}

// Returns ((x + 1) / 2)^2 for x from -1 to 1, x above 1, 0 below -1.
ValueId sparse_plus(const Call& call, ValueId x) {
  const ValueId middle = call.scaled(call.unary(Unary::kSquare, call.shifted(call.clamp(x, -1, 1), 1)), 0.25f);
  return call.emit(Op::kAdd, {middle, call.clamp(call.shifted(x, -1), 0, kInfinity)});
}

// Returns the first half of x along the last axis times the sigmoid of the second half.
ValueId glu(const Call& call, ValueId x) {
  const int last = call.rank(x) - 1;
  const int64_t half = call.dims(x)[size_t(last)] / 2;
  return product(call, call.slice(x, last, 0, half), call.emit(Op::kSigmoid, {call.slice(x, last, half, half)}));
}

struct Function {
  const char* name;
  ValueId (*make)(const Call& call, ValueId x);
};

constexpr Function kFunctions[] = {
    {"linear", [](const Call&, ValueId x) { return x; }},
    {"relu", [](const Call& c, ValueId x) { return c.clamp(x, 0, kInfinity); }},
    {"relu6", [](const Call& c, ValueId x) { return c.clamp(x, 0, 6); }},
    {"leaky_relu", [](const Call& c, ValueId x) { return leaky(c, x, 0.2f); }},
    {"sigmoid", [](const Call& c, ValueId x) { return c.emit(Op::kSigmoid, {x}); }},
    {"tanh", [](const Call& c, ValueId x) { return c.emit(Op::kTanh, {x}); }},
    {"softmax", [](const Call& c, ValueId x) { return c.softmax(x, c.rank(x) - 1); }},
    {"log_softmax", log_softmax},
    {"elu", [](const Call& c, ValueId x) { return c.unary(Unary::kElu, x, 1); }},
    {"celu", [](const Call& c, ValueId x) { return c.unary(Unary::kElu, x, 1); }},
    {"selu",
     [](const Call& c, ValueId x) { return c.unary(Unary::kSelu, x, 1.67326324235437728f, 1.05070098735548049f); }},
    {"softplus", [](const Call& c, ValueId x) { return c.unary(Unary::kSoftplus, x); }},
    {"softsign", [](const Call& c, ValueId x) { return c.unary(Unary::kSoftsign, x); }},
    {"exponential", [](const Call& c, ValueId x) { return c.unary(Unary::kExp, x); }},
    {"silu", [](const Call& c, ValueId x) { return c.emit(Op::kSilu, {x}); }},
    {"swish", [](const Call& c, ValueId x) { return c.emit(Op::kSilu, {x}); }},
    {"gelu", [](const Call& c, ValueId x) { return gelu(c, x, false); }},
    {"hard_sigmoid", hard_sigmoid},
    {"hard_silu", [](const Call& c, ValueId x) { return c.emit(Op::kHardSwish, {x}); }},
    {"hard_swish", [](const Call& c, ValueId x) { return c.emit(Op::kHardSwish, {x}); }},
    {"hard_tanh", [](const Call& c, ValueId x) { return c.clamp(x, -1, 1); }},
    {"mish", [](const Call& c, ValueId x) { return product(c, x, c.emit(Op::kTanh, {c.unary(Unary::kSoftplus, x)})); }},
    {"tanh_shrink", [](const Call& c, ValueId x) { return c.emit(Op::kSub, {x, c.emit(Op::kTanh, {x})}); }},
    {"log_sigmoid",
     [](const Call& c, ValueId x) { return c.unary(Unary::kNeg, c.unary(Unary::kSoftplus, c.unary(Unary::kNeg, x))); }},
    {"hard_shrink",
     [](const Call& c, ValueId x) { return where(c, c.unary(Unary::kAbs, x), Compare::kGreater, 0.5f, x); }},
    {"squareplus", squareplus},
    {"soft_shrink", soft_shrink},
    {"sparse_plus", sparse_plus},
    {"sparse_sigmoid", [](const Call& c, ValueId x) { return c.clamp(c.shifted(c.scaled(x, 0.5f), 0.5f), 0, 1); }},
    {"glu", glu},
};

void name_of_function(const Call& call, const Json& json, std::string& name, const Json** config) {
  if (json.is_string()) {
    name = json.text();
    return;
  }
  if (!json.is_object() || !json.contains("class_name")) call.bad("its activation is none");
  const Json& inner = json.at("config");
  if (inner.is_string()) {  // {"class_name": "function", "config": "relu"}
    name = inner.text();
    return;
  }
  name = json.at("class_name").text();
  *config = &inner;
}

}  // namespace

std::string activation_name(const Call& call, const char* key, const std::string& otherwise) {
  const Json* found = call.find(key);
  if (found == nullptr) return otherwise;
  std::string name;
  const Json* config = nullptr;
  name_of_function(call, *found, name, &config);
  return name;
}

ValueId activated(const Call& call, ValueId x, const char* key) {
  const Json* found = call.find(key);
  if (found == nullptr) return x;
  std::string name;
  const Json* config = nullptr;
  name_of_function(call, *found, name, &config);
  for (const Function& row : kFunctions)
    if (name == row.name) return row.make(call, x);
  for (const Converter& row : activation_converters()) {
    if (config == nullptr || name != row.class_name) continue;
    Call layer = call;  // its nodes belong to the layer that has the activation
    layer.config = *config;
    layer.inputs = {x};
    layer.weights = call.weights.part({key}, call.weights.count(), 0);  // none from a list: nothing says which they are
    if (name == "PReLU" && layer.weights.count() == 0)
      call.unsupported("its activation PReLU, which has variables: make it a layer of its own");
    row.convert(layer);
    return layer.outputs.at(0);
  }
  call.unsupported("its activation " + name);
}

namespace {

void convert_activation(Call& call) {
  const ValueId x = call.input();
  call.outputs = {activated(call, x)};
}

// Converts ReLU: y = min(x, max_value) if x is above the threshold, else y = negative_slope (x - threshold).
void convert_relu(Call& call) {
  const ValueId x = call.input();
  const float slope = call.real("negative_slope", 0), threshold = call.real("threshold", 0);
  const float most = call.given("max_value") ? call.real("max_value", 0) : kInfinity;
  ValueId y = threshold == 0 ? call.clamp(x, 0, most) : where(call, x, Compare::kGreater, threshold, x);
  if (threshold != 0 && most != kInfinity) y = call.clamp(y, 0, most);
  if (slope != 0 && threshold == 0 && most == kInfinity) {
    y = leaky(call, x, slope);
  } else if (slope != 0) {
    const ValueId below = call.clamp(call.shifted(x, -threshold), -kInfinity, 0);
    y = call.emit(Op::kAdd, {y, call.scaled(below, slope)});
  }
  call.outputs = {y};
}

void convert_leaky_relu(Call& call) {
  call.outputs = {leaky(call, call.input(), call.real("negative_slope", call.real("alpha", 0.3f)))};
}

void convert_elu(Call& call) { call.outputs = {call.unary(Unary::kElu, call.input(), call.real("alpha", 1))}; }

// Converts PReLU: y = max(x, 0) + alpha min(x, 0).
void convert_prelu(Call& call) {
  const ValueId x = call.input();
  const ValueId below = product(call, call.clamp(x, -kInfinity, 0), call.variable(0, "alpha"));
  call.outputs = {call.emit(Op::kAdd, {call.clamp(x, 0, kInfinity), below})};
}

// Converts Softmax. Masked elements count as -10^9 (-3 10^4 under float16) and give 0. Several axes are joined to one.
void convert_softmax(Call& call) {
  ValueId x = call.input();
  const int rank = call.rank(x);
  const ValueId mask = call.inputs.size() > 1 ? as_condition(call, call.inputs[1]) : mask_of(call, 0, "mask");
  if (mask != kNone && call.rank(mask) > rank) call.bad("a mask of shape " + dims_text(call.dims(mask)));
  if (mask != kNone) x = call.select(mask, x, call.number(hidden_score(call)));
  std::vector<int64_t> axes = call.list("axis");
  if (axes.empty()) axes = {-1};
  std::vector<int> kept, over;
  for (int i = 0; i < rank; ++i) {
    const bool named = std::any_of(axes.begin(), axes.end(), [&](int64_t a) { return call.axis(a, rank) == i; });
    (named ? over : kept).push_back(i);
  }
  ValueId y = kNone;
  if (over.size() == 1) {
    y = call.softmax(x, over[0]);
  } else {
    std::vector<int> perm = kept, back(size_t(rank), 0);
    perm.insert(perm.end(), over.begin(), over.end());
    for (size_t i = 0; i < perm.size(); ++i) back[size_t(perm[i])] = int(i);
    const ValueId turned = call.transpose(x, perm);
    const std::vector<int64_t> dims = call.dims(turned);
    std::vector<int64_t> joined(dims.begin(), dims.begin() + std::ptrdiff_t(kept.size()));
    joined.push_back(call.value(x).elements());
    for (size_t i = 0; i < kept.size(); ++i) joined.back() /= dims[i];
    const ValueId flat = call.softmax(call.reshape(turned, joined), int(kept.size()));
    y = call.transpose(call.reshape(flat, dims), back);
  }
  call.outputs = {mask == kNone ? y : call.select(mask, y, call.number(0))};
}

void convert_thresholded(Call& call) {
  const ValueId x = call.input();
  call.outputs = {where(call, x, Compare::kGreater, call.real("theta", 1), x)};
}

constexpr Converter kActivationRows[] = {
    {"Activation", &convert_activation},
    {"ReLU", &convert_relu},
    {"LeakyReLU", &convert_leaky_relu},
    {"ELU", &convert_elu},
    {"PReLU", &convert_prelu},
    {"Softmax", &convert_softmax},
    {"ThresholdedReLU", &convert_thresholded},
};

}  // namespace

std::span<const Converter> activation_converters() { return kActivationRows; }

}  // namespace nacre::tools::keras
