#include "ports/cuda/product_plan.h"

#include <algorithm>
#include <utility>

#include "engine/ops/batched_matmul.h"
#include "ports/cuda/product_kernels.h"

namespace nacre::cuda {
namespace {

bool is_float8(LtType type) { return type == kLtE4M3 || type == kLtE5M2; }
bool is_real(LtType type) { return type != kLtI8 && !is_float8(type); }

bool single_pixels(const Conv2d& op) {
  const auto single = [](const WindowAxis& a) {
    return a.kernel == 1 && a.stride == 1 && a.before == 0 && a.out == a.in;
  };
  return single(op.window.h) && single(op.window.w);
}

// Lets the library scale float8 products if x and w have one scale each. The library adds only 16-bit biases to them.
void plan_scales(const KernelEntry& entry, const Operands& operands, uint32_t clamp, Plan* plan) {
  const bool one_each = operands[3].elements() == 1 && operands[4].elements() == 1;
  const bool adds = !operands.has(2) || (entry.operands[2].element != ElementType::kFloat32 && !plan->grouped);
  if (clamp != Clamp::kNone || entry.operand_count != 6 || !one_each || !adds) return;
  plan->sums = false;
  plan->right_scale = 3, plan->left_scale = 4;
  if (operands.has(2)) plan->bias = 2;
}

// Returns whether the library adds a bias to the sums. It does not for groups or for float64. For sizes that Tensor
// Cores do not take it rounds sums to 16 bits before it adds a 16-bit bias (seen on an H100).
bool adds_bias(LtType type, int groups, const Plan& plan) {
  const bool halves = type == kLtF16 || type == kLtBf16;
  return groups == 1 && type != kLtF64 && (!halves || (plan.terms % 8 == 0 && plan.columns % 8 == 0));
}

// Plans y = epilogue(x W^T). Without a clamp, a function or a residual the library adds the bias and writes y itself.
bool plan_layer(const KernelEntry& entry, const Words& words, const Operands& operands, Plan* plan) {
  const ElementType x = entry.operands[0].element, y = entry.operands[entry.operand_count - 1].element;
  LtType type = kLtF32, other = kLtF32, made = kLtF32;
  if (!type_of(x, &type) || !type_of(entry.operands[1].element, &other) || !type_of(y, &made)) return false;
  if (made == kLtF64 && x != y) return false;
  if (other != type && !(type == kLtE5M2 && other == kLtE4M3)) return false;
  if (is_float8(type) && entry.operands[3].element != ElementType::kFloat32) return false;  // scales vary within a sum
  uint32_t clamp;
  int groups = 1;
  if (entry.op == Op::kDense) {
    const Dense op = Dense::from(words, operands);
    plan->rows = op.rows, plan->columns = op.out, plan->terms = op.in;
    clamp = op.epilogue.clamp.kind;
  } else {
    const Conv2d op = Conv2d::from(words, operands);
    plan->rows = product_rows(op), plan->columns = op.group_out, plan->terms = op.w_channel;
    groups = op.in_c / op.group_in;
    if (!single_pixels(op)) plan->windows = 0;
    // A hybrid convolution with windows is refused, because its padding is a zero point for each row of x.
    if (type == kLtI8 && entry.operand_count == 7 && plan->windows >= 0) return false;
    clamp = op.epilogue.clamp.kind;
  }
  plan->left = {0, false, false}, plan->right = {1, true, false};
  plan->take_groups(groups, false);
  const bool adds = !operands.has(2) || adds_bias(type, groups, *plan);
  const bool plain = is_real(type) && y == x && entry.operand_count == 4 && clamp == Clamp::kNone && adds;
  plan->sums = !plain;
  plan->zeros = type == kLtI8;
  if (plain && operands.has(2)) plan->bias = 2;
  if (is_float8(type)) plan_scales(entry, operands, clamp, plan);
  return type != kLtE5M2 || !plan->sums;
}

// Plans dw += (t_dy t_x) dy^T x. Both factors are transposed, so that the library finds them contiguous along the
// sum.
bool plan_turned(int groups, Plan* plan) {
  plan->left = {0, false, false}, plan->right = {1, true, false};
  plan->left_scale = 2, plan->right_scale = 3;
  plan->batch = groups, plan->grouped = groups > 1;
  return plan->adds = plan->turned = true;
}

bool plan_gradient(const KernelEntry& entry, const Words& words, const Operands& operands, Plan* plan) {
  int groups = 1;
  switch (entry.op) {
    case Op::kDenseGradientX: {
      const auto op = DenseGradientX::from(words, operands);
      plan->rows = op.rows, plan->columns = op.in, plan->terms = op.out;
      plan->left = {0, false, false}, plan->right = {1, false, false};
      return true;
    }
    case Op::kDenseGradientW: {
      const auto op = DenseGradientW::from(words, operands);
      plan->rows = op.out, plan->columns = op.in, plan->terms = op.rows;
      break;
    }
    case Op::kDenseFloat8GradientW: {
      const auto op = DenseFloat8GradientW::from(words, operands);
      plan->rows = op.out, plan->columns = op.in, plan->terms = op.rows;
      return plan_turned(1, plan);
    }
    case Op::kConv2dGradientX: {
      const auto op = Conv2dGradientX::from(words, operands);
      plan->rows = op.batch * op.window.h.in * op.window.w.in, plan->columns = op.group_in;
      plan->terms = op.window.h.kernel * op.window.w.kernel * op.group_out;
      if (!single_pixels(op)) plan->windows = 0, plan->uses = true;
      const bool codes = entry.operand_count == 5;
      if (codes) plan->right_scale = 2, plan->left_scale = 3;
      plan->turns_weights = plan->uses || codes;
      plan->left = {0, false, false}, plan->right = {1, codes, false};
      plan->take_groups(op.in_c / op.group_in, false);
      return true;
    }
    default: {
      const auto op = Conv2dGradientW::from(words, operands);
      plan->rows = op.group_out, plan->columns = op.w_channel, plan->terms = product_rows(op);
      if (!single_pixels(op)) plan->windows = 1;
      groups = op.in_c / op.group_in;
      if (entry.op == Op::kConv2dFloat8GradientW) return plan_turned(groups, plan);
    }
  }
  plan->left = {0, true, false}, plan->right = {1, false, false};
  plan->take_groups(groups, true);
  return plan->adds = true;
}

// Plans y = a' b', da' = dy b'^T and db' = a'^T dy. If a' or b' is stored transposed, its gradient is made
// transposed.
bool plan_batched(const KernelEntry& entry, const Words& words, const Operands& operands, Plan* plan) {
  const auto op = BatchedMatmul::from(words, operands);
  const int a = op.a.product(0, op.a.rank), b = op.b.product(0, op.b.rank);
  const bool same = op.a.rank == op.b.rank && std::equal(op.a.dims, op.a.dims + op.a.rank, op.b.dims);
  plan->batch = std::max(a, b);
  if (entry.op == Op::kBatchedMatmul) {
    if (entry.rounding != Rounding::kNone) return false;  // codes have zero points in the sum
    if (!same && a != 1 && b != 1) return false;
    plan->rows = op.m, plan->columns = op.n, plan->terms = op.k;
    plan->left = {0, op.transpose_a, a == 1}, plan->right = {1, op.transpose_b, b == 1};
    return true;
  }
  if (!same) return false;  // the gradient would be a sum over repetitions
  if (entry.op == Op::kBatchedMatmulGradientA) {
    plan->rows = op.m, plan->columns = op.k, plan->terms = op.n;
    plan->left = {2, false, false}, plan->right = {1, !op.transpose_b, false};
    if (!op.transpose_a) return true;
  } else {
    plan->rows = op.k, plan->columns = op.n, plan->terms = op.m;
    plan->left = {0, !op.transpose_a, false}, plan->right = {2, false, false};
    if (!op.transpose_b) return true;
  }
  std::swap(plan->rows, plan->columns);
  std::swap(plan->left, plan->right);
  plan->left.transposed = !plan->left.transposed, plan->right.transposed = !plan->right.transposed;
  return true;
}

}  // namespace

bool type_of(ElementType element, LtType* type) {
  switch (element) {
    case ElementType::kFloat32: return *type = kLtF32, true;
    case ElementType::kFloat64: return *type = kLtF64, true;
    case ElementType::kFloat16: return *type = kLtF16, true;
    case ElementType::kBfloat16: return *type = kLtBf16, true;
    case ElementType::kInt8: return *type = kLtI8, true;
    case ElementType::kFloat8E4M3: return *type = kLtE4M3, true;
    case ElementType::kFloat8E5M2: return *type = kLtE5M2, true;
    default: return false;
  }
}

size_t bytes_of(LtType type) {
  if (type == kLtF64) return 8;
  return type == kLtF32 || type == kLtI32 ? 4 : type == kLtF16 || type == kLtBf16 ? 2 : 1;
}

bool plan_of(const KernelEntry& entry, const Words& words, const Operands& operands, Plan* plan) {
  LtType type = kLtF32;
  if (entry.operand_count < 3 || !type_of(entry.operands[0].element, &type)) return false;
  bool planned;
  switch (entry.op) {
    case Op::kDense:
    case Op::kConv2d: planned = plan_layer(entry, words, operands, plan); break;
    case Op::kDenseGradientX:
    case Op::kDenseGradientW:
    case Op::kDenseFloat8GradientW:
    case Op::kConv2dGradientX:
    case Op::kConv2dGradientW:
    case Op::kConv2dFloat8GradientW: planned = plan_gradient(entry, words, operands, plan); break;
    case Op::kBatchedMatmul:
    case Op::kBatchedMatmulGradientA:
    case Op::kBatchedMatmulGradientB: planned = plan_batched(entry, words, operands, plan); break;
    default: return false;
  }
  if (!planned || plan->rows < 1 || plan->columns < 1 || plan->terms < 1) return false;
  if (plan->sums) plan->result = type == kLtI8 ? kLtI32 : type == kLtF64 ? kLtF64 : kLtF32;
  else if (!type_of(entry.operands[entry.operand_count - 1].element, &plan->result)) return false;
  plan->whole_terms = whole(plan->terms, is_float8(type) ? 16 : type == kLtI8 ? 4 : 1);
  plan->whole_columns = whole(plan->columns, is_real(type) ? 1 : int(16 / bytes_of(plan->result)));
  return true;
}

}  // namespace nacre::cuda
