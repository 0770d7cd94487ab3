// Imports operators as formulas of others: activations, IsNaN, IsInf, Xor, Mean, Mod, Hardmax, OneHot, Det, Clip.
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

// y = max(0, x) + min(0, alpha (e^(x / alpha) - 1)) = alpha elu(x / alpha)
void celu(Import& import, const Source& source) {
  Formula f(import, source);
  const float alpha = source.real("alpha", 1);
  if (alpha == 0) source.malformed("its alpha is 0");
  if (alpha == 1) {
    f.give(f("Elu", {f.input(0)}));
  } else {
    const Term scale = f.number(alpha);
    f.give(f("Mul", {f("Elu", {f("Div", {f.input(0), scale})}), scale}));
  }
  f.run();
}

// y = x tanh(ln(1 + e^x))
void mish(Import& import, const Source& source) {
  Formula f(import, source);
  const Term x = f.input(0);
  f.give(f("Mul", {x, f("Tanh", {f("Softplus", {x})})}));
  f.run();
}

// y = x sigmoid(alpha x)
void swish(Import& import, const Source& source) {
  Formula f(import, source);
  const Term x = f.input(0);
  const float alpha = source.real("alpha", 1);
  const Term scaled = alpha == 1 ? x : f("Mul", {x, f.number(alpha)});
  f.give(f("Mul", {x, f("Sigmoid", {scaled})}));
  f.run();
}

// y = a sigmoid(alpha a) b
void swiglu(Import& import, const Source& source) {
  if (source.operand(0)->dims != source.operand(1)->dims) source.malformed("its inputs have several shapes");
  Formula f(import, source);
  const Term a = f.input(0), scaled = f("Mul", {a, f.number(source.real("alpha", 1))});
  f.give(f("Mul", {f("Mul", {a, f("Sigmoid", {scaled})}), f.input(1)}));
  f.run();
}

// y = x + bias for x < -lambd, x - bias for x > lambd, else 0
void shrink(Import& import, const Source& source) {
  Formula f(import, source);
  const Term x = f.input(0);
  const float lambd = source.real("lambd", 0.5f), bias = source.real("bias", 0);
  const Term below = f("Add", {x, f.number(bias)}), above = f("Sub", {x, f.number(bias)});
  const Term upper = f("Where", {f("Greater", {x, f.number(lambd)}), above, f.number(0)});
  f.give(f("Where", {f("Less", {x, f.number(-lambd)}), below, upper}));
  f.run();
}

// y = x for x > alpha, else 0
void thresholded_relu(Import& import, const Source& source) {
  Formula f(import, source);
  const Term x = f.input(0);
  f.give(f("Where", {f("Greater", {x, f.number(source.real("alpha", 1))}), x, f.number(0)}));
  f.run();
}

// sinh x = s u v (2 - v) / 2,  v = 1 - e^-|x|,  u = e^|x|,  s = sign x. Elu computes v, so no digits are lost near
// x = 0.
void sinh(Import& import, const Source& source) {
  Formula f(import, source);
  const Term x = f.input(0), size = f("Abs", {x});
  const Term v = f("Neg", {f("Elu", {f("Neg", {size})})});
  const Term u = f("Exp", {size}), twice = f("Mul", {f("Mul", {u, v}), f("Sub", {f.number(2), v})});
  f.give(f("Mul", {f("Mul", {twice, f.number(0.5f)}), f("Sign", {x})}));
  f.run();
}

// cosh x = (e^x + e^-x) / 2
void cosh(Import& import, const Source& source) {
  Formula f(import, source);
  const Term x = f.input(0);
  const Term sum = f("Add", {f("Exp", {x}), f("Exp", {f("Neg", {x})})});
  f.give(f("Mul", {sum, f.number(0.5f)}));
  f.run();
}

// tan x = sin x / cos x
void tan(Import& import, const Source& source) {
  Formula f(import, source);
  const Term x = f.input(0);
  f.give(f("Div", {f("Sin", {x}), f("Cos", {x})}));
  f.run();
}

// x is NaN if it does not equal itself.
void is_nan(Import& import, const Source& source) {
  Formula f(import, source);
  const Term x = f.input(0);
  f.give(f("Not", {f("Equal", {x, x})}));
  f.run();
}

