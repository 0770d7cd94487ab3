// Defines the optimizers. Each step updates one parameter in place. NUMERICS.md section 12.
//
//   gradient G: A [n]   report: A [4], report[0] the factor of the verdict (commit.h)   learning_rate r: float32 [1]
//   parameter p: P [n]   moments: M [n], zeros at first   A, P and M are element types
//
//   g = clip(factor G, -clip_value, clip_value) + weight_decay p        clip_value 0: no clipping; adamw: no decay here
//
//   sgd       p = p - r g
//   momentum  u = mu u + g;   p = p - r u                                                torch.optim.SGD, dampening 0
//   nesterov  u = mu u + g;   p = p - r (g + mu u)                                       torch.optim.SGD(nesterov=True)
//   adam      m = m + (1 - beta1) (g - m);   v = beta2 v + (1 - beta2) g^2               torch.optim.Adam;
//             p = p - r / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)      Kingma & Ba 2015, algorithm 1
//   adamw     p = (1 - r weight_decay) p, then as adam                                   Loshchilov & Hutter 2019
//   rmsprop   v = alpha v + (1 - alpha) g^2;   p = p - r g / (sqrt(v) + epsilon)         torch.optim.RMSprop
//   adagrad   s = s + g^2;   p = p - r g / (sqrt(s) + epsilon)                          torch.optim.Adagrad, lr_decay 0
//   rmsprop and adagrad, with epsilon_in_root, divide by sqrt(v + epsilon)              keras.optimizers' form of them
//
//   adam and adamw, with epsilon_before, add epsilon before the correction: r sqrt(1 - beta2^t) / (1 - beta1^t) m /
//             (sqrt(v) + epsilon), the form of keras.optimizers and of section 2 of Kingma & Ba (epsilon hat)
//
// Keras differs in two ways. In momentum, r is inside the sum (u = mu u - r g): a schedule acts only on later updates.
// The sum of adagrad starts at 0.1.
//
// t = step + 1, because `step` counts the updates applied before. Arithmetic is in A = float, or double for double
// parameters. It goes in the order of torch's loops over one tensor, so that steps from equal state agree to the bit
// or an ulp. Attributes are float32; if beta >= 1/2, 1 - beta is exact in A. The two powers and the rate of adam are
// computed in float64, once for each tensor: some 40 multiplications in software on a Cortex-M4. In float32, 1 -
// beta^t would lose 10 bits at t = 1.
#pragma once

#include <cmath>

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/numeric/integer_power.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

// Holds what the optimizers of this file share: words 0 and 1, and the gradient that the formulas call g.
struct Optimizer {
  int elements;
  float clip_value, weight_decay;

  enum Word { kClipValue = 0, kWeightDecay = 1, kFirst = 2 };
  static constexpr float kLargestAttribute = 1e30f;

  static constexpr Optimizer from(const Words& words, const Operands& operands) {
    return {operands[0].elements(), words.real(kClipValue), words.real(kWeightDecay)};
  }

  template <class A>
  constexpr A clipped(A g) const {
    const A limit = A(clip_value);
    return !(limit > 0) ? g : g > limit ? limit : g < -limit ? -limit : g;  // NaN stays NaN
  }
  template <class A>
  constexpr A gradient(A raw, A factor, A p) const {
    const A g = clipped(raw * factor);
    return weight_decay != 0 ? g + A(weight_decay) * p : g;
  }

