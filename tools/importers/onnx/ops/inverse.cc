// Imports the inverses of the circular and hyperbolic functions, as formulas of functions that the engine has.
//
//   atan x    S. Moshier, Cephes, single/atanf.c: z = |x|, or 1 / |x| if |x| > 1; w = z, or
//             (z - 1) / (z + 1) = tan(atan z - pi / 4) if z > tan(pi / 8);
//             atan w = w + w^3 (c_0 + c_1 w^2 + c_2 w^4 + c_3 w^6), |w| <= tan(pi / 8), relative error 2e-7
//   asin x    atan(x / sqrt((1 - x) (1 + x)))                         acos x   2 atan(sqrt((1 - x) / (1 + x)))
//   asinh x   sign(x) ln1p(|x| + |x| (|x| / (1 + sqrt(1 + x^2))))     acosh x  ln1p(t + sqrt(t) sqrt(t + 2)), t = x - 1
//   atanh x   sign(x) ln1p(2 |x| / (1 - |x|)) / 2
//
// The formulas avoid differences that lose digits. ln1p u = ln(1 + u) = softplus(ln u), softplus v = ln(1 + e^v). For a
// small u its relative error is about |ln u| 2^-23.
#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"

namespace nacre::tools::onnx_import {
namespace {

class Inverse {
 public:
  Inverse(Import& import, const Source& source) : f_(import, source), x_(f_.input(0)), one_(f_.number(1)) {
    need_float32(source, *source.operand(0));
  }

  void atan() { give(atan_of(x_)); }
  void asin() { give(atan_of(f_("Div", {x_, f_("Sqrt", {f_("Mul", {below_one(), above_minus_one()})})}))); }

  void acos() {
    const Term half = atan_of(f_("Sqrt", {f_("Div", {below_one(), above_minus_one()})}));
    give(f_("Mul", {half, f_.number(2)}));
  }

  // |x| / (1 + sqrt(1 + x^2)) = s / (r + sqrt(r^2 + s^2)), s = min(|x|, 1), r = 1 / max(|x|, 1). No square overflows.
  void asinh() {
    const Term size = f_("Abs", {x_}), s = f_("Min", {size, one_}), r = f_("Reciprocal", {f_("Max", {size, one_})});
    const Term root = f_("Sqrt", {f_("Add", {squared(r), squared(s)})});
    const Term ratio = f_("Div", {s, f_("Add", {r, root})});
    give(signed_like_x(ln1p(f_("Add", {size, f_("Mul", {size, ratio})}))));
  }

  void acosh() {
    const Term t = f_("Sub", {x_, one_});
    const Term root = f_("Mul", {f_("Sqrt", {t}), f_("Sqrt", {f_("Add", {t, f_.number(2)})})});
    give(ln1p(f_("Add", {t, root})));
  }

  void atanh() {
    const Term size = f_("Abs", {x_}), ratio = f_("Div", {size, f_("Sub", {one_, size})});
    give(signed_like_x(f_("Mul", {ln1p(f_("Mul", {ratio, f_.number(2)})), f_.number(0.5f)})));
  }

 private:
  void give(const Term& y) {
    f_.give(y);
    f_.run();
  }

  Term below_one() { return f_("Sub", {one_, x_}); }
  Term above_minus_one() { return f_("Add", {one_, x_}); }
  Term squared(const Term& v) { return f_("Mul", {v, v}); }
  Term ln1p(const Term& u) { return f_("Softplus", {f_("Log", {u})}); }
  Term signed_like_x(const Term& size) { return f_("Mul", {size, f_("Sign", {x_})}); }

  Term atan_of(const Term& x) {
    constexpr float kTanOfEighth = 0.41421356f, kHalfPi = 1.57079633f, kQuarterPi = 0.78539816f;
    constexpr float kC[] = {-3.33329491539e-1f, 1.99777106478e-1f, -1.38776856032e-1f, 8.05374449538e-2f};
    const Term size = f_("Abs", {x}), far = f_("Greater", {size, one_});
    const Term z = f_("Where", {far, f_("Reciprocal", {size}), size});
    const Term turned = f_("Greater", {z, f_.number(kTanOfEighth)});
    const Term w = f_("Where", {turned, f_("Div", {f_("Sub", {z, one_}), f_("Add", {z, one_})}), z});
    const Term square = squared(w);
    Term sum = f_.number(kC[3]);
    for (int i = 2; i >= 0; --i) sum = f_("Add", {f_("Mul", {sum, square}), f_.number(kC[i])});
    const Term angle = f_("Add", {w, f_("Mul", {f_("Mul", {sum, square}), w})});
    const Term near = f_("Where", {turned, f_("Add", {angle, f_.number(kQuarterPi)}), angle});
    const Term y = f_("Where", {far, f_("Sub", {f_.number(kHalfPi), near}), near});
    return f_("Mul", {y, f_("Sign", {x})});
  }

  Formula f_;
  const Term x_, one_;
};

template <void (Inverse::*kFunction)()>
void inverse(Import& import, const Source& source) {
  Inverse formula(import, source);
  (formula.*kFunction)();
}

constexpr OperatorImporter kInverseImporters[] = {
    {"Atan", inverse<&Inverse::atan>},   {"Asin", inverse<&Inverse::asin>},   {"Acos", inverse<&Inverse::acos>},
    {"Asinh", inverse<&Inverse::asinh>}, {"Acosh", inverse<&Inverse::acosh>}, {"Atanh", inverse<&Inverse::atanh>},
};

}  // namespace

std::span<const OperatorImporter> inverse_importers() { return kInverseImporters; }

}  // namespace nacre::tools::onnx_import
