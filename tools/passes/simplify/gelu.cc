// Replaces a gelu that a file computes by erf, as exporters write it,
//
//   y = x c (1 + erf(x / sqrt(2)))          c = 1/2; the factors of the product in any order
//
// by one step that computes the same function (ops/gelu.h). All values must be real, and only these steps may read the
// intermediate values. If a quantizer stands between, or another step reads one of them, the file's own steps stay.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "engine/ops/binary.h"
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

}  // namespace

bool fold_gelu(Rewriter& r, Node& node) {
  if (!is_plain(r, &node, Op::kMul) || has_policy_of_its_own(r, node)) return false;
  for (const size_t slot : {size_t{0}, size_t{1}}) {
    const ValueId x = argument_of_gelu(r, node, slot);
    if (x == kNone || !is_real(r.value(x)) || r.value(x).dims != r.value(node.outputs[0]).dims) continue;
    r.log("made one gelu of the steps before " + title(r, node));
    Node gelu;
    gelu.op = Op::kGelu;
    gelu.name = node.name;
    gelu.layer = node.layer;
    gelu.inputs = {x};
    gelu.outputs = {node.outputs[0]};
    set_integer(gelu, "tanh", 0);
    r.remove(node);
    r.insert_after_writer(x, std::move(gelu));
    return true;
  }
  return false;
}

}  // namespace nacre::tools
