// Imports operators on whole numbers of run time (int32 and int64: token ids, positions, masks, lengths). integer.cc
// has those that are functions of the engine. The others are formulas of ops on whole numbers, which no policy rounds:
// sums, differences, products, comparisons and choices.
//
//   reductions      combine the two halves of an axis until one element is left
//   CumSum          y <- y + (y shifted by s), s = 1, 2, 4 ..: after log2 n rounds y_i is the sum of x_0 to x_i
//   CumProd         the same with products
//   ArgMax, ArgMin  ArgMax of real numbers that are 1 where x is the largest (smallest), else 0
#include <algorithm>
#include <string>

#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = Formula::Ints;

class Whole {
 public:
  Whole(Import& import, const Source& source, ElementType type) : source_(source), f_(import, source), type_(type) {}

  void negative() { give(f_("Sub", {number(0), f_.input(0)})); }

  void magnitude() {
    const Term x = f_.input(0);
    give(f_("Where", {f_("Less", {x, number(0)}), f_("Sub", {number(0), x}), x}));
  }

  void sign() {
    const Term x = f_.input(0), positive = f_("Less", {number(0), x}), negative = f_("Less", {x, number(0)});
    give(f_("Where", {positive, number(1), f_("Where", {negative, number(-1), number(0)})}));
  }

  void all_bits_turned() { give(f_("BitwiseXor", {f_.input(0), number(-1)})); }

  void most() {
    Term y = f_.input(0);
    for (int i = 1; i < int(source_.inputs.size()); ++i) y = larger(y, f_.input(i));
    give(f_("Identity", {y}));
  }

  void least() {
    Term y = f_.input(0);
    for (int i = 1; i < int(source_.inputs.size()); ++i) y = smaller(y, f_.input(i));
    give(f_("Identity", {y}));
  }

  void clip() {
    Term y = f_.input(0);
    if (source_.given(1)) y = larger(y, f_.input(1));
    if (source_.given(2)) y = smaller(y, f_.input(2));
    give(f_("Identity", {y}));
  }

  using Pair = Term (Whole::*)(const Term& a, const Term& b);

