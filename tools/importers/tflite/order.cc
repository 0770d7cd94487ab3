// Converts operators on the order of numbers: TOPK_V2 and BUCKETIZE. Also converts operators on integers for which the
// engine has no kernel: SUM, REDUCE_PROD, REDUCE_MAX, REDUCE_MIN, MEAN, ARG_MAX, ARG_MIN, NEG, ABS, SIGN, SQUARE, RELU,
// ADD_N, RIGHT_SHIFT, and EQUAL and NOT_EQUAL of bools.
#include <algorithm>

#include "tools/importers/tflite/steps.h"

namespace nacre::tools::tflite {
namespace {

using OrderInts = Steps::Ints;

void convert_top_k(Importer& importer, Operation& op) {
  Steps s(importer, op);
  const ValueId x = importer.whole_or_real_input(op, 0);
  const OrderInts dims = s.dims(x), count = importer.integers(op, 1);
  if (dims.empty() || count.size() != 1 || count[0] < 1 || count[0] > dims.back())
    importer.bad(op, "a number of elements below 1, or above the size of its axis");
  const Ordered y = s.greatest(x, count[0]);
  s.give(y.values);
  if (op.outputs.size() < 2) return;
  const ElementType type = importer.value(importer.output(op, 1)).type;
  if (type != ElementType::kInt32 && type != ElementType::kInt64) importer.unsupported(op, "indices of another type");
  s.give(s.cast(y.places, type), 1);
}

// Converts BUCKETIZE: counts the boundaries that are not above x.
void convert_bucketize(Importer& importer, Operation& op) {
  Steps s(importer, op);
  const auto* given = importer.options<BucketizeOptions>(op).boundaries();
  if (given == nullptr || given->size() == 0) importer.bad(op, "has no boundaries");
  const ValueId x = s.cast(importer.whole_or_real_input(op, 0), ElementType::kFloat32);
  OrderInts wide = s.dims(x), of_bounds(wide.size() + 1, 1);
  wide.push_back(1);
  of_bounds.back() = given->size();
  const ValueId bounds = s.numbers(of_bounds, std::vector<float>(given->begin(), given->end()));
  const ValueId above = s.compare(Compare::kGreaterEqual, s.reshape(x, wide), bounds);
  const ValueId y = s.sum(s.cast(above, ElementType::kFloat32), int(wide.size()) - 1);
  wide.pop_back();
  s.give(s.cast(s.reshape(y, wide), ElementType::kInt32));
}

ValueId reduced(Steps& s, BuiltinOperator code, ValueId x, int axis) {
  if (code == BuiltinOperator::REDUCE_MAX || code == BuiltinOperator::REDUCE_MIN)
    return s.extreme(x, axis, code == BuiltinOperator::REDUCE_MAX);
  if (code == BuiltinOperator::REDUCE_PROD)
    return s.folded(x, axis, [&](ValueId a, ValueId b) { return s(Op::kMul, {a, b}); });
  return s.sum(x, axis);
}

void reduce_whole(Importer& importer, Operation& op) {
  Steps s(importer, op);
  ValueId y = importer.input(op, 0);
  const OrderInts dims = s.dims(y);
  std::vector<bool> is_reduced(dims.size());
  for (const int64_t axis : importer.integers(op, 1)) is_reduced[size_t(importer.axis(op, axis, dims.size()))] = true;
  const auto* options = op.record->builtin_options_as<ReducerOptions>();
  OrderInts left;
  int64_t count = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!is_reduced[i] || (options != nullptr && options->keep_dims())) left.push_back(is_reduced[i] ? 1 : dims[i]);
    if (!is_reduced[i]) continue;
    y = reduced(s, op.code, y, int(i));
    count *= dims[i];
  }
  if (op.code == BuiltinOperator::MEAN) y = s.binary(Binary::kDiv, y, s.one_like(y, count));
  s.give(s.reshape(y, left));
}

// Finds the first index of the largest or least integer, as the index of the first 1 where x equals it, else 0.
void arg_of_whole(Importer& importer, Operation& op) {
  Steps s(importer, op);
  const ValueId x = importer.input(op, 0);
  const OrderInts given = importer.integers(op, 1);
  if (given.size() != 1) importer.bad(op, "has another number of axes than one");
  OrderInts dims = s.dims(x);
  const int axis = importer.axis(op, given[0], dims.size());
  const ValueId most = s.extreme(x, axis, op.code == BuiltinOperator::ARG_MAX);
  const ValueId hit = s.cast(s.compare(Compare::kEqual, x, most), ElementType::kFloat32);
  dims.erase(dims.begin() + axis);
  s.give(s.cast(s.reshape(s.arg_max(hit, axis), dims), importer.value(importer.output(op)).type));
}