// x is infinite if |x| is above the largest float. Only one sign counts if the other is not asked for.
void is_inf(Import& import, const Source& source) {
  Formula f(import, source);
  constexpr float kLargest = std::numeric_limits<float>::max();
  const bool negative = source.integer("detect_negative", 1) != 0, positive = source.integer("detect_positive", 1) != 0;
  const Term x = f.input(0);
  if (negative && positive) f.give(f("Greater", {f("Abs", {x}), f.number(kLargest)}));
  else if (negative) f.give(f("Less", {x, f.number(-kLargest)}));
  else if (positive) f.give(f("Greater", {x, f.number(kLargest)}));
  else f.give(f("Less", {x, x}));  // neither sign is asked for, so the result is false
  f.run();
}

// a xor b is true if the 0 or 1 of a differs from that of b.
void logical_xor(Import& import, const Source& source) {
  Formula f(import, source);
  f.give(f("Not", {f("Equal", {f.to_real(f.input(0)), f.to_real(f.input(1))})}));
  f.run();
}

// y = (x_1 + .. + x_n) / n
void mean(Import& import, const Source& source) {
  Formula f(import, source);
  const int count = int(source.inputs.size());
  if (count == 0) source.malformed("has no operand");
  std::vector<Term> terms;
  for (int i = 0; i < count; ++i) terms.push_back(f.input(i));
  if (count == 1) f.give(terms[0]);
  else f.give(f("Mul", {f("Sum", terms), f.number(1 / float(count))}));
  f.run();
}

// Computes the remainder of floats. If |a / b| is 2^24 or more, no digit of it is right:
//
//   fmod = 1   y = a - b trunc(a / b), trunc q = sign q floor |q|        fmod = 0   y = a - b floor(a / b)
void mod(Import& import, const Source& source) {
  Formula f(import, source);
  const bool floored = source.integer("fmod", 0) == 0;
  if (floored && source.opset < 28) source.malformed("has real operands, which need fmod = 1 before opset 28");
  const Term a = f.input(0), b = f.input(1), q = f("Div", {a, b});
  const Term whole = floored ? f("Floor", {q}) : f("Mul", {f("Sign", {q}), f("Floor", {f("Abs", {q})})});
  f.give(f("Sub", {a, f("Mul", {b, whole})}));
  f.run();
}

// y = 1 at the largest number along an axis (the first of equals), else 0. The index of that number is compared with
// every index of the axis. Before opset 13 the axes from `axis` on count as one axis.
void hardmax(Import& import, const Source& source) {
  Formula f(import, source);
  const std::vector<int64_t>& dims = source.operand(0)->dims;
  const int rank = int(dims.size());
  if (rank == 0) source.refuse("its input has rank 0");
  const bool matrix = source.opset < 13;
  const int axis = source.axis(source.integer("axis", matrix ? 1 : -1), rank);
  Term x = f.input(0);
  std::vector<int64_t> shape = dims;
  if (matrix) shape = {product_of(dims, 0, size_t(axis)), product_of(dims, size_t(axis), dims.size())};
  if (matrix) x = f.reshape(x, shape);
  const int64_t along = matrix ? 1 : axis;
  std::vector<int64_t> of_axis(shape.size(), 1);
  of_axis[size_t(along)] = shape[size_t(along)];
  const Term place = f.to_real(f("ArgMax", {x}, {{"axis", along}, {"keepdims", int64_t{1}}}));
  const Term y = f.to_real(f("Equal", {place, f.counted(of_axis)}));
  f.give(matrix ? f.reshape(y, dims) : y);
  f.run();
}

