// Kernel forms of lstm and gru in training, forward and backward, over vectors. All samples go through a step of time
// together, as the rows of its products with the recurrent weights. Each run copies the recurrent weights to scratch
// once, in float32. The forward pass copies them transposed, so that their columns are vectors. The code is in run.h;
// the formulas are those of engine/ops/lstm.h and gru.h.
#pragma once

#include "engine/kernels/fast/gradient/forms.h"
#include "engine/kernels/fast/lines.h"
#include "engine/kernels/fast/pointwise/forms.h"
#include "engine/ops/gru.h"
#include "engine/ops/lstm.h"

namespace nacre::inline NACRE_ISA {

// Adds the scratch of a product of rows [batch, terms] with a matrix [terms, columns]: the matrix itself, and the row
// of start values (bias or 0) that each sum begins with. Both are padded to whole vectors.
template <int kLanes>
ScratchBytes& add_matrix(ScratchBytes& scratch, int terms, int columns) {
  const auto step = size_t(rounded_up(columns, kLanes));
  return scratch.add(size_t(terms) * step, sizeof(float)).add(step, sizeof(float));
}

template <int kLanes>
size_t recurrent_bytes(const Sequence& size, std::initializer_list<int> outputs, int states) {
  ScratchBytes scratch;
  for (const int columns : outputs) {
    add_matrix<kLanes>(scratch, size.width, columns);
    scratch.add(size_t(size.batch) * size_t(columns), sizeof(float));
  }
  for (int i = 0; i < states; ++i) scratch.add(size_t(size.batch) * size_t(size.width), sizeof(float));
  return scratch.bytes;
}

// ---- lstm

template <int kLanes, class T>
struct FastLstmTraining : Lstm {
  static FastLstmTraining from(const Words& words, const Operands& operands) {
    return {make_op<Lstm>(words, operands)};
  }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    const Sequence size = from(words, operands).size;
    return recurrent_bytes<kLanes>(size, {4 * size.width}, 2);
  }
  void run(const T* x, const T* w, Optional<const T> bias, Optional<const T> h0, Optional<const T> c0, T* y, T* gates,
           T* cells, const Args& args) const;
};

template <int kLanes, class T>
struct FastLstmGradientOf : LstmGradient {
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    const Sequence size = LstmGradient::from(words, operands).size;
    ScratchBytes scratch;
    add_matrix<kLanes>(scratch, 4 * size.width, size.width);
    const auto state = size_t(size.batch) * size_t(size.width);
    return scratch.add(state, sizeof(float)).add(state, sizeof(float)).add(4 * state, sizeof(float)).bytes;
  }

 protected:
  struct States {  // each may be null
    T *dh0, *dc0;
  };
  void sequence(const T* gates, const T* cells, const T* w, const T* c0, const T* dy, T* dx, States states,
                std::byte* scratch) const;
};
template <int kLanes, class T>
struct FastLstmGradient : FastLstmGradientOf<kLanes, T> {
  static FastLstmGradient from(const Words& words, const Operands& operands) {
    return {{make_op<LstmGradient>(words, operands)}};
  }
  void run(const T* gates, const T* cells, const T* w, Optional<const T> c0, const T* dy, T* dx,
           const Args& args) const {
    this->sequence(gates, cells, w, c0.data, dy, dx, {nullptr, nullptr}, args.scratch.data());
  }
};
template <int kLanes, class T>
struct FastLstmGradientStates : FastLstmGradientOf<kLanes, T> {
  static FastLstmGradientStates from(const Words& words, const Operands& operands) {
    return {{make_op<LstmGradient>(words, operands)}};
  }
  void run(const T* gates, const T* cells, const T* w, Optional<const T> c0, const T* dy, T* dx, T* dh0, T* dc0,
           const Args& args) const {
    this->sequence(gates, cells, w, c0.data, dy, dx, {dh0, dc0}, args.scratch.data());
  }
};

// Returns the steps of a block. dw += sum over steps of da y_{t-1}^T goes a block of steps at a time.
inline int block_of_steps(const Sequence& size) {
  const int steps = size.batch * size.time;
  return steps < kGradientTerms ? steps : kGradientTerms;
}
template <int kLanes>
size_t weight_gradient_bytes(const Sequence& size, int gates, int rows) {
  const auto block = size_t(block_of_steps(size)), width = size_t(size.width);
  ScratchBytes scratch;
  scratch.add(block * 2 * kLanes, sizeof(float)).add(block * size_t(gates) * width, sizeof(float));
  for (int i = 0; i < rows; ++i) scratch.add(block * width, sizeof(float));
  return scratch.bytes;
}

