// Defines the optimizers of the ONNX domain ai.onnx.preview.training, version 1. They have outputs and update nothing
// in place. So an ONNX network that trains another network runs like any network. github.com/onnx/onnx,
// docs/Operators-preview.training (Adagrad, Adam, Momentum).
//
//   R T [] the rate   t int64 [] the updates so far   x, G, state T [..]   ->   x', state'
//
//   g = norm_coefficient x + G
//
//   onnx_momentum  v' = alpha v + (t > 0 ? beta : 1) g;   x' = x - R v',  nesterov: x - R (g + alpha v')
//   onnx_adam      v' = alpha v + (1 - alpha) g;   h' = beta h + (1 - beta) g^2
//                  x' = (1 - norm_coefficient_post) (x - R' v' / (sqrt(h') + epsilon))
//                  R' = R sqrt(1 - beta^t) / (1 - alpha^t),  R for t = 0
//   onnx_adagrad   h' = h + g^2;   x' = x - R / (1 + t decay_factor) g / (sqrt(h') + epsilon)
//
// They differ from optimize.h in three ways. In momentum, g has the factor beta. adam adds epsilon before the
// bias correction, as Keras does. t is the count before this update, so the second update gets the correction of a
// first one.
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/independent.h"
#include "engine/ops/optimize.h"

namespace nacre::inline NACRE_ISA {

struct OnnxOptimizer {
  int elements;
  float norm_coefficient;

  // Checks rate, count, x, gradient and states: all attributes finite, one rate and one count, the rest of one shape.
  static constexpr Code check(const Words& words, const Operands& operands, int reals, Dims* outputs) {
    for (int i = 0; i < reals; ++i)
      if (!is_finite(words[i])) return Code::kAttribute;
    const Shape x = operands[2];
    if (operands[0].elements() != 1 || operands[1].elements() != 1) return Code::kShapeInput;
    for (int i = 3; i < operands.count; ++i) {
      if (operands[i].rank != x.rank) return Code::kShapeRank;
      for (int axis = 0; axis < x.rank; ++axis)
        if (operands[i][axis] != x[axis]) return Code::kShapeInput;
    }
    *outputs++ = dims_of(x);
    for (int i = 4; i < operands.count; ++i) *outputs++ = dims_of(x);
    return Code::kOk;
  }

  // Returns b^t with t clamped to [0, 2^32 - 1].
  static constexpr double power(float b, int64_t t) {
    constexpr int64_t kMost = 0xFFFFFFFF;
    return integer_power(double(b), uint32_t(t < 0 ? 0 : t > kMost ? kMost : t));
  }

  static constexpr Attribute kNorm = {"norm_coefficient", Coding::kReal};
};

struct OnnxMomentum : OnnxOptimizer {
  float alpha, beta;
  bool nesterov;

  static constexpr OnnxMomentum from(const Words& words, const Operands& operands) {
    return {{operands[2].elements(), words.real(0)}, words.real(1), words.real(2), words[3] != 0};
  }

  template <class T>
  constexpr void forward(const T* rate, const int64_t* count, const T* x, const T* gradient, const T* v, T* x_new,
                         T* v_new) const {
    const T take = count[0] > 0 ? T(beta) : T(1);
    for (int i : independent(elements)) {
      const T g = T(norm_coefficient) * x[i] + gradient[i], velocity = T(alpha) * v[i] + take * g;
      v_new[i] = velocity;
      x_new[i] = x[i] - rate[0] * (nesterov ? g + T(alpha) * velocity : velocity);
    }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* outputs) {
    return words[3] <= 1 ? check(words, operands, 3, outputs) : Code::kAttribute;
  }

  static constexpr Attribute kAttributes[] = {kNorm, {"alpha", Coding::kReal}, {"beta", Coding::kReal}, {"nesterov"}};
  static constexpr const char* kInputs[] = {"rate", "count", "x", "gradient", "v"};
  static constexpr const char* kOutputs[] = {"x_new", "v_new"};
};

struct OnnxAdam : OnnxOptimizer {
  float alpha, beta, epsilon, norm_coefficient_post;

