// Kernel forms of lstm and gru over whole sequences, in plain C++. The code is in run.h. Up to four samples go through
// time side by side, so that in each time step the recurrent weights are read once for all of them.
#pragma once

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/fast/pointwise/forms.h"
#include "engine/kernels/kernel.h"
#include "engine/ops/gru.h"
#include "engine/ops/lstm.h"

namespace nacre::inline NACRE_ISA {

// The scratch of a block of samples, in float32: {bias [gates h], states [block, h], cells or r y [block, h], sums
// [block, gates h]}.
struct RecurrentBlock {
  static constexpr int kSamples = 4;
  static size_t bytes(int width, int gates) {
    const size_t rows = size_t(gates) * (1 + kSamples) + 2 * kSamples;
    return (rows * size_t(width) + 4 * 16) * sizeof(float);
  }
};

template <class T>
struct FastLstm {
  Lstm op;
  static FastLstm from(const Words& words, const Operands& operands) { return {make_op<Lstm>(words, operands)}; }
  uint64_t work() const { return op.work(); }
  void run(const T* x, const T* w, Optional<const T> bias, Optional<const T> h0, Optional<const T> c0, T* y,
           const Args& args) const;
  static size_t scratch_bytes(const Words&, const Operands& operands) {
    return RecurrentBlock::bytes(operands[Lstm::kW][1], 4);
  }
};

template <class T>
struct FastGru {
  Gru op;
  static FastGru from(const Words& words, const Operands& operands) { return {make_op<Gru>(words, operands)}; }
  uint64_t work() const { return op.work(); }
  void run(const T* x, const T* w, Optional<const T> bias, Optional<const T> h0, T* y, const Args& args) const;
  static size_t scratch_bytes(const Words&, const Operands& operands) {
    return RecurrentBlock::bytes(operands[Gru::kW][1], 3);
  }
};

namespace fast::recurrent {

template <class Tier>
constexpr auto lines() {
  return floats<FastLstm>("Lstm", Op::kLstm, Lstm::shapes) + floats<FastGru>("Gru", Op::kGru, Gru::shapes);
}

}  // namespace fast::recurrent

}  // namespace nacre::inline NACRE_ISA