template <int kLanes, class T>
struct FastLstmGradientW : LstmGradientW {
  static FastLstmGradientW from(const Words& words, const Operands& operands) {
    return {make_op<LstmGradientW>(words, operands)};
  }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return weight_gradient_bytes<kLanes>(from(words, operands).size, 4, 1);
  }
  void run(const T* dx, const T* y, Optional<const T> h0, Update<float> dw, const Args& args) const;
};

// ---- gru

template <int kLanes, class T>
struct FastGruTraining : Gru {
  static FastGruTraining from(const Words& words, const Operands& operands) { return {make_op<Gru>(words, operands)}; }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    const Sequence size = from(words, operands).size;
    return recurrent_bytes<kLanes>(size, {2 * size.width, size.width}, 4);
  }
  void run(const T* x, const T* w, Optional<const T> bias, Optional<const T> h0, T* y, T* gates,
           const Args& args) const;
};

template <int kLanes, class T>
struct FastGruGradientOf : GruGradient {
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    const Sequence size = GruGradient::from(words, operands).size;
    ScratchBytes scratch;
    add_matrix<kLanes>(scratch, 2 * size.width, size.width);
    add_matrix<kLanes>(scratch, size.width, size.width);
    for (int i = 0; i < 6; ++i) scratch.add(size_t(size.batch) * size_t(size.width), sizeof(float));
    return scratch.bytes;
  }

 protected:
  void sequence(const T* gates, const T* y, const T* w, const T* h0, const T* dy, T* dx, T* dh0,
                std::byte* scratch) const;
};
template <int kLanes, class T>
struct FastGruGradient : FastGruGradientOf<kLanes, T> {
  static FastGruGradient from(const Words& words, const Operands& operands) {
    return {{make_op<GruGradient>(words, operands)}};
  }
  void run(const T* gates, const T* y, const T* w, Optional<const T> h0, const T* dy, T* dx, const Args& args) const {
    this->sequence(gates, y, w, h0.data, dy, dx, nullptr, args.scratch.data());
  }
};
template <int kLanes, class T>
struct FastGruGradientStates : FastGruGradientOf<kLanes, T> {
  static FastGruGradientStates from(const Words& words, const Operands& operands) {
    return {{make_op<GruGradient>(words, operands)}};
  }
  void run(const T* gates, const T* y, const T* w, Optional<const T> h0, const T* dy, T* dx, T* dh0,
           const Args& args) const {
    this->sequence(gates, y, w, h0.data, dy, dx, dh0, args.scratch.data());
  }
};

template <int kLanes, class T>
struct FastGruGradientW : GruGradientW {
  static FastGruGradientW from(const Words& words, const Operands& operands) {
    return {make_op<GruGradientW>(words, operands)};
  }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return weight_gradient_bytes<kLanes>(from(words, operands).size, 3, 2);
  }
  void run(const T* dx, const T* gates, const T* y, Optional<const T> h0, Update<float> dw, const Args& args) const;
};

template <class T>
struct FastGruGradientBias : GruGradientBias {
  static FastGruGradientBias from(const Words& words, const Operands& operands) {
    return {make_op<GruGradientBias>(words, operands)};
  }
  void run(const T* dx, const T* gates, Update<float> dbias) const;
};

namespace fast::sequence {

template <class Tier>
constexpr auto lines() {
  return floats<Tier::kLanes, FastLstmTraining>("LstmTraining", Op::kLstm, Lstm::shapes) +
         floats<Tier::kLanes, FastLstmGradient>("LstmGradient", Op::kLstmGradient, LstmGradient::shapes) +
         floats<Tier::kLanes, FastLstmGradientStates>("LstmGradientStates", Op::kLstmGradient, LstmGradient::shapes) +
         floats<Tier::kLanes, FastLstmGradientW>("LstmGradientW", Op::kLstmGradientW, LstmGradientW::shapes) +
         floats<Tier::kLanes, FastGruTraining>("GruTraining", Op::kGru, Gru::shapes) +
         floats<Tier::kLanes, FastGruGradient>("GruGradient", Op::kGruGradient, GruGradient::shapes) +
         floats<Tier::kLanes, FastGruGradientStates>("GruGradientStates", Op::kGruGradient, GruGradient::shapes) +
         floats<Tier::kLanes, FastGruGradientW>("GruGradientW", Op::kGruGradientW, GruGradientW::shapes) +
         floats<FastGruGradientBias>("GruGradientBias", Op::kGruGradientBias, GruGradientBias::shapes);
}

}  // namespace fast::sequence

}  // namespace nacre::inline NACRE_ISA
