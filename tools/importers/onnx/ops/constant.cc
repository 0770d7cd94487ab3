// Imports Constant, ConstantOfShape, Range (on constants only), Expand and Tile. Exporters compute shapes and weights
// with these operators.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <type_traits>

#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/import.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

const Value& stored(const Source& source, int input) {
  const OperandPtr& x = source.operand(input);
  if (!x->constant) source.refuse("is supported on stored values only (" + x->name + " is computed at run time)");
  return *x->constant;
}

void constant(Import& import, const Source& source) {
  if (const auto* a = source.find("value")) return import.give_stored(a->t());
  if (const auto* a = source.find("value_int"))
    return import.give_constant(0, make_constant("", ElementType::kInt64, {}, std::vector<int64_t>{a->i()}));
  if (const auto* a = source.find("value_float"))
    return import.give_constant(0, make_constant("", ElementType::kFloat32, {}, std::vector<float>{a->f()}));
  if (source.has("value_ints")) {
    const std::vector<int64_t> numbers = source.integers("value_ints");
    return import.give_constant(0, make_constant("", ElementType::kInt64, {int64_t(numbers.size())}, numbers));
  }
  if (const auto* a = source.find("value_floats")) {
    const std::vector<float> numbers(a->floats().begin(), a->floats().end());
    return import.give_constant(0, make_constant("", ElementType::kFloat32, {int64_t(numbers.size())}, numbers));
  }
  source.refuse("its value is neither a dense tensor nor numbers");
}

uint64_t bytes_of(const Source& source, const std::vector<int64_t>& dims) {
  return uint64_t(checked_elements(source.place, dims)) * 8;
}

void constant_of_shape(Import& import, const Source& source) {
  const std::vector<int64_t> dims = source.constant_integers(0, "its shape");
  import.spend(bytes_of(source, dims));
  const auto* value = source.find("value");
  const Value one = value != nullptr ? read_tensor(value->t(), "")
                                     : make_constant("", ElementType::kFloat32, {1}, std::vector<float>{0});
  if (one.elements() != 1) source.malformed("its value is not one number");
  import.give_constant(0, expanded(reshaped(one, {}), dims));
}

template <class T>
std::vector<T> range_of(Import& import, const Source& source, T start, T limit, T delta) {
  if (delta == T{}) source.malformed("its step is 0");
  const double steps = std::ceil((double(limit) - double(start)) / double(delta));
  if (!(steps < 0x1p31)) source.refuse("is too long");
  const auto count = size_t(std::max(0.0, steps));
  import.spend(count * 8);
  std::vector<T> numbers(count);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if constexpr (std::is_integral_v<T>) numbers[i] = T(uint64_t(start) + uint64_t(i) * uint64_t(delta));
    else numbers[i] = start + T(i) * delta;
  }
  return numbers;
}

void range(Import& import, const Source& source) {
  const Value &start = stored(source, 0), &limit = stored(source, 1), &delta = stored(source, 2);
  if (start.elements() != 1 || limit.elements() != 1 || delta.elements() != 1)
    source.malformed("its operands are not single numbers");
  if (is_integer(start.stored)) {
    const std::vector<int64_t> numbers =
        range_of(import, source, integers(start)[0], integers(limit)[0], integers(delta)[0]);
    return import.give_constant(0, make_constant("", start.type, {int64_t(numbers.size())}, numbers));
  }
  const std::vector<float> numbers = range_of(import, source, reals(start)[0], reals(limit)[0], reals(delta)[0]);
  import.give_constant(0, make_constant("", start.type, {int64_t(numbers.size())}, numbers));
}

// Returns x repeated `count` times along an axis. Each Concat joins two halves, and x if the count is odd.
ValueId joined_to_itself(Import& import, ValueId x, int64_t count, int axis, const std::string& name) {
  if (count == 1) return x;
  const ValueId half = joined_to_itself(import, x, count / 2, axis, name);
  std::vector<ValueId> parts = {half, half};
  if (count % 2 != 0) parts.push_back(x);
  return import.concatenation(std::move(parts), axis, name + "x" + std::to_string(count));
}

