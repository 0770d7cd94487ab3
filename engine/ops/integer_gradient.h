// The backward pass of integer training (policy int8/full), NUMERICS.md section 16: errors, the gradients of
// activations, are int8 codes; gradients of parameters are int32 sums. No step has a float instruction.
//
//   logits x int8 [.., classes]   labels y int32 [..]   an error e int8 [.., out]: real = s_e 2^E e
//   a layer's input x int8 [.., in], real = s_x (x - x_zero)   w int8 [out, in], real = s_w,k w   rows r
//
//   int8_cross_entropy       e_rk = clip(round(2^7 p_rk) - 2^7 [k = y_r]), scale 2^-7, E = 0; p by softmax.h
//                            loss += 2^12 (ln S_r - beta (x_r,y - m_r)), count += rows
//   dense_int8_gradient_w    dw_ki += sum_r e_rk (x_ri - x_zero)
//   bias_int8_gradient       db_k += sum_r e_rk
//   dense_int8_gradient_x    a_ri = sum_k e_rk f_k w_ki where low < x_ri < high, else 0
//                            dx_ri = clip(round(a_ri / 2^h)), h = E_dx - E_e,   amax = max(amax, |a_ri|)
//
// Sums of the step block saturate. verdict_codes refuses a sum that stands at an end of int32. f_k removes the
// channels' different scales: s_w,k = f_k s_f. Ranges, int32 [2], are state: {E, running level} of update_error_range
// (integer_update.h). low and high are the codes at which the layer before was clamped; no error flows back there.
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/dense.h"
#include "engine/ops/gradient.h"
#include "engine/ops/softmax.h"

namespace nacre::inline NACRE_ISA {

constexpr int32_t saturating(int64_t v) { return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : int32_t(v); }
constexpr int8_t error_code(int32_t v) { return int8_t(v > 127 ? 127 : v < -127 ? -127 : v); }

struct Int8CrossEntropy {
  Softmax softmax;  // over the classes of a row

  enum Word { kMultiplier = 0, kShift = 1, kDiffMin = 2 };
  static constexpr int kLossBits = 12;

  static constexpr Int8CrossEntropy from(const Words& words, const Operands& operands) {
    const Shape x = operands[0];
    return {{.outer = x.product(0, x.rank - 1),
             .width = x.last(),
             .inner = 1,
             .beta = 0,
             .scale = {words.integer(kMultiplier), words.integer(kShift)},
             .diff_min = words.integer(kDiffMin)}};
  }

  constexpr Code forward(const int8_t* logits, const int32_t* labels, Update<int32_t> loss, Update<int32_t> count,
                         int8_t* error) const {
    if (!in_order()) return Code::kOk;
    for (int r = 0; r < softmax.outer; ++r)
      if (labels[r] < 0 || labels[r] >= softmax.width) return Code::kIndex;
    for (int r = 0; r < softmax.outer; ++r) {
      const int8_t* const x = logits + r * softmax.width;
      int8_t* const e = error + r * softmax.width;
      const int label = labels[r];
      const int32_t sum = softmax.row_int8<Rounding::kDouble, 16>(
          x, [e, label](int k, int32_t share) { e[k] = error_code(((share + 256) >> 9) - (k == label ? 128 : 0)); });
      loss.data[0] = saturating(int64_t{loss.data[0]} + row_loss(x, label, sum));
    }
    count.data[0] = saturating(int64_t{count.data[0]} + softmax.outer);
    return Code::kOk;
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* e) {
    const Shape x = operands[0], y = operands[1];
    if (x.rank < 1 || y.rank != (x.rank == 1 ? 1 : x.rank - 1)) return Code::kShapeRank;
    if (x.rank == 1 ? y[0] != 1 : false) return Code::kShapeInput;
    for (int axis = 0; axis + 1 < x.rank; ++axis)
      if (y[axis] != x[axis]) return Code::kShapeInput;
    if (!is(operands, 2, 1) || !is(operands, 3, 1)) return Code::kShapeInput;
    if (words.integer(kMultiplier) < 0 || words[kShift] > 31 || words.integer(kDiffMin) > 0) return Code::kAttribute;
    if (x.last() > 4095) return Code::kAccumulator;
    *e = dims_of(x);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"multiplier"}, {"shift"}, {"diff_min"}};
  static constexpr const char* kInputs[] = {"logits", "labels", "&loss", "&count"};
  static constexpr const char* kOutputs[] = {"error"};

