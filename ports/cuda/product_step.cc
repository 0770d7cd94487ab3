#include "ports/cuda/product_step.h"

#include <algorithm>

#include "engine/ops/batched_matmul.h"
#include "ports/cuda/product_kernels.h"

namespace nacre::cuda {
namespace {

constexpr size_t kPiece = 256;                       // alignment of a piece of scratch
constexpr size_t kMostColumns = size_t{256} << 20;  // bytes: a convolution with more runs on its own kernel

// Y [rows, columns] = L' [rows, terms] R' [terms, columns], all in rows; `batch` of them one behind the other.
struct Factor {
  int operand;
  bool transposed;  // what lies there is the transpose of L' or R'
  bool repeated;    // it is the same for every one of the batch
};
struct Plan {
  int rows = 0, columns = 0, terms = 0, batch = 1;
  Factor left = {0, false, false}, right = {0, false, false};
  int windows = -1;  // the operand whose windows are that factor, as a matrix [rows of windows, length]
  bool sums = false, adds = false, zeros = false;
  int bias = -1;  // operand
};

bool type_of(ElementType element, LtType* type) {
  switch (element) {
    case ElementType::kFloat32: return *type = kLtF32, true;
    case ElementType::kFloat16: return *type = kLtF16, true;
    case ElementType::kBfloat16: return *type = kLtBf16, true;
    case ElementType::kInt8: return *type = kLtI8, true;
    case ElementType::kFloat8E4M3: return *type = kLtE4M3, true;
    default: return false;
  }
}
bool is_real(LtType type) { return type != kLtI8 && type != kLtE4M3; }
size_t bytes_of(LtType type) { return type == kLtF32 ? 4 : is_real(type) ? 2 : 1; }

bool single_pixels(const Conv2d& op) {
  const auto single = [](const WindowAxis& a) {
    return a.kernel == 1 && a.stride == 1 && a.before == 0 && a.out == a.in;
  };
  return single(op.window.h) && single(op.window.w);
}

// Of y = epilogue(x W^T): without a clamp, a function or a residual the library adds the bias and writes y itself.
bool plan_layer(const KernelEntry& entry, const Words& words, const Operands& operands, Plan* plan) {
  const ElementType x = entry.operands[0].element, y = entry.operands[entry.operand_count - 1].element;
  LtType type = kLtF32;
  if (!type_of(x, &type) || entry.operands[1].element != x || y == ElementType::kFloat64) return false;
  if (type == kLtE4M3 && entry.operands[3].element != ElementType::kFloat32) return false;  // scales are in the sum
  uint32_t clamp;
  if (entry.op == Op::kDense) {
    const Dense op = Dense::from(words, operands);
    plan->rows = op.rows, plan->columns = op.out, plan->terms = op.in;
    clamp = op.epilogue.clamp.kind;
  } else {
    const Conv2d op = Conv2d::from(words, operands);
    if (op.group_in != op.in_c) return false;
    plan->rows = product_rows(op), plan->columns = op.out_c, plan->terms = op.w_channel;
    if (!single_pixels(op)) plan->windows = 0;
    // The padding of a hybrid convolution is a zero point for each row of x.
    if (type == kLtI8 && entry.operand_count == 7 && plan->windows >= 0) return false;
    clamp = op.epilogue.clamp.kind;
  }
  plan->left = {0, false, false}, plan->right = {1, true, false};
  const bool plain = is_real(type) && y == x && entry.operand_count == 4 && clamp == Clamp::kNone;
  plan->sums = !plain;
  plan->zeros = type == kLtI8;
  if (plain && operands.has(2)) plan->bias = 2;
  return true;
}

bool plan_gradient(const KernelEntry& entry, const Words& words, const Operands& operands, Plan* plan) {
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
    case Op::kConv2dGradientX: {
      const auto op = Conv2dGradientX::from(words, operands);
      if (op.group_in != op.in_c || !single_pixels(op)) return false;
      plan->rows = product_rows(op), plan->columns = op.in_c, plan->terms = op.out_c;
      plan->left = {0, false, false}, plan->right = {1, false, false};
      return true;
    }
    default: {
      const auto op = Conv2dGradientW::from(words, operands);
      if (op.group_in != op.in_c) return false;
      plan->rows = op.out_c, plan->columns = op.w_channel, plan->terms = product_rows(op);
      if (!single_pixels(op)) plan->windows = 1;
    }
  }
  plan->left = {0, true, false}, plan->right = {1, false, false};
  return plan->adds = true;
}

// y = a' b', da' = dy b'^T and db' = a'^T dy; the transposes of these where what lies there is one.
bool plan_batched(const KernelEntry& entry, const Words& words, const Operands& operands, Plan* plan) {
  const auto op = BatchedMatmul::from(words, operands);
  const int a = op.a.product(0, op.a.rank), b = op.b.product(0, op.b.rank);
  const bool same = op.a.rank == op.b.rank && std::equal(op.a.dims, op.a.dims + op.a.rank, op.b.dims);
  plan->batch = std::max(a, b);
  if (entry.op == Op::kBatchedMatmul) {
    if (!same && a != 1 && b != 1) return false;
    plan->rows = op.m, plan->columns = op.n, plan->terms = op.k;
    plan->left = {0, op.transpose_a, a == 1}, plan->right = {1, op.transpose_b, b == 1};
    return true;
  }
  if (!same) return false;  // a sum over repetitions
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

bool plan_of(const KernelEntry& entry, const Words& words, const Operands& operands, Plan* plan) {
  LtType type = kLtF32;
  if (entry.operand_count < 3 || !type_of(entry.operands[0].element, &type)) return false;
  bool planned;
  switch (entry.op) {
    case Op::kDense:
    case Op::kConv2d: planned = plan_layer(entry, words, operands, plan); break;
    case Op::kDenseGradientX:
    case Op::kDenseGradientW:
    case Op::kConv2dGradientX:
    case Op::kConv2dGradientW: planned = plan_gradient(entry, words, operands, plan); break;
    case Op::kBatchedMatmul:
    case Op::kBatchedMatmulGradientA:
    case Op::kBatchedMatmulGradientB: planned = plan_batched(entry, words, operands, plan); break;
    default: return false;
  }
  return planned && plan->rows > 0 && plan->columns > 0 && plan->terms > 0;
}

size_t whole_pieces(size_t bytes) { return (bytes + kPiece - 1) / kPiece * kPiece; }

struct Pieces {
  size_t columns = 0, sums = 0, weights = 0;
  size_t all() const { return columns + sums + weights; }
};

// False: more than the device should give to one step.
bool pieces_of(const Plan& plan, LtType type, Pieces* pieces) {
  if (plan.windows >= 0) {
    // The windows of a layer are its left factor, [rows, terms]; those of a gradient its right one, [terms, columns].
    const size_t numbers = size_t(plan.terms) * size_t(plan.adds ? plan.columns : plan.rows);
    if (numbers * bytes_of(type) > kMostColumns) return false;
    pieces->columns = whole_pieces(numbers * bytes_of(type));
  }
  if (plan.sums) pieces->sums = whole_pieces(size_t(plan.rows) * size_t(plan.columns) * 4);
  if (plan.zeros) pieces->weights = whole_pieces(size_t(plan.columns) * 4);
  return true;
}

const char* columns_kernel(LtType type, bool of_gradient) {
  switch (type) {
    case kLtF32: return of_gradient ? "kGradientColumnsF32" : "kColumnsF32";
    case kLtF16: return of_gradient ? "kGradientColumnsF16" : "kColumnsF16";
    case kLtBf16: return of_gradient ? "kGradientColumnsBf16" : "kColumnsBf16";
    case kLtI8: return "kColumnsI8";
    default: return "kColumnsE4M3";
  }
}

// A step's operands, of its image.
struct OperandsOf {
  Tensor tensor[kMostOperands];
  explicit OperandsOf(const StepHead& image) : tensor() {
    const auto* operand = reinterpret_cast<const StepOperand*>(&image + 1);
    for (int i = 0; i < image.step.operand_count; ++i)
      if (operand[i].record.element != ElementType::kNone) tensor[i] = {operand[i].data, &operand[i].record};
  }
};

}  // namespace

size_t product_scratch(const KernelEntry& entry, const Words& words, const Operands& operands) {
  Plan plan;
  Pieces pieces;
  LtType type = kLtF32;
  if (!plan_of(entry, words, operands, &plan) || !type_of(entry.operands[0].element, &type)) return 0;
  return pieces_of(plan, type, &pieces) ? pieces.all() : 0;
}

bool product_of(const KernelEntry& entry, const StepHead& image, int rows, ProductStep* made) {
  const OperandsOf of(image);
  const Operands operands = {of.tensor, image.step.operand_count, rows};
  Plan plan;
  Pieces pieces;
  LtType type = kLtF32, out = kLtF32;
  if (image.guard != nullptr || !plan_of(entry, {image.words, image.step.word_count}, operands, &plan)) return false;
  type_of(entry.operands[0].element, &type);
  if (!pieces_of(plan, type, &pieces) || pieces.all() > image.scratch_bytes) return false;
  if (plan.sums) out = type == kLtI8 ? kLtI32 : kLtF32;
  else if (!type_of(entry.operands[entry.operand_count - 1].element, &out)) return false;

  *made = {};
  made->columns_at = image.scratch, made->sums_at = image.scratch + pieces.columns;
  made->weights_at = made->sums_at + pieces.sums;
  made->rows = plan.rows, made->out = plan.columns, made->terms = plan.terms;
  made->sums = plan.sums;
  if (plan.windows >= 0) made->columns = columns_kernel(type, plan.adds), made->columns_of = plan.windows;
  if (plan.zeros) made->weights = "kWeightSums";

  const auto matrix = [&](const Factor& f, int rows_of, int columns_of) {
    const void* const at = plan.windows == f.operand ? made->columns_at : of.tensor[f.operand].data;
    const int64_t stride = f.repeated || plan.batch == 1 ? 0 : int64_t{rows_of} * columns_of;
    return Product::Matrix{at, type, f.transposed, f.transposed ? rows_of : columns_of, stride};
  };
  // In columns Y^T = R'^T L'^T, and what lies in rows is its transpose already.
  Product& product = made->product;
  product = {.m = plan.columns,
             .n = plan.rows,
             .k = plan.terms,
             .batch = plan.batch,
             .a = {},
             .b = {},
             .d = {},
             .adds = plan.adds,
             .bias = plan.bias >= 0 ? of.tensor[plan.bias].data : nullptr};
  product.a = matrix(plan.right, plan.terms, plan.columns);
  product.b = matrix(plan.left, plan.rows, plan.terms);
  const void* const d = plan.sums ? made->sums_at : of.tensor[operands.count - 1].data;
  product.d = {d, out, false, plan.columns, plan.batch == 1 ? 0 : int64_t{plan.rows} * plan.columns};
  return true;
}

}  // namespace nacre::cuda
