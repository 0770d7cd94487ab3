// Imports elementwise operators: arithmetic with numpy broadcast, clamps and activations. They run in the layout that
// their operands have.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/ops/binary.h"
#include "engine/ops/unary.h"
#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/import.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// ---- One operand

ValueId any_layout(Import& import, const OperandPtr& x) {
  return x->prefers_channels_last() ? import.channels_last(x) : import.plain(x);
}

void give_like(Import& import, const OperandPtr& x, ValueId y) {
  if (x->prefers_channels_last()) import.give_channels_last(0, y);
  else import.give_plain(0, y);
}

void unary(Import& import, const Source& source, Op op) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  Node node = import.step(op);
  node.inputs = {any_layout(import, x)};
  give_like(import, x, import.append(std::move(node), import.output_name()));
}

// Imports a function of one operand. A constant becomes another constant if fold.h has the function. Elu has the
// attribute alpha, Selu has alpha and gamma.
template <Unary::Function kFunction>
void function(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  if (x->constant) {
    spend_elements(import, *x->constant);
    if (std::optional<Value> y = pointwise(source.proto.op_type(), *x->constant))
      return import.give_constant(0, std::move(*y));
  }
  need_float32(source, *x);
  Node node = import.step(Op::kUnary);
  set_integer(node, "function", int(kFunction));
  if (kFunction == Unary::kElu) set_real(node, "alpha", source.real("alpha", 1));
  if (kFunction == Unary::kSelu) {
    set_real(node, "alpha", source.real("alpha", 1.67326319217681884765625f));
    set_real(node, "gamma", source.real("gamma", 1.05070102214813232421875f));
  }
  node.inputs = {any_layout(import, x)};
  give_like(import, x, import.append(std::move(node), import.output_name()));
}

ValueId clamp_step(Import& import, ValueId x, float low, float high, const std::string& name) {
  Node node = import.step(Op::kClamp);
  set_integer(node, "clamp", 1);
  set_real(node, "low", low);
  set_real(node, "high", high);
  node.inputs = {x};
  return import.append(std::move(node), name);
}

void give_clamp(Import& import, const Source& source, const OperandPtr& x, float low, float high) {
  need_float32(source, *x);
  if (std::isnan(low) || std::isnan(high)) source.malformed("a bound is not a number");
  const ValueId y = clamp_step(import, any_layout(import, x), std::min(low, high), high, import.output_name());
  give_like(import, x, y);
}

void relu(Import& import, const Source& source) { give_clamp(import, source, source.operand(0), 0, kInfinity); }

// y = min(max(x, low), high), which is high if low > high. The bounds are attributes before opset 11 and inputs from
// opset 11 on.
void clip(Import& import, const Source& source) {
  if (clip_by_computed(import, source)) return;
  const float low = source.given(1) ? source.constant_real(1, "its minimum") : source.real("min", -kInfinity);
  const float high = source.given(2) ? source.constant_real(2, "its maximum") : source.real("max", kInfinity);
  give_clamp(import, source, source.operand(0), low, high);
}

ValueId leaky(Import& import, ValueId x, float alpha) {
  Node node = import.step(Op::kLeakyRelu);
  set_real(node, "alpha", alpha);
  node.inputs = {x};
  return import.append(std::move(node), import.output_name());
}

void leaky_relu(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  give_like(import, x, leaky(import, any_layout(import, x), source.real("alpha", 0.01f)));
}

void sigmoid(Import& import, const Source& source) { unary(import, source, Op::kSigmoid); }
void tanh(Import& import, const Source& source) { unary(import, source, Op::kTanh); }
void hard_swish(Import& import, const Source& source) { unary(import, source, Op::kHardSwish); }

void gelu(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  const std::string approximate = source.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh") source.malformed("approximate is " + approximate);
  Node node = import.step(Op::kGelu);
  set_integer(node, "tanh", approximate == "tanh" ? 1 : 0);
  node.inputs = {any_layout(import, x)};
  give_like(import, x, import.append(std::move(node), import.output_name()));
}

ValueId with_scalar(Import& import, Op op, ValueId x, float scalar, const std::string& name) {
  Node node = import.step(op);
  node.inputs = {x, import.reals(name + "/scalar", {1}, {scalar})};
  return import.append(std::move(node), name);
}

// y = max(0, min(1, alpha x + beta))
void hard_sigmoid(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  ValueId y =
      with_scalar(import, Op::kMul, any_layout(import, x), source.real("alpha", 0.2f), import.output_name() + "/mul");
  y = with_scalar(import, Op::kAdd, y, source.real("beta", 0.5f), import.output_name() + "/add");
  give_like(import, x, clamp_step(import, y, 0, 1, import.output_name()));
}

