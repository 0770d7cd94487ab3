// Defines families of kernel entries. The entries of a family differ in element types or in the rounding. All
// families are written with
//
//   NACRE_ENTRY(name, op, rounding, in_place, struct, shape rule, method)
//
// Bit i of in_place says that y may be written over input i. The method comes last because it may contain commas. A
// file that includes an .inc defines NACRE_ENTRY before it. reference.h and training.h declare the entries,
// define_entries.h defines them, reference/list.cc and training/list.cc list them.
//
//   NACRE_FORM(Dense, W8F32, Dense, method)         kDenseW8F32 of Op::kDense: without rounding, the rule Dense::shapes
//   NACRE_FLOATS(Sigmoid, 1, Activation, sigmoid)   kSigmoidF32, kSigmoidF16, kSigmoidBf16, kSigmoidF64 of Op::kSigmoid
//                                                   by Activation::sigmoid<T>, with the rule Activation::shapes
//   NACRE_FLOATS_AS(name, op, in_place, struct, shape rule, method)      these four under a name or a rule of their own
//   NACRE_TYPED(name, op, in_place, struct, shape rule, method, I8)      one entry, k<name>I8, by method<I8>
//   NACRE_INT8(Add, 3, Sum, add_codes)              kAddI8Double, kAddI8Single by Sum::add_codes<Rounding>
//   NACRE_INT16(Add, 3, Sum, add_codes)             kAddI16Double by Sum::add_codes<Rounding, I16>
//   NACRE_WHOLE(Add, 3, Sum, add_whole)            kAddI32, kAddI64 by Sum::add_whole<T>
//   NACRE_INDEXED(Embedding)                        Embedding::forward<T, I> of every float T, with I = int32 and int64
//
// F32, F16, Bf16, F64, I8, U8, I16, I32, U32 and I64 are both the end of an entry's name and a type
// (define_entries.h).
#pragma once

#define NACRE_FORM(op, form, type, ...) NACRE_ENTRY(k##op##form, k##op, kNone, 0, type, type::shapes, __VA_ARGS__)

#define NACRE_TYPED(name, op, in_place, type, rule, method, T) \
  NACRE_ENTRY(k##name##T, k##op, kNone, in_place, type, rule, method<T>)

#define NACRE_FLOATS_AS(name, op, in_place, type, rule, method) \
  NACRE_TYPED(name, op, in_place, type, rule, method, F32)      \
  NACRE_TYPED(name, op, in_place, type, rule, method, F16)      \
  NACRE_TYPED(name, op, in_place, type, rule, method, Bf16)     \
  NACRE_TYPED(name, op, in_place, type, rule, method, F64)

#define NACRE_FLOATS(op, in_place, type, method) NACRE_FLOATS_AS(op, op, in_place, type, type::shapes, method)

#define NACRE_ROUNDED(op, in_place, type, method, rounding) \
  NACRE_ENTRY(k##op##I8##rounding, k##op, k##rounding, in_place, type, type::shapes, method<Rounding::k##rounding>)

#define NACRE_INT8(op, in_place, type, method)      \
  NACRE_ROUNDED(op, in_place, type, method, Double) \
  NACRE_ROUNDED(op, in_place, type, method, Single)

#define NACRE_WHOLE(op, in_place, type, method)                  \
  NACRE_TYPED(op, op, in_place, type, type::shapes, method, I32) \
  NACRE_TYPED(op, op, in_place, type, type::shapes, method, I64)

#define NACRE_INT16(op, in_place, type, method) \
  NACRE_ENTRY(k##op##I16Double, k##op, kDouble, in_place, type, type::shapes, method<Rounding::kDouble, I16>)

#define NACRE_INDEXED_BY(op, T)          \
  NACRE_FORM(op, T, op, forward<T, I32>) \
  NACRE_FORM(op, T##I64, op, forward<T, I64>)

#define NACRE_INDEXED(op) \
  NACRE_INDEXED_BY(op, F32) NACRE_INDEXED_BY(op, F16) NACRE_INDEXED_BY(op, Bf16) NACRE_INDEXED_BY(op, F64)