 private:
  // Returns 2^12 (ln S - beta (x_y - m)) of one row, S in Q12. A logit further than diff_min below the maximum counts
  // as diff_min below it. With the converter's diff_min, beta (m - x_y) stays within 31.
  constexpr int32_t row_loss(const int8_t* x, int label, int32_t sum) const {
    int peak = -128;
    for (int k = 0; k < softmax.width; ++k) peak = x[k] > peak ? x[k] : peak;
    const int below = x[label] - peak < softmax.diff_min ? softmax.diff_min : x[label] - peak;
    const int32_t distance = wrapping_sub(0, multiply<Rounding::kDouble>(below, softmax.scale));  // Q5.26, fixed point
    const int zeros = int(std::countl_zero(uint32_t(sum)));
    const int32_t log2 = ((12 - zeros) << kLossBits) + log2_of(uint32_t(sum) << zeros);
    constexpr int32_t kLn2 = 22713;  // ln 2 2^15; log2 is below 12 2^12
    return wrapping_add((log2 * kLn2) >> 15, distance >> (26 - kLossBits));
  }

  // Returns 2^12 log2(v 2^-31) for v in [2^31, 2^32), rounded down. Each squaring gives one bit.
  static constexpr int32_t log2_of(uint32_t v) {
    int32_t log2 = 0;
    for (int bit = 0; bit < kLossBits; ++bit) {
      const uint64_t square = uint64_t{v} * v;  // in [2^62, 2^64)
      const int carry = int(square >> 63);
      v = uint32_t(square >> (31 + carry));
      log2 = log2 << 1 | carry;
    }
    return log2;
  }
};

// Turns the sums of an input's error into codes. Steps of dense layers and of convolutions end with it.
struct ErrorCodes {
  int low, high;  // the error flows if x is strictly between these codes
  int64_t h;

  constexpr ErrorCodes(int from, int to, const int32_t* range, Optional<const int32_t> error_range)
      : low(from), high(to), h(int64_t{range[0]} - (error_range ? error_range[0] : 0)) {}

  constexpr bool flows(int8_t x) const { return x > low && x < high; }

  // Stores `count` consecutive elements.
  constexpr void store(const uint32_t* sum, int count, const int8_t* x, int8_t* dx, uint32_t* amax) const {
    uint32_t most = 0;
    for (int i = 0; i < count; ++i) {
      const auto a = int32_t(flows(x[i]) ? sum[i] : 0);
      const uint32_t size = a < 0 ? 0u - uint32_t(a) : uint32_t(a);
      most = size > most ? size : most;
      dx[i] = error_code(shifted(a));
    }
    raise(amax, most);
  }

  // Returns round(a / 2^h), ties away from zero; exact if h is negative. It saturates: 127 stands for all larger
  // values.
  constexpr int32_t shifted(int32_t a) const {
    if (h > 31 || a == 0) return 0;
    if (h >= 0) return rounding_shift_right(a, int(h));
    return a > 127 || h < -7 ? (a > 0 ? 127 : -127) : a < -127 ? -127 : a * (1 << int(-h));
  }

  static constexpr bool holds(const Words& words, int first) {
    return is_code(words.integer(first)) && is_code(words.integer(first + 1));
  }
};

struct DenseInt8GradientW : DenseGradientW {
  int x_zero;

  static constexpr DenseInt8GradientW from(const Words& words, const Operands& operands) {
    return {DenseGradientW::from(words, operands), words.integer(0)};
  }