  // Checks the operands: gradient, report, learning_rate, then `scalars` more of shape [1], then parameter and
  // moments.
  static constexpr Code check(const Words& words, const Operands& operands, int scalars) {
    for (const int word : {kClipValue, kWeightDecay})
      if (!real_within(words, word, 0, kLargestAttribute)) return Code::kAttribute;
    if (!is(operands, 1, 4)) return Code::kShapeInput;
    for (int i = 2; i < 3 + scalars; ++i)
      if (!is(operands, i, 1)) return Code::kShapeInput;
    for (int i = 3 + scalars; i < operands.count; ++i)
      if (operands[i].elements() != operands[0].elements()) return Code::kShapeWeights;
    return Code::kOk;
  }
  static constexpr bool is_share(const Words& words, int i) { return real_within(words, i, 0, 1) && words.real(i) < 1; }
  // Checks that an epsilon is above 0. Otherwise an element that never had a gradient would be 0 / 0.
  static constexpr bool is_epsilon(const Words& words, int i) {
    return real_within(words, i, 0, kLargestAttribute) && words.real(i) > 0;
  }

  // Returns the divisor of rmsprop and adagrad.
  template <class A>
  static constexpr A divisor(A square, A epsilon, bool in_root) {
    return in_root ? std::sqrt(square + epsilon) : std::sqrt(square) + epsilon;
  }

  static constexpr Attribute kClip = {"clip_value", Coding::kReal}, kDecay = {"weight_decay", Coding::kReal},
                             kEpsilon = {"epsilon", Coding::kReal}, kInRoot = {"epsilon_in_root"},
                             kBefore = {"epsilon_before"};
};

struct Sgd : Optimizer {
  static constexpr Sgd from(const Words& words, const Operands& operands) { return {Optimizer::from(words, operands)}; }

  template <class A, class P>
  constexpr void forward(const A* gradients, const A* report, const float* rate, Update<P> parameter) const {
    for (int i : independent(elements)) {
      const A p = A(parameter.data[i]);
      parameter.data[i] = P(p - A(rate[0]) * gradient(gradients[i], report[0], p));
    }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    return check(words, operands, 0);
  }

  static constexpr Attribute kAttributes[] = {kClip, kDecay};
  static constexpr const char* kInputs[] = {"gradient", "report", "learning_rate", "&parameter"};
};

struct Momentum : Optimizer {  // serves momentum and nesterov
  float mu;

  static constexpr Momentum from(const Words& words, const Operands& operands) {
    return {Optimizer::from(words, operands), words.real(kFirst)};
  }

  template <class A, class P, class M>
  constexpr void forward(const A* gradients, const A* report, const float* rate, Update<P> parameter,
                         Update<M> velocity) const {
    step<false>(gradients, report, A(rate[0]), parameter.data, velocity.data);
  }
  template <class A, class P, class M>
  constexpr void nesterov(const A* gradients, const A* report, const float* rate, Update<P> parameter,
                          Update<M> velocity) const {
    step<true>(gradients, report, A(rate[0]), parameter.data, velocity.data);
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    return real_within(words, kFirst, 0, 1) ? check(words, operands, 0) : Code::kAttribute;
  }

  static constexpr Attribute kAttributes[] = {kClip, kDecay, {"momentum", Coding::kReal}};
  static constexpr const char* kInputs[] = {"gradient", "report", "learning_rate", "&parameter", "&velocity"};

 private:
  template <bool kNesterov, class A, class P, class M>
  constexpr void step(const A* gradients, const A* report, A rate, P* parameter, M* velocity) const {
    for (int i : independent(elements)) {
      const A p = A(parameter[i]), g = gradient(gradients[i], report[0], p), u = A(mu) * A(velocity[i]) + g;
      velocity[i] = M(u);
      parameter[i] = P(p - rate * (kNesterov ? g + A(mu) * u : u));
    }
  }
};

struct Adam : Optimizer {  // serves adam and adamw
  float beta1, beta2, epsilon;
  bool epsilon_before;

  static constexpr Adam from(const Words& words, const Operands& operands) {
    return {Optimizer::from(words, operands), words.real(kFirst), words.real(kFirst + 1), words.real(kFirst + 2),
            words[kFirst + 3] != 0};
  }

