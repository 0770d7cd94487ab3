// Defines functions of one element.
//
//   clamp        y = min(max(x, low), high)
//   leaky_relu   y = x for x > 0, else alpha x; int16: y = clamp(x M_0) for x >= 0, else clamp(x M_1)
//   sigmoid      y = 1 / (1 + exp(-x)); int16: curve.h
//   tanh         y = tanh(x); int16: curve.h
//   hard_swish   y = x min(max(x + 3, 0), 6) / 6
//   lookup       y = table[x + 128], any function of an int8 code; int16: 513 points (curve.h); NUMERICS.md section 4
//
// clamp on int8 and int16: y = clamp(zero_y + (x - zero_x) M), M = requant, or 1 without requant (NUMERICS.md eq. 8).
//
// Backward:
//
//   clamp        dx = dy for low < y < high, else 0        dx is 0 at a bound, as in the frameworks' relu and relu6.
//                                                           Reads y, which the next layer keeps anyway
//   leaky_relu   dx = dy for x > 0, else alpha dy
//   sigmoid      dx = dy y (1 - y)
//   tanh         dx = dy (1 - y^2)
//   hard_swish   dx = 0 for x <= -3, dy for x >= 3, else dy (2 x + 3) / 6
#pragma once

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/ops/curve.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"
#include "engine/ops/real_functions.h"

namespace nacre::inline NACRE_ISA {

struct Clip {  // the op clamp
  int elements;
  Clamp clamp;
  int x_zero, y_zero;

  enum Word { kClamp = 0, kXZero = 3, kYZero = 4 };

  static constexpr Clip from(const Words& words, const Operands& operands) {
    return {.elements = operands[0].elements(),
            .clamp = Clamp::from(words, kClamp),
            .x_zero = words.integer(kXZero),
            .y_zero = words.integer(kYZero)};
  }

  template <class T>
  constexpr void forward(const T* x, T* y) const {
    using A = typename Element<T>::Accumulator;
    for (int i : independent(elements)) y[i] = T(clamp.real(A(x[i])));
  }

  template <Rounding kRounding, class Q = int8_t>
  constexpr void forward_codes(const Q* x, Optional<const int32_t> requant, Q* y) const {
    for (int i : independent(elements)) {
      const int32_t difference = x[i] - x_zero;
      const int32_t scaled = requant ? multiply<kRounding>(difference, {requant[0], requant[1]}) : difference;
      y[i] = clamp.code<Q>(wrapping_add(scaled, y_zero));
    }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const ElementType codes = operands.element(0);
    for (const int word : {kXZero, kYZero}) NACRE_TRY_CODE(check_zero(words.integer(word), codes));
    NACRE_TRY_CODE(check_clamp(words, kClamp, codes));
    NACRE_TRY_CODE(check_pairs(operands, 1, 1));
    *y = dims_of(operands[0]);
    return Code::kOk;
  }

  static constexpr auto kAttributes = joined(kClampAttributes, {{"x_zero"}, {"y_zero"}});
  static constexpr const char* kInputs[] = {"x", "requant?"};
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr Gradient kGradients[] = {
      {.of = kOf<0>, .by = Op::kClampGradient, .reads = kReads<gradient_of(0), output_of(0)>}};
};

struct Activation {  // the functions of real numbers
  int elements;
  float alpha;  // alpha of leaky_relu

  static constexpr Activation from(const Words& words, const Operands& operands) {
    return {.elements = operands[0].elements(), .alpha = words.real(0)};
  }

  template <class T>
  constexpr void leaky_relu(const T* x, T* y) const {
    each(x, y, [&](auto v) { return RealFunction::leaky_relu(v, decltype(v)(alpha)); });
  }
  constexpr void leaky_relu_int16(const int16_t* x, const int32_t* requant, int16_t* y) const {
    constexpr Clamp kAll = {};
    for (int i : independent(elements)) {
      const int32_t* m = requant + (x[i] >= 0 ? 0 : 2);
      y[i] = kAll.code<int16_t>(multiply<Rounding::kDouble>(x[i], {m[0], m[1]}));
    }
  }
  template <class T>
  constexpr void sigmoid(const T* x, T* y) const {
    each(x, y, [](auto v) { return RealFunction::sigmoid(v); });
  }
  template <class T>
  constexpr void tanh(const T* x, T* y) const {
    each(x, y, [](auto v) { return RealFunction::tanh(v); });
  }
  template <class T>
  constexpr void hard_swish(const T* x, T* y) const {
    each(x, y, [](auto v) { return RealFunction::hard_swish(v); });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    if (!is_finite(words[0])) return Code::kAttribute;
    NACRE_TRY_CODE(check_pairs(operands, 1, 2));
    *y = dims_of(operands[0]);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"alpha", Coding::kReal}};
  static constexpr const char* kInputs[] = {"x"};
  static constexpr const char* kLeakyReluInputs[] = {"x", "requant?"};
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr Gradient kLeakyReluGradients[] = {
      {.of = kOf<0>, .by = Op::kLeakyReluGradient, .reads = kReads<gradient_of(0), input_of(0)>}};
  static constexpr Gradient kSigmoidGradients[] = {
      {.of = kOf<0>, .by = Op::kSigmoidGradient, .reads = kReads<gradient_of(0), output_of(0)>, .words = &no_words}};
  static constexpr Gradient kTanhGradients[] = {
      {.of = kOf<0>, .by = Op::kTanhGradient, .reads = kReads<gradient_of(0), output_of(0)>, .words = &no_words}};
  static constexpr Gradient kHardSwishGradients[] = {
      {.of = kOf<0>, .by = Op::kHardSwishGradient, .reads = kReads<gradient_of(0), input_of(0)>}};

