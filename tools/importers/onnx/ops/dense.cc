// Imports Gemm and MatMul. With a stored matrix of weights they are the op dense, y = x w^T + b with w [out, in].
// Without one they are the op batched_matmul.
#include <algorithm>
#include <bit>
#include <cmath>

#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/import.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

// Returns the weights of a dense layer times `factor`. Decodes codes that have a zero point or a factor, because the
// engine's integer kernels take symmetric weights only.
Value dense_weights(Import& import, const Value& w, float factor) {
  const bool symmetric =
      !w.quantizer || std::all_of(w.quantizer->zero.begin(), w.quantizer->zero.end(), [](int64_t z) { return z == 0; });
  if (symmetric && factor == 1) return w;
  const Value real = decoded(w);
  if (w.quantizer) import.log().add("quantized weights with a zero point or a factor are decoded to float32");
  std::vector<float> numbers = reals(real);
  for (float& number : numbers) number *= factor;
  return make_constant(w.name, ElementType::kFloat32, real.dims, numbers);
}

// The operand `of` after `moves`: w [in, out], or [out, in] if `transposed`.
struct Weights {
  const OperandPtr& of;
  Moves moves;
  Value w;
  bool transposed;
  bool whole = true;  // no factor was multiplied into it
};

ValueId dense(Import& import, ValueId x, Weights weights, ValueId bias) {
  Value& w = weights.w;
  if (!weights.transposed) {
    w = permuted(w, {1, 0});
    weights.moves.push_back(Move::transpose({1, 0}));
  }
  w.name = weights.of->name;
  Node node = import.step(Op::kDense);
  node.inputs = {x, import.parameters().parameter(weights.of, weights.moves, std::move(w)), bias};
  if (weights.of->blocks && weights.whole) keep_blocks(import, node, *weights.of, weights.transposed);
  return import.append(std::move(node), import.output_name());
}

Moves scaled_by(float factor) {
  return factor == 1 ? Moves() : Moves{Move::other("times " + std::to_string(std::bit_cast<uint32_t>(factor)))};
}

const Value& stored_weights(const Source& source, int input) {
  const Value& w = source.constant(input, "its second operand");
  if (w.type != ElementType::kFloat32) source.refuse("weights of another type than float32");
  return w;
}

// Returns the numbers of C as one bias per column if C is a row or one number; else nullopt.
std::optional<std::vector<float>> row_bias(const Value& c, int64_t columns) {
  const int64_t elements = c.elements();
  const bool row = !c.dims.empty() && c.dims.back() == columns && elements == columns;
  if (!row && elements != 1) return std::nullopt;
  std::vector<float> numbers = reals(c);
  numbers.resize(size_t(columns), numbers[0]);
  return numbers;
}

ValueId gemm_bias(Import& import, const Source& source, int64_t columns, float beta) {
  const OperandPtr& c = source.operand(2);
  if (!c->constant || c->type != ElementType::kFloat32) return kNone;
  if (beta == 1 && c->constant->dims == std::vector<int64_t>{columns}) return import.plain(c);  // keeps its codes
  std::optional<std::vector<float>> numbers = row_bias(*c->constant, columns);
  if (!numbers) return kNone;
  for (float& number : *numbers) number *= beta;
  Moves moves = scaled_by(beta);
  moves.push_back(c->constant->elements() == columns ? Move::reshape({columns})
                                                     : Move::other("repeated to " + std::to_string(columns)));
  return import.parameters().parameter(c, moves, make_constant(c->name, ElementType::kFloat32, {columns}, *numbers));
}

ValueId times(Import& import, ValueId x, float factor, const std::string& name) {
  Node node = import.step(Op::kMul);
  node.inputs = {x, import.reals(name, {1}, {factor})};
  return import.append(std::move(node), name + "/product");
}

// Adds beta C to y.
ValueId plus(Import& import, const Source& source, ValueId y, float beta) {
  need_float32(source, *source.operand(2));
  ValueId c = import.plain(source.operand(2));
  if (beta != 1) c = times(import, c, beta, source.name + "/beta");
  Node add = import.step(Op::kAdd);
  add.inputs = {y, c};
  return import.append(std::move(add), import.output_name());
}

// Imports a Gemm of two matrices that are computed at run time.
void gemm_at_run_time(Import& import, const Source& source) {
  const OperandPtr &a = source.operand(0), &b = source.operand(1);
  need_float32(source, *b);
  if (a->rank() != 2 || b->rank() != 2) source.malformed("its operands are not matrices");
  Node node = import.step(Op::kBatchedMatmul);
  for (const auto& [x, flag] : {std::pair(&a, "transA"), std::pair(&b, "transB")}) {
    const ValueId plain = import.plain(*x);
    node.inputs.push_back(source.integer(flag, 0) != 0 ? import.transposed(plain, {1, 0}, (*x)->name + "/transposed")
                                                       : plain);
  }
  const float alpha = source.real("alpha", 1), beta = source.real("beta", 1);
  if (alpha != 1) node.inputs[0] = times(import, node.inputs[0], alpha, source.name + "/alpha");
  ValueId y = import.append(std::move(node), import.output_name());
  if (source.given(2) && beta != 0) y = plus(import, source, y, beta);
  import.give_plain(0, y);
}

