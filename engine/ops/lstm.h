// Runs a long short-term memory over whole sequences.  Hochreiter & Schmidhuber 1997; with forget gates: Gers,
// Schmidhuber & Cummins 2000.
//
//   x [batch, time, 4 h]  W_x u_t and its bias for the layer's input u; one dense before this op makes it for all steps
//   w [4 h, h]   bias? [4 h]   h0?, c0? [batch, h] (both, or none: then 0)   y [batch, time, h]
//
//   a_t = x_t + w y_{t-1} + bias                                               y_{-1} = h0
//   i = sigmoid(a_i)   f = sigmoid(a_f)   g = tanh(a_g)   o = sigmoid(a_o)
//   c_t = f c_{t-1} + i g   y_t = o tanh(c_t)                                  c_{-1} = c0
//
// Rows of x, w and bias are ordered i, f, g, o, as in PyTorch (torch.nn.LSTM) and Keras (LSTMCell, which calls g c).
// ONNX orders them i, o, f, c; the ONNX importer reorders them. y_{t-1} is read as it is stored. c is kept in the
// accumulator type over all steps.
//
// The training form has two more outputs, which the backward step reads: gates [batch, time, 4 h] = i, f, g, o and
// cells [batch, time, h] = c_t. Inference has y alone.
//
// Backward goes from the last step t to the first. da is the gradient of a. After the last step dh = dc = 0:
//
//   dy'  = dy_t + dh                    dc' = dy' o (1 - tanh^2 c_t) + dc
//   da_i = dc' g i (1 - i)              da_f = dc' c_{t-1} f (1 - f)
//   da_g = dc' i (1 - g^2)              da_o = dy' tanh(c_t) o (1 - o)
//   dx_t = da   dh = w^T da   dc = dc' f          in the end dh0 = dh, dc0 = dc: outputs if h0 and c0 are there
//
//   dw  += sum_nt da_nt y_{n,t-1}^T   dbias += sum_nt da_nt
//
// da is read back from dx, rounded to its type, also for w^T da. So dh and dw are gradients of the same da.
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/independent.h"
#include "engine/ops/recurrent.h"

namespace nacre::inline NACRE_ISA {

struct Lstm {
  Sequence size;

  enum Operand { kX, kW, kBias, kH0, kC0 };

  static constexpr Lstm from(const Words&, const Operands& operands) {
    const Shape x = operands[kX];
    return {{.batch = x[0], .time = x[1], .width = operands[kW][1]}};
  }

  constexpr uint64_t work() const { return size.work(4); }
  static constexpr size_t scratch_bytes(const Words&, const Operands& operands) {  // c [batch, h]
    return samples_bytes(operands[kX][0], operands[kW][1], operands.element(kX));
  }

  template <class T>
  constexpr void forward(const T* x, const T* w, Optional<const T> bias, Optional<const T> h0, Optional<const T> c0,
                         T* y, Scratch<typename Element<T>::Accumulator> c) const {
    run(x, w, bias, h0, c0, y, c.data, [](int, int, const auto&, auto) {});
  }

  template <class T>
  constexpr void forward_training(const T* x, const T* w, Optional<const T> bias, Optional<const T> h0,
                                  Optional<const T> c0, T* y, T* gates, T* cells,
                                  Scratch<typename Element<T>::Accumulator> c) const {
    run(x, w, bias, h0, c0, y, c.data, [&](int step, int j, const auto& gate, auto cell) {
      for (int k = 0; k < 4; ++k) gates[(step * 4 + k) * size.width + j] = T(gate[k]);
      cells[step * size.width + j] = T(cell);
    });
  }

  static constexpr Code shapes(const Words&, const Operands& operands, Dims* outputs) {
    const Shape x = operands[kX];
    NACRE_TRY_CODE(check_sequence(operands, kX, kW, 4));
    const int width = operands[kW][1];
    if (operands.has(kBias) && !is(operands, kBias, 4 * width)) return Code::kShapeBias;
    if (operands.has(kH0) != operands.has(kC0)) return Code::kOperandMissing;
    for (const int state : {kH0, kC0})
      if (operands.has(state) && !is(operands, state, x[0], width)) return Code::kShapeInput;
    for (const int size : {width, 4 * width, width}) {
      outputs->push(x[0]);
      outputs->push(x[1]);
      outputs++->push(size);
    }
    return Code::kOk;
  }

