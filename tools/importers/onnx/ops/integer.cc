// Imports operators on integers of run time that are functions of the op binary (engine/ops/binary.h: Div, Mod, Pow,
// BitShift, BitwiseAnd, BitwiseOr, BitwiseXor), and operators on narrow integers.
//
//   Div   a / b rounded towards 0              Mod   a - b floor(a / b), with fmod a - b div(a, b)
//   Pow   of two integers in integers; if a or b is real, the power of both as reals, cut towards 0 for an integer a
//
//   BitShift RIGHT   without a sign; from opset 28 on with the sign
//
// int8, uint8, int16 and bool are computed as int32, uint32 as int64, and the result is cast back: y = cast(f(x)). The
// cast drops the bits beyond the type. Sums, products and left shifts are right nevertheless, because their low bits
// depend on low bits alone. The results of the other operators stay within the wider type.
#include <algorithm>
#include <string>

#include "engine/ops/binary.h"
#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"

namespace nacre::tools::onnx_import {
namespace {

OperandPtr step_of_two(Import& import, const Source& source, Node node, const OperandPtr& a, const OperandPtr& b,
                       const std::string& name) {
  if (a->type != b->type) source.malformed("its operands have several types");
  const std::optional<std::vector<int64_t>> dims = broadcast(a->dims, b->dims);
  if (!dims) source.malformed("its operands have shapes that cannot be combined");
  node.inputs = {import.plain(a), import.plain(b)};
  const ValueId y = import.append(std::move(node), name, a->type);
  return std::make_shared<Operand>(Operand{.type = a->type, .dims = *dims, .plain = y});
}

OperandPtr function_step(Import& import, const Source& source, Binary::Function function, const std::string& name) {
  if (source.opset < 7) source.refuse("opset 7 says how its operands are broadcast", "export with opset 7 or later");
  Node node = import.step(Op::kBinary);
  set_integer(node, "function", int(function));
  return step_of_two(import, source, std::move(node), source.operand(0), source.operand(1), name);
}

template <Binary::Function kFunction>
void function_of_whole(Import& import, const Source& source) {
  import.give(0, function_step(import, source, kFunction, import.output_name()));
}

void modulo(Import& import, const Source& source) {
  const bool towards_zero = source.integer("fmod", 0) != 0;
  const std::string name = import.output_name();
  const OperandPtr &a = source.operand(0), &b = source.operand(1);
  const OperandPtr quotient =
      function_step(import, source, towards_zero ? Binary::kDiv : Binary::kFloorDiv, name + "/quotient");
  const OperandPtr product = step_of_two(import, source, import.step(Op::kMul), b, quotient, name + "/product");
  import.give(0, step_of_two(import, source, import.step(Op::kSub), a, product, name));
}

int64_t proto_type(ElementType type) {
  using Proto = ::onnx::TensorProto;
  switch (type) {
    case ElementType::kInt8: return Proto::INT8;
    case ElementType::kUint8: return Proto::UINT8;
    case ElementType::kInt16: return Proto::INT16;
    case ElementType::kUint32: return Proto::UINT32;
    case ElementType::kBool: return Proto::BOOL;
    case ElementType::kInt32: return Proto::INT32;
    case ElementType::kInt64: return Proto::INT64;
    case ElementType::kFloat16: return Proto::FLOAT16;
    case ElementType::kBfloat16: return Proto::BFLOAT16;
    case ElementType::kFloat64: return Proto::DOUBLE;
    default: return Proto::FLOAT;
  }
}

void power(Import& import, const Source& source) {
  const ElementType base = source.operand(0)->type, exponent = source.operand(1)->type;
  if (base == exponent) return function_of_whole<Binary::kPow>(import, source);
  Formula f(import, source);
  const auto cast_to = [&](const Term& x, ElementType type) { return f("Cast", {x}, {{"to", proto_type(type)}}); };
  if (is_whole(base) && is_whole(exponent)) {
    f.give(f("Pow", {f.input(0), cast_to(f.input(1), base)}));
  } else {
    const Term y = f("Pow", {f.to_real(f.input(0)), f.to_real(f.input(1))});
    f.give(is_whole(base) ? cast_to(y, base) : y);
  }
  f.run();
}

// From opset 28 on a right shift keeps the sign. The engine's >> shifts in zeros. With n = all ones if a < 0, else 0:
//
//   y = ((a xor n) >> b) xor n
void shift_with_sign(Import& import, const Source& source) {
  Formula f(import, source);
  const Term a = f.input(0), zero = f("Sub", {a, a});
  const Term one = f("Cast", {f("Less", {a, zero})}, {{"to", proto_type(source.operand(0)->type)}});
  const Term n = f("Sub", {zero, one});
  const Term y = f("BitShift", {f("BitwiseXor", {a, n}), f.input(1)}, {{"direction", std::string("RIGHT")}});
  f.give(f("BitwiseXor", {y, n}));
  f.run();
}

void shift(Import& import, const Source& source) {
  const std::string direction = source.text("direction", "");
  if (direction == "LEFT") return function_of_whole<Binary::kShiftLeft>(import, source);
  if (direction != "RIGHT") source.malformed("direction is " + direction);
  if (source.opset >= 28) return shift_with_sign(import, source);
  function_of_whole<Binary::kShiftRight>(import, source);
}

constexpr OperatorImporter kStepsOnWhole[] = {
    {"Div", function_of_whole<Binary::kDiv>},
    {"Mod", modulo},
    {"Pow", power},
    {"BitShift", shift},
    {"BitwiseAnd", function_of_whole<Binary::kAnd>},
    {"BitwiseOr", function_of_whole<Binary::kOr>},
    {"BitwiseXor", function_of_whole<Binary::kXor>},
};

// An operator that is computed in a wider type if operand `like` has a narrow one. `gives` says that the first output
// has the narrow type too. `bools` says that the rule holds for bool too.
struct OnNarrow {
  const char* op;
  int like = 0;
  bool gives = true, bools = false;
};
constexpr OnNarrow kOnNarrow[] = {
    {"Add"},
    {"Sub"},
    {"Mul"},
    {"Div"},
    {"Mod"},
    {"Pow"},
    {"Pow", 1, false},
    {"Min"},
    {"Max"},
    {"Sum"},
    {"Neg"},
    {"Abs"},
    {"Sign"},
    {"Clip"},
    {"BitShift"},
    {"BitwiseOr"},
    {"BitwiseXor"},
    {"BitwiseAnd"},
    {"BitwiseNot"},
    {"CumSum"},
    {"CumProd"},
    {"ReduceSum"},
    {"ReduceProd"},
    {"ReduceMax", 0, true, true},
    {"ReduceMin", 0, true, true},
    {"Where", 1},
    {"TopK"},
    {"ArgMax", 0, false},
    {"ArgMin", 0, false},
    {"Equal", 0, false},
    {"Less", 0, false},
    {"LessOrEqual", 0, false},
    {"Greater", 0, false},
    {"GreaterOrEqual", 0, false},
};

bool computes_wider(const Source& source, const OnNarrow& row) {
  if (source.proto.op_type() != row.op || !source.given(row.like)) return false;
  const ElementType type = source.operand(row.like)->type;
  if (wider_type(type) == type || (type == ElementType::kBool && !row.bools)) return false;
  return std::ranges::any_of(source.inputs, [&](const OperandPtr& x) { return x && !x->constant && x->type == type; });
}

}  // namespace

ElementType wider_type(ElementType type) {
  if (type == ElementType::kUint32) return ElementType::kInt64;
  const bool narrow = is_code_type(type) || type == ElementType::kInt16 || type == ElementType::kBool;
  return narrow ? ElementType::kInt32 : type;
}

void cast_by_way_of(Import& import, const Source& source, ElementType between, ElementType to) {
  Body body(source);
  const std::string wide = body.fresh(source.operand(0)->name + "/wide"), y = body.fresh(import.output_name());
  set_attribute(body.node("Cast", {body.take(source.operand(0))}, wide), "to", proto_type(between));
  set_attribute(body.node("Cast", {wide}, y), "to", proto_type(to));
  body.give(y);
  import.expand(source, body);
}

const OperatorImporter* find_step_on_whole(const std::string& op) {
  const auto* found = std::ranges::find(kStepsOnWhole, op, &OperatorImporter::op);
  return found == std::end(kStepsOnWhole) ? nullptr : found;
}

bool import_on_narrow_integers(Import& import, const Source& source) {
  const auto fits = [&](const OnNarrow& known) { return computes_wider(source, known); };
  const auto* row = std::ranges::find_if(kOnNarrow, fits);
  if (!source.main || row == std::end(kOnNarrow)) return false;
  const ElementType type = source.operand(row->like)->type;
  Body body(source);
  std::vector<std::string> inputs;
  for (const OperandPtr& x : source.inputs) {
    inputs.push_back(x ? body.take(x) : "");
    if (!x || x->type != type) continue;
    const std::string wide = body.fresh(x->name + "/wide");
    set_attribute(body.node("Cast", {inputs.back()}, wide), "to", proto_type(wider_type(type)));
    inputs.back() = wide;
  }
  const std::string y = source.wants(0) ? body.fresh(source.proto.output(0)) : "";
  const bool casts = row->gives && !y.empty();
  ::onnx::NodeProto& node = body.node_like(source.proto, row->op, inputs, casts ? body.fresh(y + "/wide") : y);
  if (casts) set_attribute(body.node("Cast", {node.output(0)}, y), "to", proto_type(type));
  body.give(y);
  for (int i = 1; i < source.proto.output_size(); ++i) {
    node.add_output(source.wants(i) ? body.fresh(source.proto.output(i)) : "");
    body.give(node.output(i));
  }
  import.expand(source, body);
  return true;
}

}  // namespace nacre::tools::onnx_import
