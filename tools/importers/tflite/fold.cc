// Computes integers and bools from stored ones, as TFLite does: shapes, the counters and conditions of loops, masks of
// fixed shapes. Also makes tensors filled with one number.
#include <algorithm>
#include <cstring>

#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {
namespace {

constexpr int64_t kMostIntegers = 1 << 16;  // most integers of a tensor
constexpr int64_t kMostElements = 1 << 28;  // most elements of a filled tensor

using FoldDims = std::vector<int64_t>;

struct Whole {
  FoldDims dims;
  std::vector<int64_t> numbers;  // 0 and 1 for bools
};

bool is_whole(ElementType type) {
  return type == ElementType::kInt32 || type == ElementType::kInt64 || type == ElementType::kBool;
}

// Returns input i if it is a small constant of integers or bools without a quantizer.
std::optional<Whole> stored(Importer& importer, const Operation& op, size_t i) {
  if (!op.has_input(i) || importer.calls().is_empty(op, i)) return std::nullopt;
  const Value& v = importer.value(importer.input(op, i));
  if (!v.constant() || v.quantizer || !is_whole(v.stored) || v.elements() > kMostIntegers) return std::nullopt;
  Whole x = {v.dims, integers(v)};
  if (v.stored == ElementType::kBool)
    for (int64_t& number : x.numbers) number = number != 0;
  return x;
}

// Calls f(i, index in x) for each element i of `dims`. x is broadcast to `dims` as numpy does.
template <class F>
void each_place(const FoldDims& x, const FoldDims& dims, F f) {
  int64_t count = 1;
  for (const int64_t d : dims) count *= d;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, place = 0, stride = 1;
    for (size_t axis = dims.size(), k = x.size(); k-- > 0;) {
      const int64_t index = rest % dims[--axis];
      rest /= dims[axis];
      place += x[k] == 1 ? 0 : index * stride;
      stride *= x[k];
    }
    f(size_t(i), size_t(place));
  }
}

FoldDims both_dims(Importer& importer, const Operation& op, const FoldDims& a, const FoldDims& b) {
  FoldDims dims = a.size() > b.size() ? a : b;
  const FoldDims& less = a.size() > b.size() ? b : a;
  int64_t count = 1;
  for (size_t k = 0; k < less.size(); ++k) {
    int64_t& d = dims[dims.size() - less.size() + k];
    if (d != less[k] && d != 1 && less[k] != 1) importer.bad(op, "its operands have shapes that do not fit");
    d = std::max(d, less[k]);
  }
  for (const int64_t d : dims)
    if ((count *= d) > kMostIntegers) importer.unsupported(op, "more than 65536 stored integers");
  return dims;
}

