#include "ports/cuda/product_step.h"

#include <algorithm>
#include <utility>

#include "engine/ops/batched_matmul.h"
#include "ports/cuda/product_kernels.h"

namespace nacre::cuda {
namespace {

constexpr size_t kPiece = 256;                      // alignment of a piece of scratch
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
  int windows = -1;   // the operand whose windows are that factor, as a matrix [rows of windows, length]
  bool uses = false;  // these windows are uses of dy, and the other factor is w turned
  bool sums = false, adds = false, zeros = false;
  bool turned = false;                               // both factors lie there as their transposes, and are copied
  int bias = -1, left_scale = -1, right_scale = -1;  // operands
  LtType result = kLtF32;                            // of what the library writes
  // Terms and columns in whole units of what the library takes.
  int whole_terms = 0, whole_columns = 0;
};

bool type_of(ElementType element, LtType* type) {
  switch (element) {
    case ElementType::kFloat32: return *type = kLtF32, true;
    case ElementType::kFloat16: return *type = kLtF16, true;
    case ElementType::kBfloat16: return *type = kLtBf16, true;
    case ElementType::kInt8: return *type = kLtI8, true;
    case ElementType::kFloat8E4M3: return *type = kLtE4M3, true;
    case ElementType::kFloat8E5M2: return *type = kLtE5M2, true;
    default: return false;
  }
}
int whole(int n, int unit) { return (n + unit - 1) / unit * unit; }
bool is_float8(LtType type) { return type == kLtE4M3 || type == kLtE5M2; }
bool is_real(LtType type) { return type != kLtI8 && !is_float8(type); }
size_t bytes_of(LtType type) {
  return type == kLtF32 || type == kLtI32 ? 4 : type == kLtF16 || type == kLtBf16 ? 2 : 1;
}

bool single_pixels(const Conv2d& op) {
  const auto single = [](const WindowAxis& a) {
    return a.kernel == 1 && a.stride == 1 && a.before == 0 && a.out == a.in;
  };
  return single(op.window.h) && single(op.window.w);
}

// Of float8 the library multiplies by the scales itself where x and w have one each; it adds a bias of 16 bits alone.
void plan_scales(const KernelEntry& entry, const Operands& operands, uint32_t clamp, Plan* plan) {
  const bool one_each = operands[3].elements() == 1 && operands[4].elements() == 1;
  const bool adds = !operands.has(2) || entry.operands[2].element != ElementType::kFloat32;
  if (clamp != Clamp::kNone || entry.operand_count != 6 || !one_each || !adds) return;
  plan->sums = false;
  plan->right_scale = 3, plan->left_scale = 4;
  if (operands.has(2)) plan->bias = 2;
}

// Of y = epilogue(x W^T): without a clamp, a function or a residual the library adds the bias and writes y itself.
bool plan_layer(const KernelEntry& entry, const Words& words, const Operands& operands, Plan* plan) {
  const ElementType x = entry.operands[0].element, y = entry.operands[entry.operand_count - 1].element;
  LtType type = kLtF32, other = kLtF32;
  if (!type_of(x, &type) || !type_of(entry.operands[1].element, &other) || y == ElementType::kFloat64) return false;
  if (other != type && !(type == kLtE5M2 && other == kLtE4M3)) return false;
  if (is_float8(type) && entry.operands[3].element != ElementType::kFloat32) return false;  // scales are in the sum
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
  if (is_float8(type)) plan_scales(entry, operands, clamp, plan);
  return type != kLtE5M2 || !plan->sums;
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
    case Op::kDenseFloat8GradientW: {
      const auto op = DenseFloat8GradientW::from(words, operands);
      plan->rows = op.out, plan->columns = op.in, plan->terms = op.rows;
      plan->left = {0, false, false}, plan->right = {1, true, false};
      plan->left_scale = 2, plan->right_scale = 3;
      return plan->adds = plan->turned = true;
    }
    case Op::kConv2dGradientX: {
      const auto op = Conv2dGradientX::from(words, operands);
      if (op.group_in != op.in_c) return false;
      plan->rows = op.batch * op.window.h.in * op.window.w.in, plan->columns = op.in_c;
      plan->terms = op.window.h.kernel * op.window.w.kernel * op.out_c;
      if (!single_pixels(op)) plan->windows = 0, plan->uses = true;
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
    case Op::kDenseFloat8GradientW:
    case Op::kConv2dGradientX:
    case Op::kConv2dGradientW: planned = plan_gradient(entry, words, operands, plan); break;
    case Op::kBatchedMatmul:
    case Op::kBatchedMatmulGradientA:
    case Op::kBatchedMatmulGradientB: planned = plan_batched(entry, words, operands, plan); break;
    default: return false;
  }
  if (!planned || plan->rows < 1 || plan->columns < 1 || plan->terms < 1) return false;
  if (plan->sums) plan->result = type == kLtI8 ? kLtI32 : kLtF32;
  else if (!type_of(entry.operands[entry.operand_count - 1].element, &plan->result)) return false;
  plan->whole_terms = whole(plan->terms, is_float8(type) ? 16 : type == kLtI8 ? 4 : 1);
  plan->whole_columns = whole(plan->columns, is_real(type) ? 1 : int(16 / bytes_of(plan->result)));
  return true;
}

size_t whole_pieces(size_t bytes) { return (bytes + kPiece - 1) / kPiece * kPiece; }

// A factor as it lies in memory: `count` matrices of [rows, columns], from one to the next `stride` elements.
struct Laid {
  int count, rows, columns, whole_rows, whole_columns;
  int64_t stride;