  static constexpr const char* kInputs[] = {"x", "w", "bias?", "h0?", "c0?"};
  static constexpr const char* kOutputs[] = {"y", "gates?", "cells?"};
  static constexpr Gradient kGradients[] = {
      {.of = kOf<kX, kH0, kC0>,
       .by = Op::kLstmGradient,
       .reads = kReads<output_of(1), output_of(2), input_of(kW), input_of(kC0), gradient_of(0)>},
      {.of = kOf<kW>,
       .by = Op::kLstmGradientW,
       .reads = kReads<input_gradient_of(kX), output_of(0), input_of(kH0)>,
       .adds = true},
      {.of = kOf<kBias>, .by = Op::kBiasGradient, .reads = kReads<input_gradient_of(kX)>, .adds = true}};

 private:
  // Calls keep(step, j, {i, f, g, o}, c) for unit j of each step. Steps are counted over all samples.
  template <class T, class A, class F>
  constexpr void run(const T* x, const T* w, Optional<const T> bias, Optional<const T> h0, Optional<const T> c0, T* y,
                     A* scratch, F keep) const {
    const int h = size.width;
    for (int n : independent(size.batch)) {
      A* const c = scratch + n * h;
      const T* previous = h0 ? h0.data + n * h : nullptr;
      for (int j = 0; j < h; ++j) c[j] = c0 ? A(c0[n * h + j]) : A(0);
      for (int t = 0; t < size.time; ++t) {
        const int step = n * size.time + t;
        const T* const in = x + step * 4 * h;
        T* const out = y + step * h;
        for (int j = 0; j < h; ++j) {
          A gate[4];
          for (int k = 0; k < 4; ++k) {
            const A sum = A(in[k * h + j]) + recurrent<A>(w, previous, k * h + j, h);
            const A a = bias ? sum + A(bias[k * h + j]) : sum;
            gate[k] = k == 2 ? std::tanh(a) : logistic(a);
          }
          c[j] = gate[1] * c[j] + gate[0] * gate[2];
          out[j] = T(gate[3] * std::tanh(c[j]));
          keep(step, j, gate, c[j]);
        }
        previous = out;
      }
    }
  }
};

struct LstmGradient {
  Sequence size;

  enum Operand { kGates, kCells, kW, kC0, kDy };

  static constexpr LstmGradient from(const Words&, const Operands& operands) {
    const Shape cells = operands[kCells];
    return {{.batch = cells[0], .time = cells[1], .width = cells[2]}};
  }

  constexpr uint64_t work() const { return size.work(4); }
  static constexpr size_t scratch_bytes(const Words&, const Operands& operands) {  // dh and dc [batch, 2, h]
    return 2 * samples_bytes(operands[kCells][0], operands[kW][1], operands.element(kGates));
  }

  template <class T>
  constexpr void forward(const T* gates, const T* cells, const T* w, Optional<const T> c0, const T* dy, T* dx,
                         Scratch<typename Element<T>::Accumulator> states) const {
    run(gates, cells, w, c0, dy, dx, states.data, [](int, int, auto, auto) {});
  }

  template <class T>
  constexpr void forward_states(const T* gates, const T* cells, const T* w, Optional<const T> c0, const T* dy, T* dx,
                                T* dh0, T* dc0, Scratch<typename Element<T>::Accumulator> states) const {
    run(gates, cells, w, c0, dy, dx, states.data, [&](int n, int j, auto dh, auto dc) {
      dh0[n * size.width + j] = T(dh);
      dc0[n * size.width + j] = T(dc);
    });
  }

  static constexpr Code shapes(const Words&, const Operands& operands, Dims* outputs) {
    const Shape gates = operands[kGates], cells = operands[kCells];
    NACRE_TRY_CODE(check_sequence(operands, kGates, kW, 4));
    const int width = operands[kW][1];
    if (!is_sequence(cells, gates, width) || !same(cells, operands[kDy])) return Code::kShapeInput;
    if (operands.has(kC0) && !is(operands, kC0, gates[0], width)) return Code::kShapeInput;
    *outputs = dims_of(gates);
    for (const int state : {1, 2}) {
      outputs[state].push(gates[0]);
      outputs[state].push(width);
    }
    return Code::kOk;
  }

  static constexpr const char* kInputs[] = {"gates", "cells", "w", "c0?", "dy"};
  static constexpr const char* kOutputs[] = {"dx", "dh0?", "dc0?"};

