// Imports QuantizeLinear and DequantizeLinear with a scale or zero point that is computed at run time, as formulas on
// reals.
//
//   QuantizeLinear   q = saturate(round_half_even(x / s) + z)        DequantizeLinear   x = (q - z) s
//
// q is int8 or uint8, in DequantizeLinear also int32. s and z are single numbers, or one for each index of `axis`.
#include <algorithm>

#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = Formula::Ints;

class Scaled {
 public:
  enum Input { kX, kScale, kZero };

  Scaled(Import& import, const Source& source) : source_(source), f_(import, source) {}

  void quantize(ElementType codes) {
    if (!is_code_type(codes)) source_.refuse("quantizes to another type than int8 and uint8, with a scale of run time");
    const bool has_sign = codes == ElementType::kInt8;
    Term q = f_("Round", {f_("Div", {f_.to_real(f_.input(kX)), per_axis(kScale)})});
    if (source_.given(kZero)) q = f_("Add", {q, per_axis(kZero)});
    const Term low = f_.number(has_sign ? -128 : 0), high = f_.number(has_sign ? 127 : 255);
    const int64_t type = has_sign ? ::onnx::TensorProto::INT8 : ::onnx::TensorProto::UINT8;
    give(f_("Cast", {f_("Clip", {q, low, high})}, {{"to", type}}));
  }

  void dequantize() {
    const ElementType codes = source_.operand(kX)->type;
    if (!is_code_type(codes) && codes != ElementType::kInt32)
      source_.refuse("dequantizes another type than int8, uint8 and int32, with a scale of run time");
    Term x = f_.to_real(f_.input(kX));
    if (source_.given(kZero)) x = f_("Sub", {x, per_axis(kZero)});
    x = f_("Mul", {x, per_axis(kScale)});
    give(source_.operand(kScale)->kept == ElementType::kNone ? x : f_("CastLike", {x, f_.input(kScale)}));
  }

 private:
  void give(const Term& y) {
    f_.give(y);
    f_.run();
  }

  // Returns the scale or zero point `input` as real numbers that are broadcast over x.
  Term per_axis(int input) {
    const Ints &x = source_.operand(kX)->dims, &given = source_.operand(input)->dims;
    const Term numbers = f_.to_real(f_.input(input));
    if (product_of(given, 0, given.size()) == 1) return f_.reshape(numbers, {});
    const auto axis = size_t(source_.axis(source_.integer("axis", 1), int(x.size())));
    if (given != Ints{x[axis]}) source_.refuse("has neither one scale nor one per channel, computed at run time");
    Ints dims(x.size(), 1);
    dims[axis] = x[axis];
    return f_.reshape(numbers, dims);
  }

  const Source& source_;
  Formula f_;
};

}  // namespace

bool has_scale_of_run_time(const Source& source) {
  const auto computed = [&](int input) { return source.given(input) && !source.operand(input)->constant; };
  return computed(Scaled::kScale) || computed(Scaled::kZero);
}

void quantize_at_run_time(Import& import, const Source& source, ElementType codes) {
  Scaled(import, source).quantize(codes);
}

void dequantize_at_run_time(Import& import, const Source& source) { Scaled(import, source).dequantize(); }

}  // namespace nacre::tools::onnx_import
