// Evaluates nodes that read only constants, with the reference kernels.
#include <algorithm>

#include "tools/graph/operands.h"
#include "tools/passes/simplify/simplify.h"

namespace nacre::tools {
namespace {

constexpr int64_t kMaxGrowth = 1 << 20;         // bytes that folding one node may add to the file
constexpr int64_t kMaxWork = int64_t{1} << 28;  // multiply-accumulates; a few seconds of the reference kernels

int64_t bytes_of(const Value& v) {
  return int64_t(storage_bytes(v.constant() ? v.stored : v.type, uint64_t(v.elements())));
}

bool plain_constant(const Value& v) { return v.constant() && !v.quantizer && v.stored == v.type; }

uint64_t output_bytes(const Rewriter& r, const Node& node) {
  uint64_t bytes = 0;
  for (const ValueId y : node.outputs) bytes += uint64_t(bytes_of(r.value(y)));
  return bytes;
}

bool worthwhile(const Rewriter& r, const Node& node) {
  int64_t growth = 0, work = 0;
  for (const ValueId y : node.outputs) growth += bytes_of(r.value(y)), work += r.value(y).elements();
  for (const ValueId x : node.inputs)
    if (x != kNone && r.only_reader(x, node)) growth -= bytes_of(r.value(x));
  if (is_matmul(node.op)) {
    const Value& w = r.value(node.inputs[1]);
    work *= std::max<int64_t>(1, w.elements() / (node.op == Op::kDepthwiseConv2d ? w.dims.back() : w.dims.front()));
  }
  return growth <= kMaxGrowth && work <= kMaxWork && r.graph.budget.has(output_bytes(r, node));
}

// Folds a node that moves codes. The codes keep their values and their quantizer; nothing is computed.
bool fold_codes(Rewriter& r, Node& node) {
  const ValueId x = node.inputs[0], y = node.outputs[0];
  if (element_bits(r.value(x).stored) < 8 || r.value(x).type != r.value(y).type) return false;
  ValueId folded = kNone;
  if (const Permutation perm = pure_transpose(r, &node); !perm.empty()) {
    if (!r.graph.budget.has(uint64_t(bytes_of(r.value(x))))) return false;
    r.graph.budget.spend(uint64_t(bytes_of(r.value(x))));
    folded = permuted_constant(r, x, perm);
  } else if (node.op == Op::kReshape && r.value(x).quantizer && r.value(x).quantizer->scale.size() == 1 &&
             (!r.value(y).quantizer || same_quantizer(r.value(x), r.value(y)))) {
    Value copy = r.value(x);
    copy.dims = r.value(y).dims;
    folded = r.add_value(std::move(copy), x);
  }
  if (folded == kNone) return false;
  r.log("folded " + title(r, node) + ": its codes are constant");
  r.remove(node);
  r.replace_reads(y, folded);
  return true;
}

}  // namespace

bool fold_constants(Rewriter& r, Node& node) {
  bool codes = false;
  for (const ValueId x : node.inputs) {
    if (x == kNone) continue;
    if (!r.value(x).constant()) return false;
    if (r.stays_apart(x, node)) return false;
    if (r.shared(x) && (node.op == Op::kTranspose || node.op == Op::kReshape)) return false;
    codes = codes || !plain_constant(r.value(x));
  }
  const bool bound = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId y) { return r.is_output(y); });
  if (bound || node.inputs.empty()) return false;
  if (codes) return fold_codes(r, node);
  const bool quantized = std::any_of(node.outputs.begin(), node.outputs.end(),
                                     [&](ValueId y) { return r.value(y).quantizer.has_value(); });
  if (quantized || node.op == Op::kQuantize || node.op == Op::kDequantize) return false;
  if (!worthwhile(r, node) || find_kernel(r.graph, node) == nullptr) return false;
  r.graph.budget.spend(output_bytes(r, node));
  std::vector<std::vector<uint8_t>> results = evaluate(r.graph, node);
  r.log("folded " + title(r, node) + ": its inputs are constant");
  const std::vector<ValueId> outputs = node.outputs;
  std::vector<const Value*> sources;
  for (const ValueId x : node.inputs)
    if (x != kNone) sources.push_back(&r.value(x));
  r.remove(node);
  for (size_t i = 0; i < outputs.size(); ++i) {
    Value& y = r.value(outputs[i]);
    take_training_flags(y, sources);
    y.data = std::make_shared<const std::vector<uint8_t>>(std::move(results[i]));
    y.stored = y.type;
    y.region = Region::kWeights;
    y.batched = false;
  }
  return true;
}

}  // namespace nacre::tools