 private:
  // Calls keep(n, j, dh, dc) with the gradients of h0 and c0 of unit j.
  template <class T, class A, class F>
  constexpr void run(const T* gates, const T* cells, const T* w, Optional<const T> c0, const T* dy, T* dx, A* states,
                     F keep) const {
    const int h = size.width;
    for (int n : independent(size.batch)) {
      A *const dh = states + n * 2 * h, *const dc = dh + h;
      for (int j = 0; j < 2 * h; ++j) dh[j] = 0;
      for (int t = size.time - 1; t >= 0; --t) {
        const int step = n * size.time + t;
        const T* gate = gates + step * 4 * h;
        const T* cell = cells + step * h;
        const T* before = t > 0 ? cell - h : c0 ? c0.data + n * h : nullptr;
        T* da = dx + step * 4 * h;
        for (int j = 0; j < h; ++j) {
          const A i = A(gate[j]), f = A(gate[h + j]), g = A(gate[2 * h + j]), o = A(gate[3 * h + j]);
          const A squashed = std::tanh(A(cell[j])), d = A(dy[step * h + j]) + dh[j];
          const A inner = d * o * (1 - squashed * squashed) + dc[j];
          da[j] = T(inner * g * i * (1 - i));
          da[h + j] = T(before == nullptr ? A(0) : inner * A(before[j]) * f * (1 - f));
          da[2 * h + j] = T(inner * i * (1 - g * g));
          da[3 * h + j] = T(d * squashed * o * (1 - o));
          dc[j] = inner * f;
          dh[j] = 0;
        }
        add_transposed(w, da, 4 * h, h, dh);
      }
      for (int j = 0; j < h; ++j) keep(n, j, dh[j], dc[j]);
    }
  }
};

struct LstmGradientW {
  Sequence size;

  static constexpr LstmGradientW from(const Words&, const Operands& operands) {
    const Shape y = operands[1];
    return {{.batch = y[0], .time = y[1], .width = y[2]}};
  }

  constexpr uint64_t work() const { return size.work(4); }

  template <class T>
  constexpr void forward(const T* dx, const T* y, Optional<const T> h0,
                         Update<typename Element<T>::Accumulator> dw) const {
    using A = typename Element<T>::Accumulator;
    const int h = size.width;
    for (int k : independent(4 * h))
      size.each_step(y, h0.data, [&](int step, const T* previous) {
        if (previous == nullptr) return;
        const A d = A(dx[step * 4 * h + k]);
        for (int j = 0; j < h; ++j) dw.data[k * h + j] += d * A(previous[j]);
      });
  }

  static constexpr Code shapes(const Words&, const Operands& operands, Dims*) {
    const Shape dx = operands[0], y = operands[1];
    NACRE_TRY_CODE(check_sequence(operands, 0, 3, 4));
    const int width = operands[3][1];
    if (!is_sequence(y, dx, width)) return Code::kShapeInput;
    return !operands.has(2) || is(operands, 2, dx[0], width) ? Code::kOk : Code::kShapeInput;
  }

  static constexpr const char* kInputs[] = {"dx", "y", "h0?", "&dw"};
};

inline constexpr OpRule kLstmRule = {.op = Op::kLstm,
                                     .name = "lstm",
                                     .numerics = Numerics::kMatmul,
                                     .shapes = &Lstm::shapes,
                                     .attributes = {},
                                     .inputs = Lstm::kInputs,
                                     .outputs = Lstm::kOutputs,
                                     .gradients = Lstm::kGradients,
                                     .parameters = 0b110};
inline constexpr OpRule kLstmGradientRule = {.op = Op::kLstmGradient,
                                             .name = "lstm_gradient",
                                             .numerics = Numerics::kMatmul,
                                             .shapes = &LstmGradient::shapes,
                                             .attributes = {},
                                             .inputs = LstmGradient::kInputs,
                                             .outputs = LstmGradient::kOutputs};
inline constexpr OpRule kLstmGradientWRule = {.op = Op::kLstmGradientW,
                                              .name = "lstm_gradient_w",
                                              .numerics = Numerics::kMatmul,
                                              .shapes = &LstmGradientW::shapes,
                                              .attributes = {},
                                              .inputs = LstmGradientW::kInputs,
                                              .outputs = {}};

}  // namespace nacre::inline NACRE_ISA