int64_t floor_mod(int64_t a, int64_t b) {
  const int64_t rest = b == -1 ? 0 : a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
int64_t quotient(int64_t a, int64_t b) { return b == -1 ? int64_t(0 - uint64_t(a)) : a / b; }  // rounds towards zero
int64_t floor_quotient(int64_t a, int64_t b) {
  return quotient(a, b) - (b != -1 && a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
int64_t sum(int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); }
int64_t product(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }

struct Pair {
  BuiltinOperator code;
  int64_t (*f)(int64_t, int64_t);
  bool divides = false;
};
constexpr Pair kPairs[] = {
    {BuiltinOperator::ADD, sum},
    {BuiltinOperator::SUB, [](int64_t a, int64_t b) { return int64_t(uint64_t(a) - uint64_t(b)); }},
    {BuiltinOperator::MUL, product},
    {BuiltinOperator::DIV, quotient, true},
    {BuiltinOperator::FLOOR_DIV, floor_quotient, true},
    {BuiltinOperator::FLOOR_MOD, floor_mod, true},
    {BuiltinOperator::MINIMUM, [](int64_t a, int64_t b) { return std::min(a, b); }},
    {BuiltinOperator::MAXIMUM, [](int64_t a, int64_t b) { return std::max(a, b); }},
    {BuiltinOperator::EQUAL, [](int64_t a, int64_t b) { return int64_t{a == b}; }},
    {BuiltinOperator::NOT_EQUAL, [](int64_t a, int64_t b) { return int64_t{a != b}; }},
    {BuiltinOperator::LESS, [](int64_t a, int64_t b) { return int64_t{a < b}; }},
    {BuiltinOperator::LESS_EQUAL, [](int64_t a, int64_t b) { return int64_t{a <= b}; }},
    {BuiltinOperator::GREATER, [](int64_t a, int64_t b) { return int64_t{a > b}; }},
    {BuiltinOperator::GREATER_EQUAL, [](int64_t a, int64_t b) { return int64_t{a >= b}; }},
    {BuiltinOperator::LOGICAL_AND, [](int64_t a, int64_t b) { return a & b; }},
    {BuiltinOperator::LOGICAL_OR, [](int64_t a, int64_t b) { return a | b; }},
};

struct Single {
  BuiltinOperator code;
  int64_t (*f)(int64_t);
};
constexpr Single kSingles[] = {
    {BuiltinOperator::NEG, [](int64_t a) { return int64_t(0 - uint64_t(a)); }},
    {BuiltinOperator::ABS, [](int64_t a) { return a < 0 ? int64_t(0 - uint64_t(a)) : a; }},
    {BuiltinOperator::SQUARE, [](int64_t a) { return product(a, a); }},
    {BuiltinOperator::SIGN, [](int64_t a) { return int64_t{a > 0} - int64_t{a < 0}; }},
    {BuiltinOperator::LOGICAL_NOT, [](int64_t a) { return int64_t{a == 0}; }},
};

// Reductions over the axes of input 1. The first element is the initial result.
constexpr Pair kReductions[] = {
    {BuiltinOperator::SUM, sum},
    {BuiltinOperator::REDUCE_PROD, product},
    {BuiltinOperator::REDUCE_MAX, [](int64_t a, int64_t b) { return std::max(a, b); }},
    {BuiltinOperator::REDUCE_MIN, [](int64_t a, int64_t b) { return std::min(a, b); }},
    {BuiltinOperator::REDUCE_ANY, [](int64_t a, int64_t b) { return a | b; }},
    {BuiltinOperator::REDUCE_ALL, [](int64_t a, int64_t b) { return a & b; }},
};

template <class Row, size_t kSize>
const Row* row_of(const Row (&table)[kSize], BuiltinOperator code) {
  const Row* found = std::find_if(table, table + kSize, [&](const Row& row) { return row.code == code; });
  return found == table + kSize ? nullptr : found;
}

bool fold_pair(Importer& importer, const Operation& op, const Pair& row) {
  const std::optional<Whole> a = stored(importer, op, 0), b = stored(importer, op, 1);
  if (!a || !b) return false;
  if (row.divides && std::ranges::find(b->numbers, 0) != b->numbers.end()) importer.bad(op, "divides by zero");
  const FoldDims dims = both_dims(importer, op, a->dims, b->dims);
  std::vector<int64_t> numbers;
  each_place(a->dims, dims, [&](size_t, size_t place) { numbers.push_back(a->numbers[place]); });
  each_place(b->dims, dims, [&](size_t i, size_t place) { numbers[i] = row.f(numbers[i], b->numbers[place]); });
  importer.define_integers(op, numbers, dims);
  return true;
}

bool fold_single(Importer& importer, const Operation& op, const Single& row) {
  const std::optional<Whole> x = stored(importer, op, 0);
  if (!x) return false;
  std::vector<int64_t> numbers;
  for (const int64_t number : x->numbers) numbers.push_back(row.f(number));
  importer.define_integers(op, numbers, x->dims);
  return true;
}

bool fold_reduction(Importer& importer, const Operation& op, const Pair& row) {
  const std::optional<Whole> x = stored(importer, op, 0);
  if (!x) return false;
  FoldDims kept = x->dims, left;  // kept has 1 for reduced axes, left is without them
  std::vector<bool> reduced(kept.size());
  for (const int64_t axis : importer.integers(op, 1)) reduced[size_t(importer.axis(op, axis, kept.size()))] = true;
  const auto* options = op.record->builtin_options_as<ReducerOptions>();
  int64_t count = 1;
  for (size_t k = 0; k < kept.size(); ++k) {
    kept[k] = reduced[k] ? 1 : kept[k];
    count *= kept[k];
    if (!reduced[k] || (options != nullptr && options->keep_dims())) left.push_back(kept[k]);
  }
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::vector<bool> started(numbers.size());
  each_place(kept, x->dims, [&](size_t i, size_t place) {
    numbers[place] = started[place] ? row.f(numbers[place], x->numbers[i]) : x->numbers[i];
    started[place] = true;
  });
  importer.define_integers(op, numbers, left);
  return true;
}

bool fold_cast(Importer& importer, const Operation& op) {
  const std::optional<Whole> x = stored(importer, op, 0);
  if (!x) return false;
  std::vector<int64_t> numbers = x->numbers;
  if (importer.tensors().type(op.outputs[0]) == ElementType::kBool)
    for (int64_t& number : numbers) number = number != 0;
  importer.define_integers(op, numbers, x->dims);
  return true;
}

bool fold_range(Importer& importer, const Operation& op) {
  const std::optional<Whole> start = stored(importer, op, 0), limit = stored(importer, op, 1),
                             delta = stored(importer, op, 2);
  if (!start || !limit || !delta) return false;
  if (start->numbers.size() != 1 || limit->numbers.size() != 1 || delta->numbers.size() != 1)
    importer.bad(op, "its operands are not single numbers");
  const int64_t step = delta->numbers[0], end = limit->numbers[0];
  if (step == 0) importer.bad(op, "a step of 0");
  std::vector<int64_t> numbers;
  for (int64_t i = start->numbers[0]; step > 0 ? i < end : i > end; i = sum(i, step)) {
    if (int64_t(numbers.size()) == kMostIntegers) importer.unsupported(op, "more than 65536 stored integers");
    numbers.push_back(i);
  }
  if (numbers.empty()) importer.unsupported(op, "a tensor without elements");
  importer.define_integers(op, numbers, {int64_t(numbers.size())});
  return true;
}

// Defines the operator's output: a constant of `dims`, with the only element of x everywhere.
void fill(Importer& importer, const Operation& op, const FoldDims& dims, const Value& x) {
  int64_t count = 1;
  for (const int64_t d : dims) {
    if (d < 0) importer.bad(op, "a shape of " + dims_text(dims));
    if (d == 0) return importer.calls().define_rows(op, {.runs = {}, .dims = dims});
    if (d > kMostElements || (count *= d) > kMostElements) importer.unsupported(op, "a shape of " + dims_text(dims));
  }
  importer.graph().budget.take(uint64_t(count) * x.data->size(), op.name, "a filling", "use a smaller network");
  std::vector<uint8_t> bytes;
  for (int64_t i = 0; i < count; ++i) bytes.insert(bytes.end(), x.data->begin(), x.data->end());
  Value y = x;
  y.dims = dims;
  y.data = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  importer.define(op, std::move(y));
}

bool fold_fill(Importer& importer, const Operation& op) {
  const Value& x = importer.value(importer.input(op, 1));
  if (!x.constant()) importer.unsupported(op, "a filling that is computed at run time");
  if (x.elements() != 1) importer.bad(op, "a filling that is not one number");
  const Value number = x;
  fill(importer, op, importer.integers(op, 0), number);
  return true;
}

bool fold_zeros(Importer& importer, const Operation& op) {
  const FoldDims dims = importer.value(importer.input(op, 0)).dims;
  Value zero;
  zero.type = zero.stored = importer.tensors().type(op.outputs[0]);
  if (!is_whole(zero.type) && zero.type != ElementType::kFloat32) return false;
  zero.data = std::make_shared<const std::vector<uint8_t>>(storage_bytes(zero.type, 1));
  fill(importer, op, dims, zero);
  return true;
}

}  // namespace

bool fold_integers(Importer& importer, Operation& op) {
  if (op.code == BuiltinOperator::FILL) return fold_fill(importer, op);
  if (op.code == BuiltinOperator::ZEROS_LIKE) return fold_zeros(importer, op);
  if (!is_whole(importer.tensors().type(op.outputs[0]))) return false;
  if (op.code == BuiltinOperator::CAST) return fold_cast(importer, op);
  if (op.code == BuiltinOperator::RANGE) return fold_range(importer, op);
  if (op.code == BuiltinOperator::RANK) {
    importer.define_integers(op, {int64_t(importer.value(importer.input(op, 0)).dims.size())}, {});
    return true;
  }
  if (const Pair* row = row_of(kPairs, op.code)) return fold_pair(importer, op, *row);
  if (const Single* row = row_of(kSingles, op.code)) return fold_single(importer, op, *row);
  if (const Pair* row = row_of(kReductions, op.code)) return fold_reduction(importer, op, *row);
  return false;
}

}  // namespace nacre::tools::tflite