  static constexpr OnnxAdam from(const Words& words, const Operands& operands) {
    return {{operands[2].elements(), words.real(0)}, words.real(1), words.real(2), words.real(3), words.real(4)};
  }

  template <class T>
  constexpr void forward(const T* rate, const int64_t* count, const T* x, const T* gradient, const T* v, const T* h,
                         T* x_new, T* v_new, T* h_new) const {
    const T a = T(alpha), b = T(beta), keep = 1 - T(norm_coefficient_post);
    const T size =
        count[0] > 0 ? rate[0] * std::sqrt(T(1 - power(beta, count[0]))) / T(1 - power(alpha, count[0])) : rate[0];
    for (int i : independent(elements)) {
      const T g = T(norm_coefficient) * x[i] + gradient[i], mean = a * v[i] + (1 - a) * g,
              square = b * h[i] + (1 - b) * g * g;
      v_new[i] = mean;
      h_new[i] = square;
      x_new[i] = keep * (x[i] - size * mean / (std::sqrt(square) + T(epsilon)));
    }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* outputs) {
    return check(words, operands, 5, outputs);
  }

  static constexpr Attribute kAttributes[] = {kNorm,
                                              {"alpha", Coding::kReal},
                                              {"beta", Coding::kReal},
                                              {"epsilon", Coding::kReal},
                                              {"norm_coefficient_post", Coding::kReal}};
  static constexpr const char* kInputs[] = {"rate", "count", "x", "gradient", "v", "h"};
  static constexpr const char* kOutputs[] = {"x_new", "v_new", "h_new"};
};

struct OnnxAdagrad : OnnxOptimizer {
  float decay_factor, epsilon;

  static constexpr OnnxAdagrad from(const Words& words, const Operands& operands) {
    return {{operands[2].elements(), words.real(0)}, words.real(1), words.real(2)};
  }

  template <class T>
  constexpr void forward(const T* rate, const int64_t* count, const T* x, const T* gradient, const T* h, T* x_new,
                         T* h_new) const {
    const T size = rate[0] / (1 + T(count[0]) * T(decay_factor));
    for (int i : independent(elements)) {
      const T g = T(norm_coefficient) * x[i] + gradient[i], squares = h[i] + g * g;
      h_new[i] = squares;
      x_new[i] = x[i] - size * g / (std::sqrt(squares) + T(epsilon));
    }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* outputs) {
    return check(words, operands, 3, outputs);
  }

  static constexpr Attribute kAttributes[] = {kNorm, {"decay_factor", Coding::kReal}, {"epsilon", Coding::kReal}};
  static constexpr const char* kInputs[] = {"rate", "count", "x", "gradient", "h"};
  static constexpr const char* kOutputs[] = {"x_new", "h_new"};
};

inline constexpr OpRule kOnnxMomentumRule = {.op = Op::kOnnxMomentum,
                                             .name = "onnx_momentum",
                                             .numerics = Numerics::kPointwise,
                                             .shapes = &OnnxMomentum::shapes,
                                             .attributes = OnnxMomentum::kAttributes,
                                             .inputs = OnnxMomentum::kInputs,
                                             .outputs = OnnxMomentum::kOutputs};
inline constexpr OpRule kOnnxAdamRule = {.op = Op::kOnnxAdam,
                                         .name = "onnx_adam",
                                         .numerics = Numerics::kPointwise,
                                         .shapes = &OnnxAdam::shapes,
                                         .attributes = OnnxAdam::kAttributes,
                                         .inputs = OnnxAdam::kInputs,
                                         .outputs = OnnxAdam::kOutputs};
inline constexpr OpRule kOnnxAdagradRule = {.op = Op::kOnnxAdagrad,
                                            .name = "onnx_adagrad",
                                            .numerics = Numerics::kPointwise,
                                            .shapes = &OnnxAdagrad::shapes,
                                            .attributes = OnnxAdagrad::kAttributes,
                                            .inputs = OnnxAdagrad::kInputs,
                                            .outputs = OnnxAdagrad::kOutputs};

}  // namespace nacre::inline NACRE_ISA