// Expands x at run time. Reals are multiplied by ones along the repeated axes. This is exact, and its gradient is the
// sum over these axes. Other types are concatenated.
void expand_step(Import& import, const Source& source, const std::vector<int64_t>& dims) {
  const OperandPtr& x = source.operand(0);
  if (checked_elements(source.place, dims) == 0) source.refuse("gives a tensor without elements");
  std::vector<int64_t> wide(dims.size() - x->dims.size(), 1), repeats = dims;
  wide.insert(wide.end(), x->dims.begin(), x->dims.end());
  for (size_t i = 0; i < dims.size(); ++i)
    if (wide[i] == dims[i]) repeats[i] = 1;
  if (x->type == ElementType::kFloat32) {
    import.spend(bytes_of(source, repeats));
    const std::vector<float> ones(size_t(checked_elements(source.place, repeats)), 1);
    Node node = import.step(Op::kMul);
    node.inputs = {import.plain(x), import.reals(source.name + "/ones", repeats, ones)};
    return import.give_plain(0, import.append(std::move(node), import.output_name()));
  }
  ValueId y = import.reshaped(import.plain(x), wide, x->name + "/rank");
  for (size_t axis = 0; axis < dims.size(); ++axis)
    y = joined_to_itself(import, y, repeats[axis], int(axis), import.output_name() + "/" + std::to_string(axis));
  import.give_plain(0, y);
}

void expand(Import& import, const Source& source) {
  const std::vector<int64_t> dims = source.constant_integers(1, "its shape");
  const OperandPtr& x = source.operand(0);
  const std::optional<std::vector<int64_t>> both = broadcast(x->dims, dims);
  if (!both) source.malformed("its input cannot be expanded to the shape asked for");
  const bool trains = x->constant && import.options().train;  // not left out, so that any batch gives the same graph
  if (*both == x->dims && !trains) return import.give(0, x);
  if (!x->constant) return expand_step(import, source, *both);
  import.spend(bytes_of(source, *both));
  import.give_constant(0, expanded(x->numbers(), dims));
}

// Repeats x at run time: joins it to itself along one axis after the other.
void tile_step(Import& import, const Source& source, const std::vector<int64_t>& repeats) {
  std::vector<int64_t> dims = source.operand(0)->dims;
  for (size_t axis = 0; axis < repeats.size(); ++axis) {
    if (repeats[axis] < 1 || repeats[axis] > INT32_MAX) source.refuse("repeats what is computed at run time 0 times");
    dims[axis] *= repeats[axis];
    checked_elements(source.place, dims);
  }
  ValueId y = import.plain(source.operand(0));
  for (size_t axis = 0; axis < repeats.size(); ++axis)
    y = joined_to_itself(import, y, repeats[axis], int(axis), import.output_name() + "/" + std::to_string(axis));
  import.give_plain(0, y);
}

void tile(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  const std::vector<int64_t> repeats = source.constant_integers(1, "its repeats");
  if (repeats.size() != x->dims.size()) source.malformed("its repeats do not fit its input");
  if (!x->constant) return tile_step(import, source, repeats);
  std::vector<int64_t> dims = x->dims;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (repeats[i] < 0 || repeats[i] > (1 << 28)) source.malformed("a repeat is out of range");
    dims[i] *= repeats[i];
    import.spend(bytes_of(source, dims));
  }
  import.give_constant(0, tiled(x->numbers(), repeats));
}

constexpr OperatorImporter kConstantImporters[] = {
    {"Constant", constant}, {"ConstantOfShape", constant_of_shape}, {"Range", range}, {"Expand", expand},
    {"Tile", tile},

};

}  // namespace

std::span<const OperatorImporter> constant_importers() { return kConstantImporters; }

}  // namespace nacre::tools::onnx_import
