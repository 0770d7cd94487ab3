// Replaces activations that a file computes in several steps, as exporters write them, by one step:
//
//   gelu         y = x c (1 + erf(x / sqrt(2)))                        c = 1/2        ops/gelu.h
//   silu         y = x sigmoid(x)                                                     ops/gelu.h
//   hard_swish   y = x c min(max(x + 3, 0), 6)                         c = 1/6        ops/activation.h
//                y = x min(max(x / 6 + 1/2, 0), 1)
//
// The factors of the products may stand in any order. All values must be real, and only these steps may read the
// intermediate values. If a quantizer stands between, or another step reads one of them, the file's own steps stay.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include "engine/ops/binary.h"
#include "engine/ops/parameters.h"
#include "engine/ops/unary.h"
#include "tools/passes/simplify/simplify.h"

namespace nacre::tools {
namespace {

constexpr double kNear = 1e-6;  // for constants that a file stores or computes in float32

bool is_real(const Value& v) { return v.type == ElementType::kFloat32 && !v.quantizer; }

bool is_number(const Rewriter& r, ValueId id, double wanted) {
  const Value& v = r.value(id);
  if (!v.constant() || v.elements() != 1 || !is_real(v) || v.stored != ElementType::kFloat32) return false;
  return std::abs(double(reals(v)[0]) - wanted) <= kNear * std::abs(wanted);
}

bool is_plain(const Rewriter& r, const Node* node, Op op) {
  return node != nullptr && node->op == op && node->inputs.size() == 2 && get_integer(*node, "clamp") == 0 &&
         is_real(r.value(node->outputs[0]));
}

// Returns v if `id` is v + number, or v times it, and only `reader` reads it; else kNone.
ValueId operand_beside(Rewriter& r, ValueId id, const Node& reader, Op op, double number) {
  const Node* const step = r.writer(id);
  if (!is_plain(r, step, op) || !r.only_reader(id, reader)) return kNone;
  for (const size_t slot : {size_t{0}, size_t{1}})
    if (is_number(r, step->inputs[1 - slot], number)) return step->inputs[slot];
  return kNone;
}

// Returns x if `id` is 1 + erf(x / sqrt(2)) and only `reader` reads it, else kNone.
ValueId argument_of_erf(Rewriter& r, ValueId id, const Node& reader) {
  const ValueId sum = operand_beside(r, id, reader, Op::kAdd, 1);
  if (sum == kNone) return kNone;
  const Node* const erf = r.writer(sum);
  if (erf == nullptr || erf->op != Op::kUnary || get_integer(*erf, "function") != int(Unary::kErf)) return kNone;
  if (!r.only_reader(sum, *r.writer(id)) || !is_real(r.value(sum))) return kNone;
  const ValueId scaled = erf->inputs[0];
  const ValueId product = operand_beside(r, scaled, *erf, Op::kMul, 1 / std::numbers::sqrt2);
  if (product != kNone) return product;
  const Node* const quotient = r.writer(scaled);
  const bool divides = quotient != nullptr && quotient->op == Op::kBinary &&
                       get_integer(*quotient, "function") == int(Binary::kDiv) && r.only_reader(scaled, *erf) &&
                       is_real(r.value(scaled)) && is_number(r, quotient->inputs[1], std::numbers::sqrt2);
  return divides ? quotient->inputs[0] : kNone;
}

// Returns the three factors of a product of two steps, if only `last` reads the first product. Else three kNone.
std::array<ValueId, 3> factors_of(Rewriter& r, const Node& last, size_t slot) {
  const ValueId id = last.inputs[slot];
  const Node* const first = r.writer(id);
  if (!is_plain(r, first, Op::kMul) || !r.only_reader(id, last)) return {kNone, kNone, kNone};
  return {first->inputs[0], first->inputs[1], last.inputs[1 - slot]};
}

bool has_policy_of_its_own(const Rewriter& r, const Node& node) {
  return node.layer != kNone && r.graph.layers[size_t(node.layer)].asked;
}

// Returns the x of the product, or kNone if it is no gelu.
ValueId argument_of_gelu(Rewriter& r, const Node& last, size_t slot) {
  const std::array<ValueId, 3> factors = factors_of(r, last, slot);
  for (size_t erf = 0; factors[0] != kNone && erf < factors.size(); ++erf) {
    const Node& reader = erf < 2 ? *r.writer(last.inputs[slot]) : last;
    const ValueId x = argument_of_erf(r, factors[erf], reader);
    const ValueId a = factors[(erf + 1) % 3], b = factors[(erf + 2) % 3];
    if (x != kNone && ((a == x && is_number(r, b, 0.5)) || (b == x && is_number(r, a, 0.5)))) return x;
  }
  return kNone;
}

// Returns v if `id` is min(max(v + number, 0), high), and only `reader` reads it. A sum may have the bounds itself.
ValueId operand_of_clamped_sum(Rewriter& r, ValueId id, const Node& reader, double number, double high) {
  const Node* const last = r.writer(id);
  if (last == nullptr || !r.only_reader(id, reader) || !is_real(r.value(id))) return kNone;
  const bool adds = last->op == Op::kAdd;
  if ((last->op != Op::kClamp && !adds) || get_integer(*last, "clamp") != int(Clamp::kBounds)) return kNone;
  if (get_real(*last, "low") != 0 || double(get_real(*last, "high")) != high) return kNone;
  if (!adds) return operand_beside(r, last->inputs[0], *last, Op::kAdd, number);
  for (const size_t slot : {size_t{0}, size_t{1}})
    if (is_number(r, last->inputs[1 - slot], number)) return last->inputs[slot];
  return kNone;
}

// Returns the x of x sigmoid(x), or kNone. The sigmoid is in `slot`.
ValueId argument_of_silu(Rewriter& r, const Node& last, size_t slot) {
  const ValueId id = last.inputs[slot], x = last.inputs[1 - slot];
  const Node* const gate = r.writer(id);
  const bool gates = gate != nullptr && gate->op == Op::kSigmoid && gate->inputs[0] == x && r.only_reader(id, last) &&
                     is_real(r.value(id)) && !has_policy_of_its_own(r, *gate);
  return gates ? x : kNone;
}

// Returns the x of a hard_swish, or kNone.
ValueId argument_of_hard_swish(Rewriter& r, const Node& last, size_t slot) {
  const ValueId scaled = operand_of_clamped_sum(r, last.inputs[slot], last, 0.5, 1), x = last.inputs[1 - slot];
  if (scaled != kNone) {  // x / 6 is read once, by the sum
    const Node* const clamp = r.writer(last.inputs[slot]);
    const Node& sum = clamp->op == Op::kAdd ? *clamp : *r.writer(clamp->inputs[0]);
    return operand_beside(r, scaled, sum, Op::kMul, 1 / 6.0) == x ? x : kNone;
  }
  const std::array<ValueId, 3> factors = factors_of(r, last, slot);
  for (size_t gate = 0; factors[0] != kNone && gate < factors.size(); ++gate) {
    const Node& reader = gate < 2 ? *r.writer(last.inputs[slot]) : last;
    const ValueId inner = operand_of_clamped_sum(r, factors[gate], reader, 3, 6);
    const ValueId a = factors[(gate + 1) % 3], b = factors[(gate + 2) % 3];
    if (inner != kNone && ((a == inner && is_number(r, b, 1 / 6.0)) || (b == inner && is_number(r, a, 1 / 6.0))))
      return inner;
  }
  return kNone;
}

// Replaces the product `node`, and the steps before it, by one step of `op`, if `argument` finds the op's x.
template <class Argument>
bool fold_product(Rewriter& r, Node& node, Op op, const char* name, const Argument& argument) {
  if (!is_plain(r, &node, Op::kMul) || has_policy_of_its_own(r, node)) return false;
  for (const size_t slot : {size_t{0}, size_t{1}}) {
    const ValueId x = argument(r, node, slot);
    if (x == kNone || !is_real(r.value(x)) || r.value(x).dims != r.value(node.outputs[0]).dims) continue;
    r.log(std::string("made one ") + name + " of the steps before " + title(r, node));
    Node made;
    made.op = op;
    made.name = node.name;
    made.layer = node.layer;
    made.inputs = {x};
    made.outputs = {node.outputs[0]};
    if (op == Op::kGelu) set_integer(made, "tanh", 0);
    r.remove(node);
    r.insert_after_writer(x, std::move(made));
    return true;
  }
  return false;
}

}  // namespace

bool fold_gelu(Rewriter& r, Node& node) { return fold_product(r, node, Op::kGelu, "gelu", argument_of_gelu); }
bool fold_silu(Rewriter& r, Node& node) { return fold_product(r, node, Op::kSilu, "silu", argument_of_silu); }
bool fold_hard_swish(Rewriter& r, Node& node) {
  return fold_product(r, node, Op::kHardSwish, "hard_swish", argument_of_hard_swish);
}

}  // namespace nacre::tools