  constexpr void forward_int8(const int8_t* error, const int8_t* x, Update<int32_t> dw) const {
    each_independent(out, runs_of(in), [&](int k, int run, int) {
      const int first = run * kRun, count = length_of_run(in, run);
      int32_t sum[kRun] = {};  // at most 2^31 - 1: the shape rule bounds the rows
      for (int r = 0; r < rows; ++r) {
        const int32_t e = error[r * out + k];
        const int8_t* const from = x + r * in + first;
        for (int i = 0; i < count; ++i) sum[i] += e * (from[i] - x_zero);
      }
      int32_t* const to = dw.data + k * in + first;
      for (int i = 0; i < count; ++i) to[i] = saturating(int64_t{to[i]} + sum[i]);
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* made) {
    const Shape e = operands[0];
    NACRE_TRY_CODE(check_zero(words.integer(0), ElementType::kInt8));
    NACRE_TRY_CODE(DenseGradientW::shapes({}, operands, made));
    return check_terms(operands, e.product(0, e.rank - 1));
  }

  static constexpr Attribute kAttributes[] = {{"x_zero"}};
  static constexpr const char* kInputs[] = {"error", "x", "&dw"};
};

struct DenseInt8GradientX : DenseGradientX {
  int low, high;  // codes of x at which the layer before was clamped

  static constexpr DenseInt8GradientX from(const Words& words, const Operands& operands) {
    return {DenseGradientX::from(words, operands), words.integer(0), words.integer(1)};
  }

  constexpr void forward_int8(const int8_t* error, const int8_t* w, const int32_t* channel_factor, const int8_t* x,
                              Optional<const int32_t> error_range, const int32_t* range, Update<uint32_t> amax,
                              int8_t* dx) const {
    const ErrorCodes codes(low, high, range, error_range);
    each_independent(rows, runs_of(in), [&](int r, int run, int) {
      const int first = run * kRun, count = length_of_run(in, run);
      uint32_t sum[kRun] = {};  // wraps if an untrusted model's sum overflows; a valid model's does not
      for (int k = 0; k < out; ++k) {
        const uint32_t e = uint32_t(int32_t{error[r * out + k]}) * uint32_t(channel_factor[k]);
        const int8_t* const from = w + k * in + first;
        for (int i = 0; i < count; ++i) sum[i] += e * uint32_t(int32_t{from[i]});
      }
      codes.store(sum, count, x + r * in + first, dx + r * in + first, amax.data);
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    if (!ErrorCodes::holds(words, 0)) return Code::kAttribute;
    NACRE_TRY_CODE(DenseGradientX::shapes({}, operands, dx));
    const Shape x = operands[3];
    if (!is(operands, 2, operands[1][0])) return Code::kShapeScale;
    if (x.rank != dx->rank) return Code::kShapeRank;
    for (int axis = 0; axis < x.rank; ++axis)
      if (x[axis] != dx->size[axis]) return Code::kShapeInput;
    if (operands.has(4) && !is(operands, 4, 2)) return Code::kShapeScale;
    return is(operands, 5, 2) && is(operands, 6, 1) ? Code::kOk : Code::kShapeScale;
  }

  static constexpr Attribute kAttributes[] = {{"low"}, {"high"}};
  static constexpr const char* kInputs[] = {"error", "w", "channel_factor", "x", "error_range?", "range", "&amax"};
  static constexpr const char* kOutputs[] = {"dx"};
};

struct BiasInt8Gradient {
  int rows, out;

  static constexpr BiasInt8Gradient from(const Words&, const Operands& operands) {
    const Shape e = operands[0];
    return {e.product(0, e.rank - 1), e.last()};
  }

  constexpr uint64_t work() const { return uint64_t(uint32_t(rows)) * uint32_t(out); }

  constexpr void forward(const int8_t* error, Update<int32_t> db) const {
    for (int k : independent(out)) {
      int64_t sum = db.data[k];
      for (int r = 0; r < rows; ++r) sum += error[r * out + k];
      db.data[k] = saturating(sum);
    }
  }

  static constexpr Code shapes(const Words&, const Operands& operands, Dims*) {
    if (operands[0].rank < 1) return Code::kShapeRank;
    return is(operands, 1, operands[0].last()) ? Code::kOk : Code::kShapeBias;
  }

  static constexpr const char* kInputs[] = {"error", "&db"};
};

inline constexpr OpRule kInt8CrossEntropyRule = {.op = Op::kInt8CrossEntropy,
                                                 .name = "int8_cross_entropy",
                                                 .numerics = Numerics::kReduction,
                                                 .shapes = &Int8CrossEntropy::shapes,
                                                 .attributes = Int8CrossEntropy::kAttributes,
                                                 .inputs = Int8CrossEntropy::kInputs,
                                                 .outputs = Int8CrossEntropy::kOutputs};
inline constexpr OpRule kDenseInt8GradientWRule = {.op = Op::kDenseInt8GradientW,
                                                   .name = "dense_int8_gradient_w",
                                                   .numerics = Numerics::kMatmul,
                                                   .shapes = &DenseInt8GradientW::shapes,
                                                   .attributes = DenseInt8GradientW::kAttributes,
                                                   .inputs = DenseInt8GradientW::kInputs,
                                                   .outputs = {}};
inline constexpr OpRule kDenseInt8GradientXRule = {.op = Op::kDenseInt8GradientX,
                                                   .name = "dense_int8_gradient_x",
                                                   .numerics = Numerics::kMatmul,
                                                   .shapes = &DenseInt8GradientX::shapes,
                                                   .attributes = DenseInt8GradientX::kAttributes,
                                                   .inputs = DenseInt8GradientX::kInputs,
                                                   .outputs = DenseInt8GradientX::kOutputs};
inline constexpr OpRule kBiasInt8GradientRule = {.op = Op::kBiasInt8Gradient,
                                                 .name = "bias_int8_gradient",
                                                 .numerics = Numerics::kReduction,
                                                 .shapes = &BiasInt8Gradient::shapes,
                                                 .attributes = {},
                                                 .inputs = BiasInt8Gradient::kInputs,
                                                 .outputs = {}};

}  // namespace nacre::inline NACRE_ISA