// y = alpha A' B' + beta C. A' and B' are A and B or their transposes. alpha goes into stored weights, beta into a
// bias. In a graph that is to be trained both are Mul nodes, because the gradients of B and C have them as factors.
void gemm(Import& import, const Source& source) {
  const OperandPtr& a = source.operand(0);
  need_float32(source, *a);
  if (!source.operand(1)->constant) return gemm_at_run_time(import, source);
  const Value& w = stored_weights(source, 1);
  if (a->rank() != 2 || w.dims.size() != 2 || w.elements() == 0) source.malformed("its operands are not matrices");
  const bool transpose_b = source.integer("transB", 0) != 0;
  const int64_t columns = w.dims[transpose_b ? 0 : 1];
  ValueId x = import.plain(a);
  if (source.integer("transA", 0) != 0) x = import.transposed(x, {1, 0}, a->name + "/transposed");
  const bool has_c = source.given(2);
  const float beta = source.real("beta", 1);
  const ValueId bias =
      has_c && !(import.options().train && beta != 1) ? gemm_bias(import, source, columns, beta) : kNone;
  float alpha = source.real("alpha", 1);
  if (import.options().train && alpha != 1) {
    x = times(import, x, alpha, source.name + "/alpha");
    alpha = 1;
  }
  ValueId y = dense(
      import, x, {source.operand(1), scaled_by(alpha), dense_weights(import, w, alpha), transpose_b, alpha == 1}, bias);
  if (has_c && bias == kNone && beta != 0) y = plus(import, source, y, beta);
  import.give_plain(0, y);
}

// Returns x as a matrix or a stack of matrices. A vector becomes a row on the left and a column on the right.
ValueId matrices(Import& import, const OperandPtr& x, bool left) {
  const ValueId plain = import.plain(x);
  if (x->rank() > 1) return plain;
  const std::vector<int64_t> dims = left ? std::vector<int64_t>{1, x->dims[0]} : std::vector<int64_t>{x->dims[0], 1};
  return import.reshaped(plain, dims, x->name + "/matrix");
}

// Multiplies matrices if the right operand is computed at run time, is a stored stack of matrices or has more axes than
// the left one, or if the left one is stored in a graph that is to be trained.
void batched_matmul(Import& import, const Source& source) {
  const OperandPtr &a = source.operand(0), &b = source.operand(1);
  if (a->rank() == 0 || b->rank() == 0) source.malformed("its operands are not matrices");
  Node node = import.step(Op::kBatchedMatmul);
  node.inputs = {matrices(import, a, true), matrices(import, b, false)};
  const ValueId y = import.append(std::move(node), import.output_name());
  std::vector<int64_t> dims = import.value(y).dims;
  if (b->rank() == 1) dims.pop_back();
  if (a->rank() == 1) dims.erase(dims.end() - (b->rank() == 1 ? 1 : 2));
  import.give_plain(0, import.reshaped(y, dims, import.output_name() + "/shape"));
}

// Multiplies x [.., in] by w [in, out] or [in], or by w [1, .., in, out].
void matmul(Import& import, const Source& source) {
  const OperandPtr &a = source.operand(0), &b = source.operand(1);
  need_float32(source, *a);
  need_float32(source, *b);
  const bool stack =
      b->constant && b->rank() > 2 && std::any_of(b->dims.begin(), b->dims.end() - 2, [](int64_t d) { return d != 1; });
  const bool trained = import.options().train && a->constant;
  if (!b->constant || stack || trained || b->rank() > std::max(a->rank(), 2)) return batched_matmul(import, source);
  Value w = dense_weights(import, stored_weights(source, 1), 1);
  if (w.elements() == 0 || w.dims.empty() || a->rank() == 0) source.malformed("its operands are not matrices");
  const bool vector = w.dims.size() == 1;
  while (w.dims.size() > 2 && w.dims[0] == 1) {
    if (w.quantizer && w.quantizer->scale.size() > 1) --w.quantizer->axis;
    w.dims.erase(w.dims.begin());
  }
  if (vector) w = reshaped(w, {w.dims[0], 1});
  const Moves moves = {Move::reshape(w.dims)};
  const int64_t columns = w.dims[1];
  ValueId x = import.plain(a);
  std::vector<int64_t> dims = a->dims;
  if (a->rank() == 1) x = import.reshaped(x, {1, dims[0]}, a->name + "/row");
  ValueId y = dense(import, x, {b, moves, std::move(w), false}, kNone);
  if (vector || a->rank() == 1) {
    dims.pop_back();
    if (!vector) dims.push_back(columns);
    y = import.reshaped(y, dims, import.output_name() + "/shape");
  }
  import.give_plain(0, y);
}

constexpr OperatorImporter kDenseImporters[] = {{"Gemm", gemm}, {"MatMul", matmul}};

}  // namespace

std::span<const OperatorImporter> dense_importers() { return kDenseImporters; }

}  // namespace nacre::tools::onnx_import