// ---- Two operands

OperandPtr of_dims(Import& import, const OperandPtr& x, const std::vector<int64_t>& dims) {
  auto wide = std::make_shared<Operand>(*x);
  if (x->constant) *wide = *import.parameters().moved(x, Move::reshape(dims), reshaped(*x->constant, dims));
  else wide->plain = import.reshaped(import.plain(x), dims, x->name + "/rank");
  wide->name = x->name;
  wide->uses = x->uses;
  wide->dims = dims;
  wide->channels_last = kNone;
  return wide;
}

// Returns x with axes of size 1 before its own axes, so that it has the given rank and can be read channels last.
OperandPtr of_rank(Import& import, const OperandPtr& x, int rank) {
  if (x->rank() == rank) return x;
  std::vector<int64_t> dims = x->dims;
  dims.insert(dims.begin(), size_t(rank - x->rank()), 1);
  return of_dims(import, x, dims);
}

// Refuses operands that are not float32. Sums, differences and products may also have two operands of int32 or two of
// int64. Refuses more than 8 axes.
void need_numbers(const Source& source, Op op, const Operand& a, const Operand& b) {
  const bool whole = (op == Op::kAdd || op == Op::kSub || op == Op::kMul) && is_whole(a.type) && a.type == b.type;
  if (whole && a.rank() <= kMaxRank && b.rank() <= kMaxRank) return;
  need_float32(source, a);
  need_float32(source, b);
}

OperandPtr binary_step(Import& import, const Source& source, Node node, OperandPtr a, OperandPtr b,
                       const std::string& name) {
  need_numbers(source, node.op, *a, *b);
  const std::optional<std::vector<int64_t>> dims = broadcast(a->dims, b->dims);
  if (!dims) source.malformed("its operands have shapes that cannot be combined");
  const int rank = int(dims->size());
  const bool last =
      (a->prefers_channels_last() && a->rank() == rank) || (b->prefers_channels_last() && b->rank() == rank);
  // A constant [1] is broadcast in any layout, so it needs no further axes.
  const auto scalar = [](const OperandPtr& x) { return x->constant && x->constant->elements() == 1 && x->rank() == 1; };
  if (last && !scalar(a)) a = of_rank(import, a, rank);
  if (last && !scalar(b)) b = of_rank(import, b, rank);
  for (const OperandPtr& x : {a, b})
    node.inputs.push_back(last && x->rank() == rank ? import.channels_last(x) : import.plain(x));
  auto y = std::make_shared<Operand>();
  y->type = a->type;
  y->dims = *dims;
  (last ? y->channels_last : y->plain) = import.append(std::move(node), name, a->type);
  return y;
}

Node function_of_two(Import& import, Binary::Function function) {
  Node node = import.step(Op::kBinary);
  set_integer(node, "function", int(function));
  return node;
}

// Returns b with axes of size 1 after its own, for a broadcast before opset 7, whose attribute `axis` says at which
// axis of a the axes of b begin. From opset 7 on b is unchanged.
OperandPtr old_broadcast(Import& import, const Source& source, const OperandPtr& a, const OperandPtr& b) {
  if (source.opset >= 7 || !source.has("axis")) return b;
  const int axis = source.axis(source.integer("axis", 0), a->rank());
  const int missing = a->rank() - axis - b->rank();
  if (missing < 0) source.malformed("axis does not fit its operands");
  std::vector<int64_t> dims = b->dims;
  dims.insert(dims.end(), size_t(missing), 1);
  return of_dims(import, b, dims);
}

bool fold(Import& import, const Source& source) {
  std::optional<Value> y;
  for (const OperandPtr& x : source.inputs) {
    if (!x || !x->constant) return false;
    const auto dims = y ? broadcast(y->dims, x->dims) : x->dims;
    if (!dims) source.malformed("its operands have shapes that cannot be combined");
    import.spend(uint64_t(checked_elements(source.place, *dims)) * 8);
    y = y ? pointwise(source.proto.op_type(), *y, *x->constant) : *x->constant;
    if (!y) return false;
  }
  if (!y) return false;
  import.give_constant(0, std::move(*y));
  return true;
}