 private:
  // Computes y = f(x). f works in the accumulator type: float32 for 16-bit elements, rounded once.
  template <class T, class F>
  constexpr void each(const T* x, T* y, F f) const {
    using A = typename Element<T>::Accumulator;
    for (int i : independent(elements)) y[i] = T(f(A(x[i])));
  }
};

struct ActivationGradient {
  int elements;
  Words words;

  static constexpr ActivationGradient from(const Words& words, const Operands& operands) {
    return {operands[0].elements(), words};
  }

  // Passes dy if y is between the bounds as rounded to T, because a forward step that clamped gave those. NaN passes.
  template <class T>
  constexpr void clamp(const T* dy, const T* y, T* dx) const {
    using A = typename Element<T>::Accumulator;
    const bool bounds = words[Clip::kClamp] != Clamp::kNone;
    const A low = A(T(A(words.real(Clip::kClamp + 1)))), high = A(T(A(words.real(Clip::kClamp + 2))));
    each(dy, y, dx, [&](A d, A v) { return bounds && (v <= low || v >= high) ? A(0) : d; });
  }
  template <class T>
  constexpr void leaky_relu(const T* dy, const T* x, T* dx) const {
    using A = typename Element<T>::Accumulator;
    const A alpha = A(words.real(0));
    each(dy, x, dx, [&](A d, A v) { return v > 0 ? d : alpha * d; });
  }
  template <class T>
  constexpr void sigmoid(const T* dy, const T* y, T* dx) const {
    each(dy, y, dx, [](auto d, auto v) { return d * v * (1 - v); });
  }
  template <class T>
  constexpr void tanh(const T* dy, const T* y, T* dx) const {
    each(dy, y, dx, [](auto d, auto v) { return d * (1 - v * v); });
  }
  template <class T>
  constexpr void hard_swish(const T* dy, const T* x, T* dx) const {
    using A = typename Element<T>::Accumulator;
    each(dy, x, dx, [](A d, A v) { return v <= -3 ? A(0) : v >= 3 ? d : d * (2 * v + 3) / 6; });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    const Shape y = operands[0], x = operands[1];
    if (!is_finite(words[0])) return Code::kAttribute;  // alpha
    if (x.rank != y.rank) return Code::kShapeRank;
    for (int axis = 0; axis < x.rank; ++axis)
      if (x[axis] != y[axis]) return Code::kShapeInput;
    *dx = dims_of(y);
    return Code::kOk;
  }
  static constexpr Code shapes_clamp(const Words& words, const Operands& operands, Dims* dx) {
    if (words[Clip::kXZero] != 0 || words[Clip::kYZero] != 0) return Code::kAttributeZero;
    NACRE_TRY_CODE(check_clamp(words, Clip::kClamp, operands.element(0)));
    return shapes({}, operands, dx);
  }

  static constexpr const char* kXInputs[] = {"dy", "x"};
  static constexpr const char* kYInputs[] = {"dy", "y"};
  static constexpr const char* kOutputs[] = {"dx"};

 private:
  // Computes dx = f(dy, v). f works in the accumulator type.
  template <class T, class F>
  constexpr void each(const T* dy, const T* v, T* dx, F f) const {
    using A = typename Element<T>::Accumulator;
    for (int i : independent(elements)) dx[i] = T(f(A(dy[i]), A(v[i])));
  }
};

// Functions of codes by table. An int8 table has all 256 results; an int16 table has 513 points joined by lines.
struct Lookup {
  int elements;

  static constexpr Lookup from(const Words&, const Operands& operands) { return {operands[0].elements()}; }

  constexpr void forward(const int8_t* x, const int8_t* table, int8_t* y) const {
    for (int i : independent(elements)) y[i] = table[x[i] + 128];
  }
  constexpr void forward_int16(const int16_t* x, const int16_t* table, int16_t* y) const {
    for (int i : independent(elements)) y[i] = Curve513::at(table, x[i]);
  }