  template <Pair kPair>
  void reduce() {
    const Ints& dims = source_.operand(0)->dims;
    const Ints axes = source_.integers_or_input("axes", 1).value_or(Ints{});
    const bool all = axes.empty() && source_.integer("noop_with_empty_axes", 0) == 0;
    const bool keep = source_.integer("keepdims", 1) != 0;
    std::vector<bool> reduced(dims.size(), all);
    for (const int64_t axis : axes) reduced[size_t(source_.axis(axis, int(dims.size())))] = true;
    Term y = f_.input(0);
    Ints kept;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      if (reduced[axis]) y = folded(y, dims[axis], int64_t(axis), kPair);
      if (!reduced[axis] || keep) kept.push_back(reduced[axis] ? 1 : dims[axis]);
    }
    give(f_.reshape(y, kept));
  }

  Term sum(const Term& a, const Term& b) { return f_("Add", {a, b}); }
  Term product(const Term& a, const Term& b) { return f_("Mul", {a, b}); }
  Term larger(const Term& a, const Term& b) { return f_("Where", {f_("Less", {a, b}), b, a}); }
  Term smaller(const Term& a, const Term& b) { return f_("Where", {f_("Less", {b, a}), b, a}); }

  template <Pair kPair>
  void place_of_extreme() {
    const Ints& dims = source_.operand(0)->dims;
    const int64_t axis = source_.axis(source_.integer("axis", 0), int(dims.size()));
    const Term x = f_.input(0), extreme = folded(x, dims[size_t(axis)], axis, kPair);
    give(f_("ArgMax", {f_.to_real(f_("Equal", {x, extreme}))},
            {{"axis", axis},
             {"keepdims", source_.integer("keepdims", 1)},
             {"select_last_index", source_.integer("select_last_index", 0)}}));
  }

  // Computes running sums or products. kNothing is the number that changes no sum (0) or no product (1).
  template <Pair kPair, int64_t kNothing>
  void running() {
    const Ints& dims = source_.operand(0)->dims;
    const Ints given = integers(source_.constant(1, "its axis"));
    if (given.size() != 1) source_.malformed("its axis is not one integer");
    const int64_t axis = source_.axis(given[0], int(dims.size())), n = dims[size_t(axis)];
    const bool reverse = source_.integer("reverse", 0) != 0;
    Term y = f_.input(0);
    if (reverse) y = turned(y, axis);
    if (source_.integer("exclusive", 0) != 0) y = moved_on(y, axis, 1, kNothing);
    for (int64_t by = 1; by < n; by *= 2) y = (this->*kPair)(y, moved_on(y, axis, by, kNothing));
    if (reverse) y = turned(y, axis);
    give(f_("Identity", {y}));
  }

 private:
  void give(const Term& y) {
    f_.give(y);
    f_.run();
  }

  Term number(int64_t value) { return f_.whole(type_, {}, {value}); }

  // Combines the n elements of x along `axis` into one.
  Term folded(Term x, int64_t n, int64_t axis, Pair pair) {
    if (n < 1) source_.refuse("its input is empty: it has no elements");
    for (int64_t half = n / 2; n > 1; n -= half, half = n / 2) {
      const Term first = f_.slice(x, axis, 0, half), second = f_.slice(x, axis, half, 2 * half);
      const Term y = (this->*pair)(first, second);
      x = n % 2 == 0 ? y : f_("Concat", {y, f_.slice(x, axis, n - 1, n)}, {{"axis", axis}});
    }
    return x;
  }

  // Returns x shifted by `by` along the axis. The first `by` elements become the number `nothing`.
  Term moved_on(const Term& x, int64_t axis, int64_t by, int64_t nothing) {
    Ints dims = source_.operand(0)->dims;
    const int64_t n = dims[size_t(axis)];
    dims[size_t(axis)] = std::min(by, n);
    const Term first = f_.whole(type_, dims, Ints(size_t(product_of(dims, 0, dims.size())), nothing));
    return by >= n ? first : f_("Concat", {first, f_.slice(x, axis, 0, n - by)}, {{"axis", axis}});
  }

  Term turned(const Term& x, int64_t axis) { return f_.slice(x, axis, -1, INT64_MIN, -1); }

  const Source& source_;
  Formula f_;
  const ElementType type_;
};

struct OperatorOnWhole {
  const char* op;
  void (Whole::*run)();
};
constexpr OperatorOnWhole kOperatorsOnWhole[] = {{"Neg", &Whole::negative},
                                                 {"Abs", &Whole::magnitude},
                                                 {"Sign", &Whole::sign},
                                                 {"BitwiseNot", &Whole::all_bits_turned},
                                                 {"Max", &Whole::most},
                                                 {"Min", &Whole::least},
                                                 {"Clip", &Whole::clip},
                                                 {"ReduceSum", &Whole::reduce<&Whole::sum>},
                                                 {"ReduceProd", &Whole::reduce<&Whole::product>},
                                                 {"ReduceMax", &Whole::reduce<&Whole::larger>},
                                                 {"ReduceMin", &Whole::reduce<&Whole::smaller>},
                                                 {"ArgMax", &Whole::place_of_extreme<&Whole::larger>},
                                                 {"ArgMin", &Whole::place_of_extreme<&Whole::smaller>},
                                                 {"CumSum", &Whole::running<&Whole::sum, 0>},
                                                 {"CumProd", &Whole::running<&Whole::product, 1>}};

}  // namespace

bool import_on_whole_numbers(Import& import, const Source& source) {
  if (!source.proto.domain().empty()) return false;
  const auto at_run_time = [](const OperandPtr& x) { return x && !x->constant && is_whole(x->type); };
  if (std::none_of(source.inputs.begin(), source.inputs.end(), at_run_time)) return false;
  if (const OperatorImporter* step = find_step_on_whole(source.proto.op_type())) {
    step->run(import, source);
    return true;
  }
  for (const OperatorOnWhole& known : kOperatorsOnWhole) {
    if (known.op != source.proto.op_type()) continue;
    Whole formula(import, source, source.operand(0)->type);
    (formula.*known.run)();
    return true;
  }
  return false;
}

}  // namespace nacre::tools::onnx_import
