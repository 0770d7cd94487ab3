// Steps builds an operator from nodes of other ops. s(op, inputs) adds a node and returns its output. give() makes a
// value the operator's output. Importer::emit computes a node of constants alone at once, if it can.
//
//   Steps s(importer, op);
//   const ValueId x = importer.real_input(op, 0);
//   s.give(s(Op::kMul, {x, s.unary(Unary::kSqrt, x)}));
#pragma once

#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/select.h"
#include "engine/ops/unary.h"
#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {

struct Ordered {
  ValueId values, places;  // places are int32
};

class Steps {
 public:
  using Ints = std::vector<int64_t>;
  using Ids = std::vector<ValueId>;
  struct Word {
    const char* name;
    int number;
  };

  Steps(Importer& importer, Operation& op)
      : importer_(importer), op_(op), first_(ValueId(importer.graph().values.size())) {}

  const Ints& dims(ValueId x) const { return importer_.value(x).dims; }
  ElementType type(ValueId x) const { return importer_.value(x).type; }
  bool is_whole(ValueId x) const { return type(x) == ElementType::kInt32 || type(x) == ElementType::kInt64; }

  // Adds a node. Its output has the type and quantizer of input 0, or, if `type` is given, that type and no quantizer.
  ValueId operator()(Op op, Ids inputs, std::vector<Word> words = {}, ElementType type = ElementType::kNone);
  ValueId unary(Unary::Function f, ValueId x) {
    return (*this)(Op::kUnary, {x}, {{"function", int(f)}}, ElementType::kFloat32);
  }
  ValueId binary(Binary::Function f, ValueId a, ValueId b) {
    return (*this)(Op::kBinary, {a, b}, {{"function", int(f)}}, type(a));
  }
  ValueId compare(Compare::Function f, ValueId a, ValueId b) {
    return (*this)(Op::kCompare, {a, b}, {{"function", int(f)}}, ElementType::kBool);
  }
  ValueId select(ValueId condition, ValueId a, ValueId b) { return (*this)(Op::kSelect, {a, b, condition}); }
  ValueId cast(ValueId x, ElementType to) { return type(x) == to ? x : (*this)(Op::kCast, {x}, {}, to); }
  ValueId sum(ValueId x, int axis);
  ValueId arg_max(ValueId x, int axis);                // int32; keeps the axis
  ValueId extreme(ValueId x, int axis, bool maximum);  // keeps the axis
  // Combines an axis of integers by f, half with half, until one index is left. Keeps the axis.
  ValueId folded(ValueId x, int axis, const std::function<ValueId(ValueId, ValueId)>& f);
  ValueId reshape(ValueId x, Ints dims);
  ValueId transpose(ValueId x, const Ints& perm);
  ValueId slice(ValueId x, int axis, int64_t begin, int64_t size, int64_t step = 1);
  ValueId concat(Ids parts, int axis);
  ValueId rows(ValueId table, ValueId ids);        // table[ids[i]], [rows, width]
  ValueId take(ValueId x, ValueId ids, int axis);  // x at a list of indices along an axis

  ValueId numbers(const Ints& dims, const std::vector<float>& numbers);
  // Returns the `count` greatest along the last axis in descending order, with several nodes for each. Among equal
  // numbers the first comes first.
  Ordered greatest(ValueId x, int64_t count);
  ValueId number(ValueId beside, float v) { return numbers(Ints(dims(beside).size(), 1), {v}); }
  ValueId integers(ElementType type, const Ints& dims, const Ints& numbers);  // a constant of int32, int64 or bool
  ValueId filled(const Ints& dims, float v);
  ValueId counted(ElementType type, const Ints& dims);  // the numbers 0, 1, 2, ..; float32 too
  // Returns the constant v: with the integer type of x, or float32 if x is no integer.
  ValueId one_like(ValueId x, int64_t v);

  // Takes memory from the budget before the importer makes so many numbers.
  void ask(int64_t numbers) const;

  void give(ValueId y, size_t output = 0);

 private:
  ValueId constant(ElementType type, Ints dims, std::vector<uint8_t> bytes);

  Importer& importer_;
  Operation& op_;
  ValueId first_;  // this operator made the values from here on
};

int64_t product_of(const std::vector<int64_t>& dims, size_t first, size_t last);

}  // namespace nacre::tools::tflite
