#include "tests/cases.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "tests/cases_parts.h"
#include "tests/op_rows.h"
#include "tools/passes/policy/curve_points.h"
#include "tools/passes/policy/quantize_multiplier.h"

namespace nacre::test {
namespace {

void fill_pairs(const Input& input, Random& random, Array& array) {
  for (int row = 0; row < input.dims[0]; ++row) {
    const bool operand = input.fill == Input::kSumPairs && row < 2;  // rows a and b: scale / (2 largest scale)
    const double low = operand ? 1.0 / 32 : input.low, high = operand ? 0.5 : input.high;
    const FixedPoint pair = tools::quantize_multiplier(std::exp2(between(random, std::log2(low), std::log2(high))));
    array.set(2 * row, pair.multiplier);
    array.set(2 * row + 1, pair.shift);
  }
}

void fill_extremes(const Input& input, Random& random, Array& array) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kScales[] = {kNan, kInfinity, -kInfinity, 3e38, -3e38, 1e6, -1e6, -0.01, 0, 1e-45};
  for (int64_t i = 0; i < array.elements(); ++i)
    array.set(i, chance(random, 60) ? kScales[pick(random, 0, int(std::size(kScales)) - 1)]
                                    : between(random, input.low, input.high));
}

void fill_curve(Array& array) {
  const std::vector<int32_t> points = tools::sigmoid_points();
  for (size_t i = 0; i < points.size(); ++i) array.set(int64_t(i), points[i]);
}

void fill_trees(const Input& input, Random& random, Array& array) {
  for (int node = 0; node < input.dims[0]; ++node) {
    array.set(3 * node, pick(random, 0, int(input.low) - 1) << 4 | pick(random, 0, 15));
    for (int side = 1; side < 3; ++side) {
      const bool leaf = node + 1 == input.dims[0] || chance(random, 40);
      array.set(3 * node + side, leaf ? pick(random, -int(input.high), -1) : pick(random, node + 1, input.dims[0] - 1));
    }
  }
}

}  // namespace

const OpRow* find_op_row(Op op) {
  for (const auto rows : {rows_of_products(), rows_of_elements(), rows_of_reductions(), rows_of_moves(),
                          rows_of_layers(), rows_of_training()})
    for (const OpRow& row : rows)
      if (row.op == op) return &row;
  return nullptr;
}

const OpRow* find_gradient_row(Op op) {
  const OpRow* const row = find_op_row(op);
  return row == nullptr || row->gradient == nullptr ? nullptr : row;
}

CaseMaker find_case_maker(Op op) {
  const OpRow* const row = find_op_row(op);
  return row == nullptr ? nullptr : row->make;
}

Case random_case(const KernelEntry& entry, Random& random) {
  Case made;
  find_op_row(entry.op)->make(entry, random, made);
  return made;
}

std::vector<Array> random_inputs(const Case& made, Random& random) {
  std::vector<Array> arrays;
  for (const Input& input : made.inputs) {
    arrays.push_back(input.element == ElementType::kNone ? Array() : make_array(input.element, input.dims));
    Array& array = arrays.back();
    if (input.fill != Input::kUniform) {
      if (input.fill == Input::kExtremes) fill_extremes(input, random, array);
      else if (input.fill == Input::kTrees) fill_trees(input, random, array);
      else if (input.fill == Input::kCurve) fill_curve(array);
      else fill_pairs(input, random, array);
      continue;
    }
    const bool real = is_float(input.element);
    for (int64_t i = 0; array.present() && i < array.elements(); ++i)
      array.set(i,
                real ? between(random, input.low, input.high)
                     : double(std::uniform_int_distribution<int64_t>(int64_t(input.low), int64_t(input.high))(random)));
  }
  return arrays;
}

std::string text(const Case& made) {
  std::string text = "words";
  for (const uint32_t word : made.words) text += ' ' + std::to_string(int32_t(word));
  for (const Input& input : made.inputs) text += ", " + Array{input.element, input.dims, {}}.text();
  return text;
}

}  // namespace nacre::test