  template <class A, class P, class M>
  constexpr void forward(const A* gradients, const A* report, const float* rate, const uint32_t* step,
                         Update<P> parameter, Update<M> m, Update<M> v) const {
    update(*this, gradients, report, A(1), rate[0], step[0], parameter.data, m.data, v.data);
  }
  template <class A, class P, class M>
  constexpr void decoupled(const A* gradients, const A* report, const float* rate, const uint32_t* step,
                           Update<P> parameter, Update<M> m, Update<M> v) const {
    Adam plain = *this;
    plain.weight_decay = 0;
    update(plain, gradients, report, kept<A>(rate[0]), rate[0], step[0], parameter.data, m.data, v.data);
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    if (!is_share(words, kFirst) || !is_share(words, kFirst + 1) || !is_epsilon(words, kFirst + 2) ||
        words[kFirst + 3] > 1)
      return Code::kAttribute;
    return check(words, operands, 1);
  }

  static constexpr Attribute kAttributes[] = {kClip,    kDecay, {"beta1", Coding::kReal}, {"beta2", Coding::kReal},
                                              kEpsilon, kBefore};
  static constexpr const char* kInputs[] = {"gradient", "report", "learning_rate", "step", "&parameter", "&m", "&v"};

  // The functions below return r / (1 - beta1^t), sqrt(1 - beta2^t), and for adamw 1 - r weight_decay.
  template <class A>
  constexpr A step_size(float rate, uint32_t step) const {
    return A(double(rate) / correction(beta1, step));
  }
  template <class A>
  constexpr A root(uint32_t step) const {
    return std::sqrt(A(correction(beta2, step)));
  }
  // Returns the number added to sqrt(v) / root: sqrt(v) + epsilon = root (sqrt(v) / root + epsilon / root).
  template <class A>
  constexpr A least(A root) const {
    return epsilon_before ? A(epsilon) / root : A(epsilon);
  }
  template <class A>
  constexpr A kept(float rate) const {
    return A(1 - double(rate) * double(weight_decay));
  }

 private:
  template <class A, class P, class M>
  static constexpr void update(const Adam& adam, const A* gradients, const A* report, A keep, float rate, uint32_t step,
                               P* parameter, M* m, M* v) {
    const A b1 = A(adam.beta1), b2 = A(adam.beta2), first = 1 - b1, second = 1 - b2;
    const A size = adam.step_size<A>(rate, step), root = adam.root<A>(step), least = adam.least(root);
    for (int i : independent(adam.elements)) {
      const A p = A(parameter[i]) * keep, g = adam.gradient(gradients[i], report[0], p);
      const A mean = A(m[i]) + first * (g - A(m[i])), square = b2 * A(v[i]) + second * g * g;
      m[i] = M(mean);
      v[i] = M(square);
      parameter[i] = P(p - size * mean / (std::sqrt(square) / root + least));
    }
  }

  // Returns 1 - beta^(step + 1).
  static constexpr double correction(float beta, uint32_t step) {
    return 1 - double(beta) * integer_power(double(beta), step);
  }
};

struct Rmsprop : Optimizer {
  float alpha, epsilon;
  bool in_root;  // epsilon_in_root

  static constexpr Rmsprop from(const Words& words, const Operands& operands) {
    return {Optimizer::from(words, operands), words.real(kFirst), words.real(kFirst + 1), words[kFirst + 2] != 0};
  }

  template <class A, class P, class M>
  constexpr void forward(const A* gradients, const A* report, const float* rate, Update<P> parameter,
                         Update<M> mean_square) const {
    const A keep = A(alpha), take = 1 - keep;
    for (int i : independent(elements)) {
      const A p = A(parameter.data[i]), g = gradient(gradients[i], report[0], p);
      const A square = keep * A(mean_square.data[i]) + take * g * g;
      mean_square.data[i] = M(square);
      parameter.data[i] = P(p - A(rate[0]) * g / divisor(square, A(epsilon), in_root));
    }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    if (!is_share(words, kFirst) || !is_epsilon(words, kFirst + 1) || words[kFirst + 2] > 1) return Code::kAttribute;
    return check(words, operands, 0);
  }