ValueId of_whole(Steps& s, BuiltinOperator code, ValueId x) {
  const auto zero = [&] { return s.one_like(x, 0); };
  switch (code) {
    case BuiltinOperator::NEG: return s(Op::kSub, {zero(), x});
    case BuiltinOperator::ABS: return s.binary(Binary::kMaximum, x, s(Op::kSub, {zero(), x}));
    case BuiltinOperator::SQUARE: return s(Op::kMul, {x, x});
    case BuiltinOperator::RELU: return s.binary(Binary::kMaximum, x, zero());
    default: return s.binary(Binary::kMaximum, s.binary(Binary::kMinimum, x, s.one_like(x, 1)), s.one_like(x, -1));
  }
}

void add_whole(Importer& importer, Operation& op) {
  Steps s(importer, op);
  ValueId sum = importer.input(op, 0);
  for (size_t i = 1; i < op.inputs.size(); ++i) {
    const ValueId x = importer.input(op, i);
    if (s.type(x) != s.type(sum)) importer.bad(op, "its operands have several types");
    sum = s(Op::kAdd, {sum, x});
  }
  s.give(sum);
}

void compare_bools(Importer& importer, Operation& op) {
  Steps s(importer, op);
  const ValueId a = importer.input(op, 0), b = importer.input(op, 1);
  if (s.type(b) != ElementType::kBool) importer.bad(op, "its operands have several types");
  s.give(s.compare(op.code == BuiltinOperator::EQUAL ? Compare::kEqual : Compare::kNotEqual,
                   s.cast(a, ElementType::kFloat32), s.cast(b, ElementType::kFloat32)));
}

// Converts RIGHT_SHIFT: a / 2^b rounded towards -infinity, which shifts the bits of a negative a too.
void convert_right_shift(Importer& importer, Operation& op) {
  Steps s(importer, op);
  const ValueId a = importer.whole_or_real_input(op, 0), b = importer.whole_or_real_input(op, 1);
  if (!s.is_whole(a) || s.type(a) != s.type(b) || !importer.value(b).constant())
    importer.unsupported(op, "a shift by what is computed at run time, or of what is no int32 or int64");
  OrderInts powers;
  for (const int64_t bits : integers(importer.value(b))) {
    if (bits < 0 || bits > 30) importer.unsupported(op, "a shift by " + std::to_string(bits) + " bits");
    powers.push_back(int64_t{1} << bits);
  }
  s.give(s.binary(Binary::kFloorDiv, a, s.integers(s.type(a), s.dims(b), powers)));
}

constexpr Converter kOnWhole[] = {
    {BuiltinOperator::SUM, &reduce_whole},        {BuiltinOperator::REDUCE_PROD, &reduce_whole},
    {BuiltinOperator::REDUCE_MAX, &reduce_whole}, {BuiltinOperator::REDUCE_MIN, &reduce_whole},
    {BuiltinOperator::MEAN, &reduce_whole},       {BuiltinOperator::ARG_MAX, &arg_of_whole},
    {BuiltinOperator::ARG_MIN, &arg_of_whole},    {BuiltinOperator::ADD_N, &add_whole},
};
constexpr BuiltinOperator kSinglesOfWhole[] = {BuiltinOperator::NEG, BuiltinOperator::ABS, BuiltinOperator::SIGN,
                                               BuiltinOperator::SQUARE, BuiltinOperator::RELU};

}  // namespace

bool convert_whole(Importer& importer, Operation& op) {
  const bool compares = op.code == BuiltinOperator::EQUAL || op.code == BuiltinOperator::NOT_EQUAL;
  const auto* row = std::ranges::find(kOnWhole, op.code, &Converter::code);
  const bool single = std::ranges::find(kSinglesOfWhole, op.code) != std::end(kSinglesOfWhole);
  if ((!compares && !single && row == std::end(kOnWhole)) || !op.has_input(0)) return false;
  Steps s(importer, op);
  const ValueId x = importer.input(op, 0);
  if (s.type(x) == ElementType::kBool && compares) {
    compare_bools(importer, op);
    return true;
  }
  if (!s.is_whole(x) || compares) return false;
  if (single) s.give(of_whole(s, op.code, x));
  else row->convert(importer, op);
  return true;
}

std::span<const Converter> order_converters() {
  static constexpr Converter kRows[] = {
      {BuiltinOperator::TOPK_V2, &convert_top_k},
      {BuiltinOperator::BUCKETIZE, &convert_bucketize},
      {BuiltinOperator::RIGHT_SHIFT, &convert_right_shift},
  };
  return kRows;
}

}  // namespace nacre::tools::tflite