// Makes the stored b the bias of the last node, if that is a dense or convolution without a bias and only this Add
// reads its result x. Returns false otherwise. The channels are the last axis of a dense's x, else axis 1.
bool add_bias(Import& import, const OperandPtr& x, const OperandPtr& b) {
  if (!b->constant || b->type != ElementType::kFloat32 || x->uses != 1 || import.graph().nodes.empty()) return false;
  std::vector<Node>& nodes = import.graph().nodes;
  const Node& producer = nodes.back();
  const ValueId value = x->plain != kNone ? x->plain : x->channels_last;
  if (!is_matmul(producer.op) || producer.outputs[0] != value || producer.inputs[2] != kNone) return false;
  const int axis = producer.op == Op::kDense ? x->rank() - 1 : 1, of_bias = axis - (x->rank() - b->rank());
  const int64_t channels = x->dims[size_t(axis)];
  if (import.value(value).quantizer || b->rank() > x->rank() || of_bias < 0 || b->constant->elements() != channels ||
      b->dims[size_t(of_bias)] != channels)
    return false;
  import.log().add("is the bias of " + producer.name);
  Node with_bias = std::move(nodes.back());  // moved behind the nodes that plain() and parameter() may add
  nodes.pop_back();
  Value row = make_constant(b->name, ElementType::kFloat32, {channels}, reals(*b->constant));
  with_bias.inputs[2] =
      b->rank() == 1 ? import.plain(b) : import.parameters().parameter(b, {Move::reshape({channels})}, std::move(row));
  nodes.push_back(std::move(with_bias));
  x->name = import.output_name();
  import.graph().rename(value, x->name);
  import.give(0, x);
  return true;
}

void arithmetic(Import& import, const Source& source, Op op) {
  if (fold(import, source)) return;
  const OperandPtr& a = source.operand(0);
  const OperandPtr b = old_broadcast(import, source, a, source.operand(1));
  if (op == Op::kAdd && (add_bias(import, a, b) || add_bias(import, b, a))) return;
  import.give(0, binary_step(import, source, import.step(op), a, b, import.output_name()));
}

void add(Import& import, const Source& source) { arithmetic(import, source, Op::kAdd); }
void sub(Import& import, const Source& source) { arithmetic(import, source, Op::kSub); }

void mul(Import& import, const Source& source) {
  if (!multiply_dynamic(import, source)) arithmetic(import, source, Op::kMul);
}

// x / c with a constant c becomes x (1 / c). The last bit of the result may differ unless c is a power of two. The
// division stays if a 1 / c is no normal number or if this node or another one trains c. Unless c is a power of two,
// it also stays with the option keep_division and for reals of 16 or 64 bits.
void div(Import& import, const Source& source) {
  if (fold(import, source)) return;
  const OperandPtr& a = source.operand(0);
  const OperandPtr b = old_broadcast(import, source, a, source.operand(1));
  need_float32(source, *a);
  need_float32(source, *b);
  std::vector<float> numbers = b->constant ? reals(*b->constant) : std::vector<float>();
  bool exact = true, normal = b->constant != nullptr;
  for (float& number : numbers) {
    int exponent = 0;
    exact &= std::fabs(std::frexp(number, &exponent)) == 0.5f;
    number = 1 / number;
    normal &= std::isnormal(number);
  }
  const Parameters& parameters = import.parameters();
  normal &= b->constant == nullptr || (!parameters.is_variable(*b->constant) && !parameters.is_shared(b));
  const bool stays = import.options().keep_division || source.kept() != ElementType::kNone;
  if (!normal || (!exact && stays))
    return import.give(0,
                       binary_step(import, source, function_of_two(import, Binary::kDiv), a, b, import.output_name()));
  if (!exact) import.log().add("division by a constant is multiplication by its reciprocal");
  const OperandPtr reciprocal =
      import.parameters().computed(b, make_constant(b->name + "/reciprocal", ElementType::kFloat32, b->dims, numbers));
  import.give(0, binary_step(import, source, import.step(Op::kMul), a, reciprocal, import.output_name()));
}

void sum(Import& import, const Source& source) {
  if (fold(import, source)) return;
  OperandPtr total = source.operand(0);
  const int count = int(source.inputs.size());
  for (int i = 1; i < count; ++i) {
    const std::string name = import.output_name() + (i + 1 < count ? "/" + std::to_string(i) : "");
    total = binary_step(import, source, import.step(Op::kAdd), total, source.operand(i), name);
  }
  import.give(0, total);
}

// Imports Min or Max of any number of operands. Operands are combined one after the other. A clamp by the operands that
// are a constant of one number comes last.
void bound(Import& import, const Source& source, bool is_max) {
  if (fold(import, source)) return;
  int rank = 0;
  for (int i = 0; i < int(source.inputs.size()); ++i) rank = std::max(rank, source.operand(i)->rank());
  std::vector<OperandPtr> operands;
  float limit = is_max ? -kInfinity : kInfinity;
  for (const OperandPtr& x : source.inputs) {
    need_float32(source, *x);
    const bool single = x->constant && x->constant->elements() == 1 && (x->rank() < rank || rank <= 1);
    const float number = single ? reals(*x->constant)[0] : 0;
    if (single && std::isnan(number)) source.malformed("a bound is not a number");
    if (single) limit = is_max ? std::max(limit, number) : std::min(limit, number);
    else operands.push_back(x);
  }
  if (operands.empty()) source.malformed("has no operand");
  OperandPtr y = operands[0];
  const bool clamped = std::isfinite(limit);
  for (size_t i = 1; i < operands.size(); ++i) {
    const std::string name = import.output_name() + (clamped || i + 1 < operands.size() ? "/" + std::to_string(i) : "");
    y = binary_step(import, source, function_of_two(import, is_max ? Binary::kMaximum : Binary::kMinimum), y,
                    operands[i], name);
  }
  if (!clamped) return import.give(0, y);
  give_clamp(import, source, y, is_max ? limit : -kInfinity, is_max ? kInfinity : limit);
}