// y[.., d, ..] = values[1] if d is the index (from the end if negative), else values[0]; d runs along a new `axis`.
void one_hot(Import& import, const Source& source) {
  const Value& depth_value = source.constant(1, "its depth");
  if (depth_value.elements() != 1) source.malformed("its depth is not one number");
  const bool whole = is_integer(depth_value.stored);
  const double wanted = whole ? double(integers(depth_value)[0]) : double(reals(depth_value)[0]);
  const OperandPtr &indices = source.operand(0), &values = source.operand(2);
  if (!(wanted >= 1 && wanted <= 1 << 24)) source.refuse("its depth is below 1 or above 2^24");
  const auto depth = int64_t(wanted);
  if (values->dims != std::vector<int64_t>{2}) source.malformed("its values are not two numbers");
  Formula f(import, source);
  const int64_t axis = source.axis(source.integer("axis", -1), indices->rank() + 1);
  std::vector<int64_t> of_axis(indices->dims.size() + 1, 1);
  of_axis[size_t(axis)] = depth;
  const Term given = indices->type == ElementType::kFloat32 ? f.input(0) : f.to_real(f.input(0));
  const Term from_end = f("Add", {given, f.number(float(depth))});
  const Term index = f("Where", {f("Less", {given, f.number(0)}), from_end, given});
  const Term hit = f("Equal", {f("Unsqueeze", {index, f.list({axis})}), f.counted(of_axis)});
  const Term both = f.input(2), off = f.slice(both, 0, 0, 1), on = f.slice(both, 0, 1, 2);
  f.give(f("Where", {hit, f.reshape(on, {}), f.reshape(off, {})}));
  f.run();
}

// Computes the determinant of x [.., n, n] by minors. m(S) is the determinant of the last |S| rows and the columns S
// = {s_0 < s_1 < ..}:
//
//   m({}) = 1,   m(S) = sum_k (-1)^k x_r,s_k m(S without s_k),   r = n - |S|
void det(Import& import, const Source& source) {
  constexpr int64_t kMostRows = 6;  // 2^n minors are written out
  const std::vector<int64_t>& dims = source.operand(0)->dims;
  const int64_t n = dims.size() < 2 ? 0 : dims.back();
  if (n < 1 || dims[dims.size() - 2] != n) source.malformed("its input is not square");
  if (n > kMostRows) source.refuse("its matrices have more than 6 rows");
  Formula f(import, source);
  const Term x = f.reshape(f.input(0), {product_of(dims, 0, dims.size() - 2), n * n});
  std::vector<Term> minors(size_t{1} << n);
  for (unsigned columns = 1; columns < minors.size(); ++columns) {
    const int64_t row = n - std::popcount(columns);
    bool subtracted = false;
    for (int64_t column = 0; column < n; ++column) {
      if ((columns >> column & 1) == 0) continue;
      const Term& without = minors[columns & ~(1u << column)];
      const Term element = f.slice(x, 1, row * n + column, row * n + column + 1);
      const Term product = without.empty() ? element : f("Mul", {element, without});
      Term& sum = minors[columns];
      sum = sum.empty() ? product : f(subtracted ? "Sub" : "Add", {sum, product});
      subtracted = !subtracted;
    }
  }
  f.give(f.reshape(minors.back(), {dims.begin(), dims.end() - 2}));
  f.run();
}

}  // namespace

// Imports y = min(max(x, low), high) if low or high is computed at run time.
bool clip_by_computed(Import& import, const Source& source) {
  const auto is_computed = [&](int bound) { return source.given(bound) && !source.operand(bound)->constant; };
  if (!is_computed(1) && !is_computed(2)) return false;
  Formula f(import, source);
  Term y = f.input(0);
  if (source.given(1)) y = f("Max", {y, f.input(1)});
  if (source.given(2)) y = f("Min", {y, f.input(2)});
  f.give(y);
  f.run();
  return true;
}

namespace {

constexpr OperatorImporter kFormulaImporters[] = {
    {"Celu", celu},
    {"Mish", mish},
    {"Swish", swish},
    {"Shrink", shrink},
    {"ThresholdedRelu", thresholded_relu},
    {"Sinh", sinh},
    {"Cosh", cosh},
    {"Tan", tan},
    {"IsNaN", is_nan},
    {"IsInf", is_inf},
    {"Xor", logical_xor},
    {"Mean", mean},
    {"Mod", mod},
    {"Hardmax", hardmax},
    {"OneHot", one_hot},
    {"Det", det},
    {"SwiGLU", swiglu},
};

}  // namespace

std::span<const OperatorImporter> formula_importers() { return kFormulaImporters; }

}  // namespace nacre::tools::onnx_import
