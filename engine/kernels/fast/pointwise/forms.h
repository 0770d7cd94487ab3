// Kernel forms of functions of one and of two elements, and of conversions between number formats. This file says in
// plain C++ which steps they take. The code is in run.h, over vectors. Results in codes equal those of the reference
// to the bit.
#pragma once

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/kernel.h"
#include "engine/ops/activation.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/gelu.h"
#include "engine/ops/quantize.h"
#include "engine/ops/unary.h"

namespace nacre::inline NACRE_ISA {

// Returns the op of a step. It is not inlined into every kernel, to save code size.
template <class O>
[[gnu::cold, gnu::noinline]] O make_op(const Words& words, const Operands& operands) {
  return O::from(words, operands);
}
[[gnu::cold, gnu::noinline]] inline int count_elements(const Operands& operands) { return operands[0].elements(); }

// ---- Functions of two elements, with any broadcast (fast/runs.h).

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

// ---- Functions of one real number.

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
  uint32_t word;  // alpha of leaky_relu; for gelu, whether it has its form with tanh

  static FastReal from(const Words& words, const Operands& operands) { return {count_elements(operands), words[0]}; }
  void run(const T* x, T* y, const Args& args) const;
};

template <class T>
struct FastUnary {
  Unary op;
  static FastUnary from(const Words& words, const Operands& operands) { return {make_op<Unary>(words, operands)}; }
  void run(const T* x, T* y, const Args& args) const;
};

// ---- Functions of one code.

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

// ---- Conversions between number formats.

// x as [outer][channels][inner], with a scale and a zero point for each channel. Without channels, all of x is
// `inner`.
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
// Quantizes numbers to float8, with scales of the numbers' type T.
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
// Casts with int64 or bool, and between integers, run the reference's loop, compiled for the tier (instruction set).
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