void min(Import& import, const Source& source) { bound(import, source, false); }
void max(Import& import, const Source& source) { bound(import, source, true); }

// y = a^b. A stored exponent of integers becomes float32.
void pow(Import& import, const Source& source) {
  if (fold(import, source)) return;
  const OperandPtr& a = source.operand(0);
  OperandPtr b = old_broadcast(import, source, a, source.operand(1));
  if (b->constant && is_integer(b->constant->stored) && !b->constant->quantizer)
    b = constant_operand(cast(*b->constant, ElementType::kFloat32));
  import.give(0, binary_step(import, source, function_of_two(import, Binary::kPow), a, b, import.output_name()));
}

// Stored slopes that are all equal and not trained make a leaky_relu. Otherwise y = max(x, 0) + slope min(x, 0), in
// four nodes that are exact except for the product. Before opset 7 a stored slope [c] belongs to axis 1.
void prelu(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  OperandPtr slope = source.operand(1);
  need_float32(source, *x);
  need_float32(source, *slope);
  if (slope->constant && slope->constant->elements() > 0 && !import.parameters().is_variable(*slope->constant)) {
    const std::vector<float> slopes = reals(*slope->constant);
    if (std::all_of(slopes.begin(), slopes.end(), [&](float s) { return s == slopes[0]; }))
      return give_like(import, x, leaky(import, any_layout(import, x), slopes[0]));
  }
  if (source.opset < 7 && slope->rank() == 1 && slope->constant && x->rank() > 2) {
    std::vector<int64_t> dims = slope->dims;
    dims.insert(dims.end(), size_t(x->rank() - 2), 1);
    slope = of_dims(import, slope, dims);
  }
  const bool last = x->prefers_channels_last();
  const auto half = [&](float low, float high, const char* suffix) {
    auto y = std::make_shared<Operand>();
    y->dims = x->dims;
    (last ? y->channels_last : y->plain) =
        clamp_step(import, any_layout(import, x), low, high, import.output_name() + suffix);
    return y;
  };
  const OperandPtr above = half(0, kInfinity, "/positive"), below = half(-kInfinity, 0, "/negative");
  const OperandPtr scaled =
      binary_step(import, source, import.step(Op::kMul), below, slope, import.output_name() + "/slope");
  import.give(0, binary_step(import, source, import.step(Op::kAdd), above, scaled, import.output_name()));
}

constexpr OperatorImporter kPointwiseImporters[] = {
    {"Add", add},
    {"Sub", sub},
    {"Mul", mul},
    {"Div", div},
    {"Pow", pow},
    {"Sum", sum},
    {"Min", min},
    {"Max", max},
    {"Relu", relu},
    {"Clip", clip},
    {"LeakyRelu", leaky_relu},
    {"PRelu", prelu},
    {"Sigmoid", sigmoid},
    {"Tanh", tanh},
    {"HardSwish", hard_swish},
    {"Gelu", gelu},
    {"HardSigmoid", hard_sigmoid},
    {"Exp", function<Unary::kExp>},
    {"Log", function<Unary::kLog>},
    {"Sqrt", function<Unary::kSqrt>},
    {"Reciprocal", function<Unary::kReciprocal>},
    {"Abs", function<Unary::kAbs>},
    {"Neg", function<Unary::kNeg>},
    {"Floor", function<Unary::kFloor>},
    {"Ceil", function<Unary::kCeil>},
    {"Round", function<Unary::kRound>},
    {"Sign", function<Unary::kSign>},
    {"Softplus", function<Unary::kSoftplus>},
    {"Elu", function<Unary::kElu>},
    {"Selu", function<Unary::kSelu>},
    {"Erf", function<Unary::kErf>},
    {"Softsign", function<Unary::kSoftsign>},
    {"Sin", function<Unary::kSin>},
    {"Cos", function<Unary::kCos>},
};

}  // namespace

std::span<const OperatorImporter> pointwise_importers() { return kPointwiseImporters; }

}  // namespace nacre::tools::onnx_import
