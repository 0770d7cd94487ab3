// Kernel forms of lstm, gru, stream_lstm and svdf, in plain C++. The code is in run.h, codes.h and filters.h.
//
//   lstm, gru, stream_lstm   Up to four samples go through time side by side, so that in each time step the recurrent
//                            weights are read once for all of them.
//   stream_lstm in int8      Products of codes go along rows of w. The gates' functions take a vector of units.
//   svdf                     The lines of some units become one step older in one move.
#pragma once

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/fast/pieces.h"
#include "engine/kernels/fast/pointwise/forms.h"
#include "engine/kernels/kernel.h"
#include "engine/ops/gru.h"
#include "engine/ops/lstm.h"
#include "engine/ops/stream_lstm.h"
#include "engine/ops/svdf.h"

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

template <class T>
struct FastStreamLstm {
  StreamLstm op;
  static FastStreamLstm from(const Words& words, const Operands& operands) {
    return {make_op<StreamLstm>(words, operands)};
  }
  uint64_t work() const { return op.work(); }
  void run(const T* x, const T* w, Optional<const T> bias, Update<T> h, Update<float> c, T* y, const Args& args) const;
  static size_t scratch_bytes(const Words&, const Operands& operands) {
    return RecurrentBlock::bytes(operands[StreamLstm::kW][1], 4);
  }
};

// stream_lstm in int8. The table has start_r = bias_r - (zero_h + kFoursOffset) sum_i w_ri for each row r of w.
template <int kFoursOffset>
struct StreamLstmCodes {
  StreamLstm op;

  static StreamLstmCodes from(const Words& words, const Operands& operands) {
    return {make_op<StreamLstm>(words, operands)};
  }
  uint64_t work() const { return op.work(); }

  static bool constant(const Operands& operands) {
    return is_constant(operands, StreamLstm::kW) && is_constant(operands, StreamLstm::kBias);
  }
  static size_t table_bytes(const StreamLstmCodes& form) { return size_t(4 * form.op.size.width) * sizeof(int32_t); }
  [[gnu::cold, gnu::noinline]] void fill(const Words&, const Operands& operands, std::byte* to) const {
    const auto* const w = static_cast<const int8_t*>(operands.tensor[StreamLstm::kW].data);
    const auto* const bias = operands.has(StreamLstm::kBias)
                                 ? static_cast<const int32_t*>(operands.tensor[StreamLstm::kBias].data)
                                 : nullptr;
    auto* const start = reinterpret_cast<int32_t*>(to);
    const int width = op.size.width;
    for (int row = 0; row < 4 * width; ++row) {
      uint32_t sum = 0;
      for (int i = 0; i < width; ++i) sum += uint32_t(int32_t{w[ptrdiff_t(row) * width + i]});
      const uint32_t first = bias != nullptr ? uint32_t(bias[row]) : 0;
      start[row] = int32_t(first - uint32_t(op.h_zero + kFoursOffset) * sum);
    }
  }

  // The scratch: the table if it is not constant, and for each worker {codes of y_{t-1} [h], c [h]}.
  static size_t piece(size_t bytes) { return (bytes + 63) / 64 * 64; }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    const auto width = size_t(operands[StreamLstm::kW][1]);
    const size_t table = constant(operands) ? 0 : piece(table_bytes(from(words, operands)));
    return table + piece(width) + piece(width * sizeof(int32_t)) + 64;
  }
};

template <int kFoursOffset>
struct FastStreamLstmCodes : StreamLstmCodes<kFoursOffset> {
  static FastStreamLstmCodes from(const Words& words, const Operands& operands) {
    return {StreamLstmCodes<kFoursOffset>::from(words, operands)};
  }
  void run(const int16_t* x, const int8_t* w, Optional<const int32_t> bias, Update<int8_t> h, Update<int16_t> c,
           int8_t* y, const Args& args) const;
};
// With TensorFlow Lite Micro's functions, of a table (curve.h).
template <int kFoursOffset>
struct FastStreamLstmTabled : StreamLstmCodes<kFoursOffset> {
  static FastStreamLstmTabled from(const Words& words, const Operands& operands) {
    return {StreamLstmCodes<kFoursOffset>::from(words, operands)};
  }
  void run(const int16_t* x, const int8_t* w, Optional<const int32_t> bias, Update<int8_t> h, Update<int16_t> c,
           const int32_t* table, int8_t* y, const Args& args) const;
};

template <class T>
struct FastSvdf {
  Svdf op;
  static FastSvdf from(const Words& words, const Operands& operands) { return {make_op<Svdf>(words, operands)}; }
  uint64_t work() const { return op.work(); }
  void run(const T* x, const T* w, Optional<const T> bias, Update<T> s, T* y, const Args& args) const;
};
template <class T>  // int8_t or int16_t
struct FastSvdfCodes {
  Svdf op;
  static FastSvdfCodes from(const Words& words, const Operands& operands) { return {make_op<Svdf>(words, operands)}; }
  uint64_t work() const { return op.work(); }
  void run(const T* x, const T* w, Optional<const int32_t> bias, Update<T> s, int8_t* y, const Args& args) const;
};

namespace fast::recurrent {

template <class Tier>
constexpr auto lines() {
  constexpr int kOffset = Tier::kFoursOffset;
  constexpr Rounding kTwice = Rounding::kDouble;
  return floats<FastLstm>("Lstm", Op::kLstm, Lstm::shapes) + floats<FastGru>("Gru", Op::kGru, Gru::shapes) +
         floats<FastStreamLstm>("StreamLstm", Op::kStreamLstm, StreamLstm::shapes) +
         line<FastStreamLstmCodes<kOffset>>("StreamLstmI8Double", Op::kStreamLstm, StreamLstm::shapes, 0, kTwice) +
         line<FastStreamLstmTabled<kOffset>>("StreamLstmI8Table", Op::kStreamLstm, StreamLstm::shapes, 0, kTwice) +
         floats<FastSvdf>("Svdf", Op::kSvdf, Svdf::shapes) +
         line<FastSvdfCodes<int8_t>>("SvdfI8Double", Op::kSvdf, Svdf::shapes, 0, kTwice) +
         line<FastSvdfCodes<int16_t>>("SvdfI16Double", Op::kSvdf, Svdf::shapes, 0, kTwice);
}

}  // namespace fast::recurrent

}  // namespace nacre::inline NACRE_ISA