namespace fast::pointwise {

template <int kSign>
struct SumOf {
  template <class T>
  using Form = FastSum<T, kSign>;
  template <Rounding kRounding>
  using Codes = FastCodeSum<kRounding, kSign>;
};
template <RealOp kFunction>
struct RealOf {
  template <class T>
  using Form = FastReal<T, kFunction>;
};
template <class Tier>
constexpr auto functions() {
  return floats<SumOf<1>::Form>("Add", Op::kAdd, Sum::shapes, 3) +
         codes<SumOf<1>::Codes>("Add", Op::kAdd, Sum::shapes, 3) +
         floats<SumOf<-1>::Form>("Sub", Op::kSub, Sum::shapes, 3) +
         codes<SumOf<-1>::Codes>("Sub", Op::kSub, Sum::shapes, 3) +
         floats<FastProduct>("Mul", Op::kMul, Product::shapes, 3) +
         codes<FastCodeProduct>("Mul", Op::kMul, Product::shapes, 3) +
         floats<FastClamp>("Clamp", Op::kClamp, Clip::shapes, 1) +
         codes<FastCodeClamp>("Clamp", Op::kClamp, Clip::shapes, 1) +
         floats<RealOf<RealOp::kLeakyRelu>::Form>("LeakyRelu", Op::kLeakyRelu, Activation::shapes, 1) +
         floats<RealOf<RealOp::kSigmoid>::Form>("Sigmoid", Op::kSigmoid, Activation::shapes, 1) +
         floats<RealOf<RealOp::kTanh>::Form>("Tanh", Op::kTanh, Activation::shapes, 1) +
         floats<RealOf<RealOp::kHardSwish>::Form>("HardSwish", Op::kHardSwish, Activation::shapes, 1) +
         floats<RealOf<RealOp::kGelu>::Form>("Gelu", Op::kGelu, Gelu::shapes, 1) +
         floats<RealOf<RealOp::kSilu>::Form>("Silu", Op::kSilu, Silu::shapes, 1) +
         floats<FastUnary>("Unary", Op::kUnary, Unary::shapes, 1) +
         line<FastLookup>("LookupI8", Op::kLookup, Lookup::shapes, 1);
}

template <class Tier>
constexpr auto conversions() {
  return line<FastQuantize<Rounding::kHalfAway, int8_t>>("QuantizeI8HalfAway", Op::kQuantize, Quantize::shapes, 0,
                                                         Rounding::kHalfAway) +
         line<FastQuantize<Rounding::kHalfEven, int8_t>>("QuantizeI8HalfEven", Op::kQuantize, Quantize::shapes, 0,
                                                         Rounding::kHalfEven) +
         line<FastQuantize<Rounding::kHalfAway, uint8_t>>("QuantizeU8HalfAway", Op::kQuantize, Quantize::shapes, 0,
                                                          Rounding::kHalfAway) +
         line<FastQuantize<Rounding::kHalfEven, uint8_t>>("QuantizeU8HalfEven", Op::kQuantize, Quantize::shapes, 0,
                                                          Rounding::kHalfEven) +
         line<FastDequantize<int8_t>>("DequantizeI8", Op::kDequantize, Quantize::shapes) +
         line<FastDequantize<uint8_t>>("DequantizeU8", Op::kDequantize, Quantize::shapes) +
         line<FastDequantize<int32_t>>("DequantizeI32", Op::kDequantize, Quantize::shapes) +
         line<FastQuantizeFloat8<Float8E4M3, float>>("QuantizeE4M3", Op::kQuantize, Quantize::shapes, 0,
                                                     Rounding::kHalfEven) +
         line<FastQuantizeFloat8<Float8E5M2, float>>("QuantizeE5M2", Op::kQuantize, Quantize::shapes, 0,
                                                     Rounding::kHalfEven) +
         line<FastQuantizeFloat8<Float8E4M3, Float16>>("QuantizeE4M3F16", Op::kQuantize, Quantize::shapes, 0,
                                                       Rounding::kHalfEven) +
         line<FastQuantizeFloat8<Float8E4M3, Bfloat16>>("QuantizeE4M3Bf16", Op::kQuantize, Quantize::shapes, 0,
                                                        Rounding::kHalfEven) +
         line<FastDequantizeFloat8<Float8E4M3>>("DequantizeE4M3", Op::kDequantize, Quantize::shapes) +
         line<FastDequantizeFloat8<Float8E5M2>>("DequantizeE5M2", Op::kDequantize, Quantize::shapes) +
         line<FastDynamicFloat8>("DynamicQuantizeE4M3", Op::kDynamicQuantize, DynamicQuantize::shapes) +
         line<FastRequantize<Rounding::kDouble, int8_t, int8_t>>("RequantizeI8Double", Op::kRequantize,
                                                                 Requantize::shapes, 1, Rounding::kDouble) +
         line<FastRequantize<Rounding::kSingle, int8_t, int8_t>>("RequantizeI8Single", Op::kRequantize,
                                                                 Requantize::shapes, 1, Rounding::kSingle) +
         line<FastRequantize<Rounding::kDouble, uint8_t, int8_t>>("RequantizeU8I8Double", Op::kRequantize,
                                                                  Requantize::shapes, 1, Rounding::kDouble) +
         line<FastRequantize<Rounding::kSingle, uint8_t, int8_t>>("RequantizeU8I8Single", Op::kRequantize,
                                                                  Requantize::shapes, 1, Rounding::kSingle) +
         line<FastRequantize<Rounding::kDouble, int8_t, uint8_t>>("RequantizeI8U8Double", Op::kRequantize,
                                                                  Requantize::shapes, 1, Rounding::kDouble) +
         line<FastRequantize<Rounding::kSingle, int8_t, uint8_t>>("RequantizeI8U8Single", Op::kRequantize,
                                                                  Requantize::shapes, 1, Rounding::kSingle) +
         line<FastDynamicQuantize>("DynamicQuantizeI8", Op::kDynamicQuantize, DynamicQuantize::shapes) +
         line<FastAbsMaxQuantize<float>>("DynamicQuantizeAbsMaxF32", Op::kDynamicQuantize, DynamicQuantize::shapes) +
         line<FastAbsMaxQuantize<Bfloat16>>("DynamicQuantizeAbsMaxBf16", Op::kDynamicQuantize,
                                            DynamicQuantize::shapes) +
         line<FastCast<float, Float16>>("CastF32F16", Op::kCast, Cast::shapes) +
         line<FastCast<float, Bfloat16>>("CastF32Bf16", Op::kCast, Cast::shapes) +
         line<FastCast<Float16, float>>("CastF16F32", Op::kCast, Cast::shapes) +
         line<FastCast<Float16, Bfloat16>>("CastF16Bf16", Op::kCast, Cast::shapes) +
         line<FastCast<Bfloat16, float>>("CastBf16F32", Op::kCast, Cast::shapes) +
         line<FastCast<Bfloat16, Float16>>("CastBf16F16", Op::kCast, Cast::shapes) +
         line<FastCast<float, int8_t>>("CastF32I8", Op::kCast, Cast::shapes) +
         line<FastCast<float, uint8_t>>("CastF32U8", Op::kCast, Cast::shapes) +
         line<FastCast<float, int32_t>>("CastF32I32", Op::kCast, Cast::shapes) +
         line<FastCast<int8_t, float>>("CastI8F32", Op::kCast, Cast::shapes) +
         line<FastCast<uint8_t, float>>("CastU8F32", Op::kCast, Cast::shapes) +
         line<FastCast<int32_t, float>>("CastI32F32", Op::kCast, Cast::shapes) +
         line<TierCast<float, int64_t>>("CastF32I64", Op::kCast, Cast::shapes) +
         line<TierCast<float, Bool>>("CastF32Bool", Op::kCast, Cast::shapes) +
         line<TierCast<int8_t, uint8_t>>("CastI8U8", Op::kCast, Cast::shapes) +
         line<TierCast<int8_t, int32_t>>("CastI8I32", Op::kCast, Cast::shapes) +
         line<TierCast<int8_t, int64_t>>("CastI8I64", Op::kCast, Cast::shapes) +
         line<TierCast<int8_t, Bool>>("CastI8Bool", Op::kCast, Cast::shapes) +
         line<TierCast<uint8_t, int8_t>>("CastU8I8", Op::kCast, Cast::shapes) +
         line<TierCast<uint8_t, int32_t>>("CastU8I32", Op::kCast, Cast::shapes) +
         line<TierCast<uint8_t, int64_t>>("CastU8I64", Op::kCast, Cast::shapes) +
         line<TierCast<uint8_t, Bool>>("CastU8Bool", Op::kCast, Cast::shapes) +
         line<TierCast<int32_t, int8_t>>("CastI32I8", Op::kCast, Cast::shapes) +
         line<TierCast<int32_t, uint8_t>>("CastI32U8", Op::kCast, Cast::shapes) +
         line<TierCast<int32_t, int64_t>>("CastI32I64", Op::kCast, Cast::shapes) +
         line<TierCast<int32_t, Bool>>("CastI32Bool", Op::kCast, Cast::shapes) +
         line<TierCast<int64_t, float>>("CastI64F32", Op::kCast, Cast::shapes) +
         line<TierCast<int64_t, int8_t>>("CastI64I8", Op::kCast, Cast::shapes) +
         line<TierCast<int64_t, uint8_t>>("CastI64U8", Op::kCast, Cast::shapes) +
         line<TierCast<int64_t, int32_t>>("CastI64I32", Op::kCast, Cast::shapes) +
         line<TierCast<int64_t, Bool>>("CastI64Bool", Op::kCast, Cast::shapes) +
         line<TierCast<Bool, float>>("CastBoolF32", Op::kCast, Cast::shapes) +
         line<TierCast<Bool, int8_t>>("CastBoolI8", Op::kCast, Cast::shapes) +
         line<TierCast<Bool, uint8_t>>("CastBoolU8", Op::kCast, Cast::shapes) +
         line<TierCast<Bool, int32_t>>("CastBoolI32", Op::kCast, Cast::shapes) +
         line<TierCast<Bool, int64_t>>("CastBoolI64", Op::kCast, Cast::shapes);
}

template <class Tier>
constexpr auto lines() {
  return functions<Tier>() + conversions<Tier>();
}

}  // namespace fast::pointwise

}  // namespace nacre::inline NACRE_ISA