  static constexpr Code shapes(const Words&, const Operands& operands, Dims* y) {
    const Shape table = operands[1];
    const int points = operands.element(0) == ElementType::kInt16 ? Curve513::kPoints : 256;
    if (table.rank != 1 || table[0] != points) return Code::kShapeWeights;
    *y = dims_of(operands[0]);
    return Code::kOk;
  }

  static constexpr const char* kInputs[] = {"x", "table"};
  static constexpr const char* kOutputs[] = {"y"};
};

inline constexpr OpRule kClampRule = {.op = Op::kClamp,
                                      .name = "clamp",
                                      .numerics = Numerics::kPointwise,
                                      .shapes = &Clip::shapes,
                                      .attributes = Clip::kAttributes,
                                      .inputs = Clip::kInputs,
                                      .outputs = Clip::kOutputs,
                                      .gradients = Clip::kGradients};
inline constexpr OpRule kLeakyReluRule = {.op = Op::kLeakyRelu,
                                          .name = "leaky_relu",
                                          .numerics = Numerics::kPointwise,
                                          .shapes = &Activation::shapes,
                                          .attributes = Activation::kAttributes,
                                          .inputs = Activation::kLeakyReluInputs,
                                          .outputs = Activation::kOutputs,
                                          .gradients = Activation::kLeakyReluGradients};
inline constexpr OpRule kSigmoidRule = {.op = Op::kSigmoid,
                                        .name = "sigmoid",
                                        .numerics = Numerics::kPointwise,
                                        .shapes = &Curve::shapes,
                                        .attributes = Curve::kAttributes,
                                        .inputs = Curve::kInputs,
                                        .outputs = Activation::kOutputs,
                                        .gradients = Activation::kSigmoidGradients};
inline constexpr OpRule kTanhRule = {.op = Op::kTanh,
                                     .name = "tanh",
                                     .numerics = Numerics::kPointwise,
                                     .shapes = &Curve::shapes,
                                     .attributes = Curve::kAttributes,
                                     .inputs = Curve::kInputs,
                                     .outputs = Activation::kOutputs,
                                     .gradients = Activation::kTanhGradients};
inline constexpr OpRule kHardSwishRule = {.op = Op::kHardSwish,
                                          .name = "hard_swish",
                                          .numerics = Numerics::kPointwise,
                                          .shapes = &Activation::shapes,
                                          .attributes = {},
                                          .inputs = Activation::kInputs,
                                          .outputs = Activation::kOutputs,
                                          .gradients = Activation::kHardSwishGradients};
inline constexpr OpRule kLookupRule = {.op = Op::kLookup,
                                       .name = "lookup",
                                       .numerics = Numerics::kPointwise,
                                       .shapes = &Lookup::shapes,
                                       .attributes = {},
                                       .inputs = Lookup::kInputs,
                                       .outputs = Lookup::kOutputs};

inline constexpr OpRule kClampGradientRule = {.op = Op::kClampGradient,
                                              .name = "clamp_gradient",
                                              .numerics = Numerics::kPointwise,
                                              .shapes = &ActivationGradient::shapes_clamp,
                                              .attributes = Clip::kAttributes,
                                              .inputs = ActivationGradient::kYInputs,
                                              .outputs = ActivationGradient::kOutputs};
inline constexpr OpRule kLeakyReluGradientRule = {.op = Op::kLeakyReluGradient,
                                                  .name = "leaky_relu_gradient",
                                                  .numerics = Numerics::kPointwise,
                                                  .shapes = &ActivationGradient::shapes,
                                                  .attributes = Activation::kAttributes,
                                                  .inputs = ActivationGradient::kXInputs,
                                                  .outputs = ActivationGradient::kOutputs};
inline constexpr OpRule kSigmoidGradientRule = {.op = Op::kSigmoidGradient,
                                                .name = "sigmoid_gradient",
                                                .numerics = Numerics::kPointwise,
                                                .shapes = &ActivationGradient::shapes,
                                                .attributes = {},
                                                .inputs = ActivationGradient::kYInputs,
                                                .outputs = ActivationGradient::kOutputs};
inline constexpr OpRule kTanhGradientRule = {.op = Op::kTanhGradient,
                                             .name = "tanh_gradient",
                                             .numerics = Numerics::kPointwise,
                                             .shapes = &ActivationGradient::shapes,
                                             .attributes = {},
                                             .inputs = ActivationGradient::kYInputs,
                                             .outputs = ActivationGradient::kOutputs};
inline constexpr OpRule kHardSwishGradientRule = {.op = Op::kHardSwishGradient,
                                                  .name = "hard_swish_gradient",
                                                  .numerics = Numerics::kPointwise,
                                                  .shapes = &ActivationGradient::shapes,
                                                  .attributes = {},
                                                  .inputs = ActivationGradient::kXInputs,
                                                  .outputs = ActivationGradient::kOutputs};

}  // namespace nacre::inline NACRE_ISA
