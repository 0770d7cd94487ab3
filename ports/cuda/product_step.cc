#include "ports/cuda/product_step.h"

#include <algorithm>
#include <utility>

#include "ports/cuda/product_plan.h"

namespace nacre::cuda {
namespace {

constexpr size_t kPiece = 256;                      // alignment of a piece of scratch
constexpr size_t kMostColumns = size_t{256} << 20;  // bytes: a convolution with more columns runs on its own kernel

size_t whole_pieces(size_t bytes) { return (bytes + kPiece - 1) / kPiece * kPiece; }

// A factor in memory: `count` matrices of [rows, columns], `stride` elements apart, with rows `step` elements apart.
struct Laid {
  int count, rows, columns, whole_rows, whole_columns;
  int64_t stride, step;

  // Returns the copy of these matrices to the whole sizes. If the matrices are contiguous, each becomes one row of
  // the copy.
  CopyOfRows copy(LtType type, bool turned = false) const {
    CopyOfRows made = {nullptr, nullptr, bytes_of(type), rows, columns, whole_rows, whole_columns, turned};
    if (turned) made.rows *= count, made.to_rows *= count;
    else if (count > 1 && step == whole_columns)
      made.rows = made.to_rows = count, made.columns = rows * columns, made.to_columns = int(stride);
    return made;
  }
};

bool is_needed(const CopyOfRows& copy) {
  return copy.rows != copy.to_rows || copy.columns != copy.to_columns || copy.turned;
}
size_t bytes_to(const CopyOfRows& copy) {
  return is_needed(copy) ? whole_pieces(size_t(copy.to_rows) * size_t(copy.to_columns) * copy.element_bytes) : 0;
}

// Lays out the matrices of a batch at multiples of 16 bytes. A factor that all products share is one matrix.
Laid laid(const Plan& plan, LtType type, const Factor& f, Laid sizes) {
  Laid made = sizes;
  made.count = f.repeated ? 1 : plan.batch, made.step = made.whole_columns, made.stride = 0;
  if (made.count == 1) return made;
  if (f.beside) made.stride = made.columns, made.step = int64_t{made.count} * made.columns;
  else made.stride = whole(made.rows * made.columns, int(16 / bytes_of(type)));
  return made;
}
Laid laid_left(const Plan& plan, LtType type) {
  const Factor& f = plan.left;
  return laid(plan, type, f,
              f.transposed ? Laid{1, plan.terms, plan.rows, plan.whole_terms, plan.rows, 0, 0}
                           : Laid{1, plan.rows, plan.terms, plan.rows, plan.whole_terms, 0, 0});
}
Laid laid_right(const Plan& plan, LtType type) {
  const Factor& f = plan.right;
  return laid(plan, type, f,
              f.transposed ? Laid{1, plan.columns, plan.terms, plan.whole_columns, plan.whole_terms, 0, 0}
                           : Laid{1, plan.terms, plan.columns, plan.whole_terms, plan.whole_columns, 0, 0});
}
Laid laid_result(const Plan& plan) {
  const Factor f = {0, false, false, plan.grouped && !plan.adds};
  return laid(plan, plan.result, f, {1, plan.rows, plan.columns, plan.rows, plan.whole_columns, 0, 0});
}

// Returns whether groups can be multiplied in place. If not, the port's own kernel runs the step.
bool groups_fit(const Plan& plan, LtType type) {
  const auto fits = [](const Laid& laid, LtType of) {
    return !is_needed(laid.copy(of)) && laid.stride * int64_t(bytes_of(of)) % 16 == 0;
  };
  return plan.terms == plan.whole_terms && plan.columns == plan.whole_columns && fits(laid_left(plan, type), type) &&
         fits(laid_right(plan, type), type) && fits(laid_result(plan), plan.result);
}

// The windows of a layer are its left factor, [rows, terms]. The windows of a gradient of w are its right factor,
// [terms, columns] or transposed.
struct Windows {
  int rows, row;
  uint64_t numbers() const { return uint64_t(rows) * uint64_t(row); }
};
Windows windows_of(const Plan& plan) {
  if (plan.adds && plan.turned) return {plan.groups() * plan.whole_columns, plan.whole_terms};
  if (plan.adds) return {plan.terms, plan.groups() * plan.columns};
  return {plan.rows, plan.groups() * plan.whole_terms};
}

struct Pieces {
  size_t columns = 0, sums = 0, weights = 0, left = 0, right = 0, result = 0;
  size_t all() const { return columns + sums + weights + left + right + result; }
};

// Returns false if the step would need more memory than the device should give to one step, or if its groups do not
// fit.
bool pieces_of(const Plan& plan, LtType type, Pieces* pieces) {
  if (plan.grouped && !groups_fit(plan, type)) return false;
  const auto groups = size_t(plan.groups());
  if (plan.windows >= 0) {
    const uint64_t bytes = windows_of(plan).numbers() * bytes_of(type);
    if (bytes > kMostColumns) return false;
    pieces->columns = whole_pieces(size_t(bytes));
  }
  if (plan.sums)
    pieces->sums = whole_pieces(groups * size_t(plan.rows) * size_t(plan.whole_columns) * bytes_of(plan.result));
  if (plan.zeros) pieces->weights = whole_pieces(groups * size_t(plan.columns) * 4);
  if (plan.turns_weights)
    pieces->weights = whole_pieces(groups * size_t(plan.terms) * size_t(plan.columns) * bytes_of(type));
  if (plan.windows != plan.left.operand) pieces->left = bytes_to(laid_left(plan, type).copy(type, plan.turned));
  if (plan.windows != plan.right.operand) pieces->right = bytes_to(laid_right(plan, type).copy(type, plan.turned));
  if (!plan.sums) pieces->result = bytes_to(laid_result(plan).copy(plan.result));
  return true;
}

const char* columns_kernel(LtType type, const Plan& plan) {
  const auto one_of = [&](const char* layer, const char* gradient_w, const char* gradient_x) {
    return plan.uses ? gradient_x : plan.adds ? gradient_w : layer;
  };
  switch (type) {
    case kLtF32: return one_of("kColumnsF32", "kGradientColumnsF32", "kUsesF32");
    case kLtF64: return one_of("kColumnsF64", "kGradientColumnsF64", "kUsesF64");
    case kLtF16: return one_of("kColumnsF16", "kGradientColumnsF16", "kUsesF16");
    case kLtBf16: return one_of("kColumnsBf16", "kGradientColumnsBf16", "kUsesBf16");
    case kLtI8: return "kColumnsI8";
    default: return one_of("kColumnsE4M3", "kTurnedColumnsE4M3", "kUsesE5M2");
  }
}
const char* turned_kernel(LtType type) {
  switch (type) {
    case kLtF32: return "kTurnedWeightsF32";
    case kLtF64: return "kTurnedWeightsF64";
    case kLtF16: return "kTurnedWeightsF16";
    case kLtBf16: return "kTurnedWeightsBf16";
    default: return "kTurnedWeightsE4M3";
  }
}

// The operands of a step, taken from its image.
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
  const int groups = plan.groups();
  made->out = groups * plan.columns;
  made->sums = plan.sums;
  const Windows windows = windows_of(plan);
  made->row_of_columns = windows.row, made->rows_of_columns = windows.rows;
  made->row_of_sums = groups * plan.whole_columns;
  made->columns_numbers = windows.numbers();
  made->turned_numbers = uint64_t(groups) * uint64_t(plan.terms) * uint64_t(plan.columns);
  if (plan.windows >= 0) made->columns = columns_kernel(type, plan);
  if (plan.turns_weights) made->turned = turned_kernel(type);
  if (plan.zeros) made->weights = "kWeightSums";

  const auto factor = [&](const Factor& f, const Laid& laid, size_t bytes, CopyOfRows* copy) {
    const void* data = plan.windows == f.operand                               ? made->columns_at
                       : plan.turns_weights && f.operand == plan.right.operand ? made->weights_at
                                                                               : of.tensor[f.operand].data;
    if (bytes != 0) *copy = laid.copy(type, plan.turned), copy->from = data, copy->to = piece(bytes), data = copy->to;
    LtType own = type;
    type_of(entry.operands[f.operand].element, &own);
    return Product::Matrix{data, own, f.transposed, laid.step, laid.stride};
  };
  const auto data_of = [&](int operand) { return operand < 0 ? nullptr : of.tensor[operand].data; };
  // The product is made column by column, Y^T = R'^T L'^T. A row-major matrix is its transpose column by column.
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
  product.d = {plan.sums ? made->sums_at : y, plan.result, false, result.step, result.stride};
  if (pieces.result == 0) return true;
  // The copy from the library's result is copy() with source and target exchanged.
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
