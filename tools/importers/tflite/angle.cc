// Converts ATAN2(a, b) to nodes: the angle of the point (b, a) for finite numbers. Zeros have no sign; (0, 0) gives 0.
//
//   t = min(|a|, |b|) / max(|a|, |b|)
//   w = t, or, if t > tan(pi / 8), (t - 1) / (t + 1) = tan(atan t - pi / 4)
//   r = w + w^3 (c_0 + c_1 w^2 + c_2 w^4 + c_3 w^6), + pi / 4 if t > tan(pi / 8)   S. Moshier, Cephes, single/atanf.c
//   r = pi / 2 - r if |a| > |b|, then pi - r if b < 0, then -r if a < 0
#include "tools/importers/tflite/steps.h"

namespace nacre::tools::tflite {
namespace {

class Angle {
 public:
  Angle(Importer& importer, Operation& op)
      : s_(importer, op), a_(importer.real_input(op, 0)), b_(importer.real_input(op, 1)) {
    if (s_.dims(a_) != s_.dims(b_)) importer.bad(op, "its operands have several shapes");
    if (importer.value(a_).quantizer || importer.value(b_).quantizer) importer.unsupported(op, "an angle of codes");
  }

  void give() {
    const ValueId zero = number(0), up = s_.unary(Unary::kAbs, a_), right = s_.unary(Unary::kAbs, b_);
    const ValueId least = s_.binary(Binary::kMinimum, up, right), most = s_.binary(Binary::kMaximum, up, right);
    const ValueId divisor = s_.select(compare(Compare::kGreater, most, zero), most, number(1));
    const ValueId near = atan_of(s_.binary(Binary::kDiv, least, divisor));
    ValueId r = s_.select(compare(Compare::kGreater, up, right), from(kHalfPi, near), near);
    r = s_.select(compare(Compare::kLess, b_, zero), from(kPi, r), r);
    s_.give(s_.select(compare(Compare::kLess, a_, zero), s_.unary(Unary::kNeg, r), r));
  }

 private:
  static constexpr float kPi = 3.14159265f, kHalfPi = 1.57079633f, kQuarterPi = 0.78539816f;

  ValueId number(float v) { return s_.number(a_, v); }
  ValueId compare(Compare::Function f, ValueId x, ValueId y) { return s_.compare(f, x, y); }
  ValueId from(float angle, ValueId x) { return s_(Op::kSub, {number(angle), x}); }

  ValueId atan_of(ValueId t) {
    constexpr float kTanOfEighth = 0.41421356f;
    constexpr float kC[] = {-3.33329491539e-1f, 1.99777106478e-1f, -1.38776856032e-1f, 8.05374449538e-2f};
    const ValueId turned = compare(Compare::kGreater, t, number(kTanOfEighth)), one = number(1);
    const ValueId other = s_.binary(Binary::kDiv, s_(Op::kSub, {t, one}), s_(Op::kAdd, {t, one}));
    const ValueId w = s_.select(turned, other, t), square = s_(Op::kMul, {w, w});
    ValueId sum = number(kC[3]);
    for (int i = 2; i >= 0; --i) sum = s_(Op::kAdd, {s_(Op::kMul, {square, sum}), number(kC[i])});
    const ValueId angle = s_(Op::kAdd, {w, s_(Op::kMul, {s_(Op::kMul, {square, sum}), w})});
    return s_.select(turned, s_(Op::kAdd, {angle, number(kQuarterPi)}), angle);
  }

  Steps s_;
  const ValueId a_, b_;
};

void convert_atan2(Importer& importer, Operation& op) { Angle(importer, op).give(); }

}  // namespace

std::span<const Converter> angle_converters() {
  static constexpr Converter kRows[] = {{BuiltinOperator::ATAN2, &convert_atan2}};
  return kRows;
}

}  // namespace nacre::tools::tflite
