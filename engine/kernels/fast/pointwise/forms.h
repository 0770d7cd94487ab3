// Fast kernels of functions of one and of two elements, and between number formats: what they take, in plain C++. What
// runs is in run.h, over vectors. Results of codes are those of the reference to the bit.
#pragma once

#include "engine/kernels/kernel.h"
#include "engine/ops/activation.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/gelu.h"
#include "engine/ops/quantize.h"
#include "engine/ops/unary.h"

namespace nacre::inline NACRE_ISA {

// Once for each step, for the sake of size: not inlined into every kernel.
template <class O>
[[gnu::cold, gnu::noinline]] O make_op(const Words& words, const Operands& operands) {
  return O::from(words, operands);
}
[[gnu::cold, gnu::noinline]] inline int count_elements(const Operands& operands) { return operands[0].elements(); }

// ---- Two elements, of any broadcast (runs.h).

// y = clamp(a + sign b)
template <class T, int kSign>
struct FastSum {
  Sum op;
  static FastSum from(const Words& words, const Operands& operands) { return {make_op<Sum>(words, operands)}; }
  void run(const T* a, const T* b, T* y, const Args& args) const;
};
template <Rounding kRounding, int kSign>
struct FastCodeSum {
  Sum op;
  static FastCodeSum from(const Words& words, const Operands& operands) { return {make_op<Sum>(words, operands)}; }
  void run(const int8_t* a, const int8_t* b, const int32_t* requant, int8_t* y, const Args& args) const;
};

template <class T>
struct FastProduct {
  Product op;
  static FastProduct from(const Words& words, const Operands& operands) { return {make_op<Product>(words, operands)}; }
  void run(const T* a, const T* b, T* y, const Args& args) const;
};
template <Rounding kRounding>
struct FastCodeProduct {
  Product op;
  static FastCodeProduct from(const Words& words, const Operands& operands) {
    return {make_op<Product>(words, operands)};
  }
  void run(const int8_t* a, const int8_t* b, const int32_t* requant, int8_t* y, const Args& args) const;
};

// ---- One real number.

template <class T>
struct FastClamp {
  Clip op;
  static FastClamp from(const Words& words, const Operands& operands) { return {make_op<Clip>(words, operands)}; }
  void run(const T* x, T* y, const Args& args) const;
};

enum class RealOp { kLeakyRelu, kSigmoid, kTanh, kHardSwish, kGelu, kSilu };

template <class T, RealOp kOp>
struct FastReal {
  int elements;
  uint32_t word;  // alpha of leaky_relu; whether gelu has its form with tanh

  static FastReal from(const Words& words, const Operands& operands) { return {count_elements(operands), words[0]}; }
  void run(const T* x, T* y, const Args& args) const;
};

template <class T>
struct FastUnary {
  Unary op;
  static FastUnary from(const Words& words, const Operands& operands) { return {make_op<Unary>(words, operands)}; }
  void run(const T* x, T* y, const Args& args) const;
};

// ---- One code.

template <Rounding kRounding>
struct FastCodeClamp {
  Clip op;
  static FastCodeClamp from(const Words& words, const Operands& operands) { return {make_op<Clip>(words, operands)}; }
  void run(const int8_t* x, Optional<const int32_t> requant, int8_t* y, const Args& args) const;
};
template <Rounding kRounding, class X, class Y>
struct FastRequantize {
  Requantize op;
  static FastRequantize from(const Words& words, const Operands& operands) {
    return {make_op<Requantize>(words, operands)};
  }
  void run(const X* x, const int32_t* requant, Y* y, const Args& args) const;
};
struct FastLookup {
  int elements;
  static FastLookup from(const Words&, const Operands& operands) { return {count_elements(operands)}; }
  void run(const int8_t* x, const int8_t* table, int8_t* y, const Args& args) const;
};

// ---- Between number formats.

// x as [outer][channels][inner], a scale and a zero point for each channel; without, all is `inner`.
struct ScaledNumbers {
  int outer, channels, inner;
  bool reciprocal;

  static ScaledNumbers from(const Words& words, const Operands& operands) {
    const Quantize op = Quantize::from(words, operands);
    return {op.outer, op.channels, op.inner, op.form == uint32_t(ScaleForm::kReciprocal)};
  }
};
template <Rounding kRounding, class Q>
struct FastQuantize {
  ScaledNumbers shape;
  static FastQuantize from(const Words& words, const Operands& operands) {
    return {make_op<ScaledNumbers>(words, operands)};
  }
  void run(const float* x, const float* scale, Optional<const int32_t> zero, Q* q, const Args& args) const;
};
template <class Q>
struct FastDequantize {
  ScaledNumbers shape;
  static FastDequantize from(const Words& words, const Operands& operands) {
    return {make_op<ScaledNumbers>(words, operands)};
  }
  void run(const Q* q, const float* scale, Optional<const int32_t> zero, float* x, const Args& args) const;
};
// float8, of numbers and scales of a type T.
template <class Q, class T>
struct FastQuantizeFloat8 {
  ScaledNumbers shape;
  static FastQuantizeFloat8 from(const Words& words, const Operands& operands) {
    return {make_op<ScaledNumbers>(words, operands)};
  }
  void run(const T* x, const T* scale, Q* q, const Args& args) const;
};
template <class Q>
struct FastDequantizeFloat8 {
  ScaledNumbers shape;
  static FastDequantizeFloat8 from(const Words& words, const Operands& operands) {
    return {make_op<ScaledNumbers>(words, operands)};
  }
  void run(const Q* q, const float* scale, float* x, const Args& args) const;
};
struct FastDynamicFloat8 {
  DynamicQuantize op;
  static FastDynamicFloat8 from(const Words& words, const Operands& operands) {
    return {make_op<DynamicQuantize>(words, operands)};
  }
  uint64_t work() const { return op.work(); }
  void run(const float* x, Float8E4M3* q, float* scale, const Args& args) const;
};
struct FastDynamicQuantize {
  DynamicQuantize op;
  static FastDynamicQuantize from(const Words& words, const Operands& operands) {
    return {make_op<DynamicQuantize>(words, operands)};
  }
  uint64_t work() const { return op.work(); }
  void run(const float* x, int8_t* q, float* scale, int32_t* zero, const Args& args) const;
};
template <class T>
struct FastAbsMaxQuantize {
  DynamicQuantize op;
  static FastAbsMaxQuantize from(const Words& words, const Operands& operands) {
    return {make_op<DynamicQuantize>(words, operands)};
  }
  uint64_t work() const { return op.work(); }
  void run(const T* x, int8_t* q, T* scale, const Args& args) const;
};
// Of integers and bool the reference's loop, compiled for the tier.
template <class From, class To>
struct TierCast {
  Cast op;
  static TierCast from(const Words& words, const Operands& operands) { return {make_op<Cast>(words, operands)}; }
  void run(const From* x, To* y) const { op.forward(x, y); }
};
template <class From, class To>
struct FastCast {
  int elements;
  static FastCast from(const Words&, const Operands& operands) { return {count_elements(operands)}; }
  void run(const From* x, To* y, const Args& args) const;
};

}  // namespace nacre::inline NACRE_ISA