  static constexpr Attribute kAttributes[] = {kClip, kDecay, {"alpha", Coding::kReal}, kEpsilon, kInRoot};
  static constexpr const char* kInputs[] = {"gradient", "report", "learning_rate", "&parameter", "&mean_square"};
};

struct Adagrad : Optimizer {
  float epsilon;
  bool in_root;  // epsilon_in_root

  static constexpr Adagrad from(const Words& words, const Operands& operands) {
    return {Optimizer::from(words, operands), words.real(kFirst), words[kFirst + 1] != 0};
  }

  template <class A, class P, class M>
  constexpr void forward(const A* gradients, const A* report, const float* rate, Update<P> parameter,
                         Update<M> sum) const {
    for (int i : independent(elements)) {
      const A p = A(parameter.data[i]), g = gradient(gradients[i], report[0], p), squares = A(sum.data[i]) + g * g;
      sum.data[i] = M(squares);
      parameter.data[i] = P(p - A(rate[0]) * g / divisor(squares, A(epsilon), in_root));
    }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    return is_epsilon(words, kFirst) && words[kFirst + 1] <= 1 ? check(words, operands, 0) : Code::kAttribute;
  }

  static constexpr Attribute kAttributes[] = {kClip, kDecay, kEpsilon, kInRoot};
  static constexpr const char* kInputs[] = {"gradient", "report", "learning_rate", "&parameter", "&sum"};
};

inline constexpr OpRule kSgdRule = {.op = Op::kSgd,
                                    .name = "sgd",
                                    .numerics = Numerics::kPointwise,
                                    .shapes = &Sgd::shapes,
                                    .attributes = Sgd::kAttributes,
                                    .inputs = Sgd::kInputs,
                                    .outputs = {}};
inline constexpr OpRule kMomentumRule = {.op = Op::kMomentum,
                                         .name = "momentum",
                                         .numerics = Numerics::kPointwise,
                                         .shapes = &Momentum::shapes,
                                         .attributes = Momentum::kAttributes,
                                         .inputs = Momentum::kInputs,
                                         .outputs = {}};
inline constexpr OpRule kNesterovRule = {.op = Op::kNesterov,
                                         .name = "nesterov",
                                         .numerics = Numerics::kPointwise,
                                         .shapes = &Momentum::shapes,
                                         .attributes = Momentum::kAttributes,
                                         .inputs = Momentum::kInputs,
                                         .outputs = {}};
inline constexpr OpRule kAdamRule = {.op = Op::kAdam,
                                     .name = "adam",
                                     .numerics = Numerics::kPointwise,
                                     .shapes = &Adam::shapes,
                                     .attributes = Adam::kAttributes,
                                     .inputs = Adam::kInputs,
                                     .outputs = {}};
inline constexpr OpRule kAdamWRule = {.op = Op::kAdamW,
                                      .name = "adamw",
                                      .numerics = Numerics::kPointwise,
                                      .shapes = &Adam::shapes,
                                      .attributes = Adam::kAttributes,
                                      .inputs = Adam::kInputs,
                                      .outputs = {}};
inline constexpr OpRule kRmspropRule = {.op = Op::kRmsprop,
                                        .name = "rmsprop",
                                        .numerics = Numerics::kPointwise,
                                        .shapes = &Rmsprop::shapes,
                                        .attributes = Rmsprop::kAttributes,
                                        .inputs = Rmsprop::kInputs,
                                        .outputs = {}};
inline constexpr OpRule kAdagradRule = {.op = Op::kAdagrad,
                                        .name = "adagrad",
                                        .numerics = Numerics::kPointwise,
                                        .shapes = &Adagrad::shapes,
                                        .attributes = Adagrad::kAttributes,
                                        .inputs = Adagrad::kInputs,
                                        .outputs = {}};

}  // namespace nacre::inline NACRE_ISA
