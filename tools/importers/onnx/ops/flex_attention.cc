// Imports FlexAttention, whose scores are changed by graphs in its attributes.
#include <cmath>
#include <string>
#include <vector>

#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = Formula::Ints;

// y = prob_mod(softmax(score_mod(scale q k^T))) v on heads [B, H, L, D]. Head h of q reads head h / (H / G) of k and
// v [B, G, S, D].
void flex_attention(Import& import, const Source& source) {
  const OperandPtr &q = source.operand(0), &k = source.operand(1), &v = source.operand(2);
  if (q->rank() != 4 || k->rank() != 4 || v->rank() != 4) source.malformed("an operand does not have 4 axes");
  const int64_t batch = q->dims[0], heads = q->dims[1], rows = q->dims[2], width = q->dims[3];
  const int64_t groups = k->dims[1], keys = k->dims[2], out = v->dims[3];
  if (groups < 1 || heads % groups != 0 || k->dims != Ints{batch, groups, keys, width} ||
      v->dims != Ints{batch, groups, keys, out})
    source.malformed("its queries, keys and values do not fit each other");
  Formula f(import, source, Formula::kOpsetOfFile);
  const int64_t share = heads / groups;
  const auto product = [&](const Term& a, const Term& b, int64_t inner, int64_t columns) {
    const Term y = f("MatMul", {f.reshape(a, {batch, groups, share, rows, inner}),
                                f.reshape(b, {batch, groups, 1, inner, columns})});
    return f.reshape(y, {batch, heads, rows, columns});
  };
  const auto modified = [&](const char* key, const Term& x) {
    if (!source.has(key)) return x;
    const std::vector<Term> made = f.graph(source.graph(key), {x});
    if (made.size() != 1) source.malformed("its graph has another number of outputs than 1");
    return made[0];
  };
  const float scale = source.real("scale", 1 / std::sqrt(float(width)));
  const Term scores = product(f.input(0), f.transpose(f.input(1), {0, 1, 3, 2}), width, keys);
  const Term scaled = modified("score_mod", f("Mul", {scores, f.number(scale)}));
  const Term weights = modified("prob_mod", f("Softmax", {scaled}, {{"axis", int64_t{-1}}}));
  f.give(product(weights, f.input(2), keys, out));
  f.run();
}

constexpr OperatorImporter kPreviewImporters[] = {{"FlexAttention", flex_attention, kPreview}};

}  // namespace

std::span<const OperatorImporter> flex_attention_importers() { return kPreviewImporters; }

}  // namespace nacre::tools::onnx_import
