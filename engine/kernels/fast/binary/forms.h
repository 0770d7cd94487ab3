// Kernel forms of functions of two elements, of comparisons and of select, for float32, float16 and bfloat16, in plain
// C++. They take any broadcast. The code is in run.h, over vectors.
#pragma once

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/fast/pointwise/forms.h"
#include "engine/ops/binary.h"
#include "engine/ops/select.h"

namespace nacre::inline NACRE_ISA {

template <class T>
struct FastBinary {
  Binary op;
  static FastBinary from(const Words& words, const Operands& operands) { return {make_op<Binary>(words, operands)}; }
  void run(const T* a, const T* b, T* y, const Args& args) const;
};

template <class T>
struct FastCompare {
  Compare op;
  static FastCompare from(const Words& words, const Operands& operands) { return {make_op<Compare>(words, operands)}; }
  void run(const T* a, const T* b, Bool* y, const Args& args) const;
};

template <class T>
struct FastSelect {
  Select op;
  static FastSelect from(const Words& words, const Operands& operands) { return {make_op<Select>(words, operands)}; }
  void run(const T* a, const T* b, const Bool* c, T* y) const;
};

namespace fast::binary {

template <class Tier>
constexpr auto lines() {
  return floats<FastBinary>("Binary", Op::kBinary, Binary::shapes, 3) +
         floats<FastCompare>("Compare", Op::kCompare, Compare::shapes) +
         floats<FastSelect>("Select", Op::kSelect, Select::shapes, 3);
}

}  // namespace fast::binary

}  // namespace nacre::inline NACRE_ISA