  // What the copy is of, which has the whole sizes, or as rows the matrices of a batch.
  CopyOfRows copy(LtType type, bool turned = false) const {
    CopyOfRows made = {nullptr, nullptr, bytes_of(type), rows, columns, whole_rows, whole_columns, turned};
    if (count > 1) made.rows = made.to_rows = count, made.columns = rows * columns, made.to_columns = int(stride);
    return made;
  }
};

bool is_needed(const CopyOfRows& copy) {
  return copy.rows != copy.to_rows || copy.columns != copy.to_columns || copy.turned;
}
size_t bytes_to(const CopyOfRows& copy) {
  return is_needed(copy) ? whole_pieces(size_t(copy.to_rows) * size_t(copy.to_columns) * copy.element_bytes) : 0;
}

// Matrices of a batch begin at multiples of 16 bytes; one that is repeated is no batch.
Laid laid(const Plan& plan, LtType type, bool repeated, int rows, int columns, int whole_rows, int whole_columns) {
  Laid made = {repeated ? 1 : plan.batch, rows, columns, whole_rows, whole_columns, 0};
  if (made.count > 1) made.stride = whole(rows * columns, int(16 / bytes_of(type)));
  return made;
}
Laid laid_left(const Plan& plan, LtType type) {
  const Factor& f = plan.left;
  return f.transposed ? laid(plan, type, f.repeated, plan.terms, plan.rows, plan.whole_terms, plan.rows)
                      : laid(plan, type, f.repeated, plan.rows, plan.terms, plan.rows, plan.whole_terms);
}
Laid laid_right(const Plan& plan, LtType type) {
  const Factor& f = plan.right;
  return f.transposed ? laid(plan, type, f.repeated, plan.columns, plan.terms, plan.whole_columns, plan.whole_terms)
                      : laid(plan, type, f.repeated, plan.terms, plan.columns, plan.whole_terms, plan.whole_columns);
}
Laid laid_result(const Plan& plan) {
  return laid(plan, plan.result, false, plan.rows, plan.columns, plan.rows, plan.whole_columns);
}

struct Pieces {
  size_t columns = 0, sums = 0, weights = 0, left = 0, right = 0, result = 0;
  size_t all() const { return columns + sums + weights + left + right + result; }
};

// False: more than the device should give to one step.
bool pieces_of(const Plan& plan, LtType type, Pieces* pieces) {
  if (plan.windows >= 0) {
    // The windows of a layer are its left factor, [rows, terms]; those of a gradient of w its right one.
    const size_t numbers =
        plan.adds ? size_t(plan.terms) * size_t(plan.columns) : size_t(plan.rows) * size_t(plan.whole_terms);
    if (numbers * bytes_of(type) > kMostColumns) return false;
    pieces->columns = whole_pieces(numbers * bytes_of(type));
  }
  if (plan.sums) pieces->sums = whole_pieces(size_t(plan.rows) * size_t(plan.whole_columns) * 4);
  if (plan.zeros) pieces->weights = whole_pieces(size_t(plan.columns) * 4);
  if (plan.uses) pieces->weights = whole_pieces(size_t(plan.terms) * size_t(plan.columns) * bytes_of(type));
  if (plan.windows != plan.left.operand) pieces->left = bytes_to(laid_left(plan, type).copy(type, plan.turned));
  if (plan.windows != plan.right.operand && !plan.uses)
    pieces->right = bytes_to(laid_right(plan, type).copy(type, plan.turned));
  if (!plan.sums) pieces->result = bytes_to(laid_result(plan).copy(plan.result));
  return true;
}

const char* columns_kernel(LtType type, const Plan& plan) {
  const auto one_of = [&](const char* layer, const char* gradient_w, const char* gradient_x) {
    return plan.uses ? gradient_x : plan.adds ? gradient_w : layer;
  };
  switch (type) {
    case kLtF32: return one_of("kColumnsF32", "kGradientColumnsF32", "kUsesF32");
    case kLtF16: return one_of("kColumnsF16", "kGradientColumnsF16", "kUsesF16");
    case kLtBf16: return one_of("kColumnsBf16", "kGradientColumnsBf16", "kUsesBf16");
    case kLtI8: return "kColumnsI8";
    default: return "kColumnsE4M3";
  }
}
const char* turned_kernel(LtType type) {
  return type == kLtF32 ? "kTurnedWeightsF32" : type == kLtF16 ? "kTurnedWeightsF16" : "kTurnedWeightsBf16";
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
  LtType type = kLtF32;
  if (image.guard != nullptr || !plan_of(entry, {image.words, image.step.word_count}, operands, &plan)) return false;
  type_of(entry.operands[0].element, &type);
  if (!pieces_of(plan, type, &pieces) || pieces.all() > image.scratch_bytes) return false;

  *made = {};
  std::byte* at = image.scratch;
  const auto piece = [&](size_t bytes) { return std::exchange(at, at + bytes); };
  made->columns_at = piece(pieces.columns), made->sums_at = piece(pieces.sums),
  made->weights_at = piece(pieces.weights);
  made->out = plan.columns;
  made->sums = plan.sums;
  made->row_of_columns = plan.adds ? plan.columns : plan.whole_terms, made->row_of_sums = plan.whole_columns;
  made->columns_numbers = uint64_t(plan.adds ? plan.terms : plan.rows) * uint64_t(made->row_of_columns);
  made->turned_numbers = uint64_t(plan.terms) * uint64_t(plan.columns);
  if (plan.windows >= 0) made->columns = columns_kernel(type, plan);
  if (plan.uses) made->turned = turned_kernel(type);
  if (plan.zeros) made->weights = "kWeightSums";

  const auto factor = [&](const Factor& f, const Laid& laid, size_t bytes, CopyOfRows* copy) {
    const void* data = plan.windows == f.operand                      ? made->columns_at
                       : plan.uses && f.operand == plan.right.operand ? made->weights_at
                                                                      : of.tensor[f.operand].data;
    if (bytes != 0) *copy = laid.copy(type, plan.turned), copy->from = data, copy->to = piece(bytes), data = copy->to;
    LtType own = type;
    type_of(entry.operands[f.operand].element, &own);
    return Product::Matrix{data, own, f.transposed, laid.whole_columns, laid.stride};
  };
  const auto data_of = [&](int operand) { return operand < 0 ? nullptr : of.tensor[operand].data; };
  // In columns Y^T = R'^T L'^T, and what lies in rows is its transpose already.
  Product& product = made->product;
  product = {.m = plan.whole_columns,
             .n = plan.rows,
             .k = plan.whole_terms,
             .batch = plan.batch,
             .a = {},
             .b = {},
             .d = {},
             .adds = plan.adds && pieces.result == 0,
             .tf32 = false,
             .bias = data_of(plan.bias),
             .a_scale = data_of(plan.right_scale),
             .b_scale = data_of(plan.left_scale)};
  product.a = factor(plan.right, laid_right(plan, type), pieces.right, &made->right);
  product.b = factor(plan.left, laid_left(plan, type), pieces.left, &made->left);
  const Laid result = laid_result(plan);
  void* const y = of.tensor[operands.count - 1].data;
  product.d = {plan.sums ? made->sums_at : y, plan.result, false, result.whole_columns, result.stride};
  if (pieces.result == 0) return true;
  // From where the library puts it: what copy() says, the other way round.
  const CopyOfRows padding = result.copy(plan.result);
  std::byte* const at_result = piece(pieces.result);
  product.d.at = at_result;
  made->result = {at_result,
                  static_cast<std::byte*>(y),
                  padding.element_bytes,
                  padding.to_rows,
                  padding.to_columns,
                  padding.rows,
                  padding.columns,
                  false,
                  plan.adds};
  return true;
}

}  // namespace nacre::cuda
