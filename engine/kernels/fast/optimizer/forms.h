// Kernel forms of optimizers, verdict and accumulate, over vectors. Optimizers do the operations of
// engine/ops/optimize.h in its order, none of them fused, so that targets compute the same parameters. Code: run.h.
#pragma once

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/kernel.h"
#include "engine/ops/commit.h"
#include "engine/ops/gradient.h"
#include "engine/ops/optimize.h"

namespace nacre::inline NACRE_ISA {

template <class P>
struct SgdForm : Sgd {
  static SgdForm from(const Words& words, const Operands& operands) { return {Sgd::from(words, operands)}; }
  void run(const float* gradients, const float* report, const float* rate, Update<P> parameter, const Args& args) const;
};

template <bool kNesterov, class P, class M>
struct MomentumForm : Momentum {
  static MomentumForm from(const Words& words, const Operands& operands) { return {Momentum::from(words, operands)}; }
  void run(const float* gradients, const float* report, const float* rate, Update<P> parameter, Update<M> velocity,
           const Args& args) const;
};

template <bool kDecoupled, class P, class M>
struct AdamForm : Adam {
  static AdamForm from(const Words& words, const Operands& operands) { return {Adam::from(words, operands)}; }
  void run(const float* gradients, const float* report, const float* rate, const uint32_t* step, Update<P> parameter,
           Update<M> m, Update<M> v, const Args& args) const;
};

template <class P, class M>
struct RmspropForm : Rmsprop {
  static RmspropForm from(const Words& words, const Operands& operands) { return {Rmsprop::from(words, operands)}; }
  void run(const float* gradients, const float* report, const float* rate, Update<P> parameter, Update<M> mean_square,
           const Args& args) const;
};

template <class P, class M>
struct AdagradForm : Adagrad {
  static AdagradForm from(const Words& words, const Operands& operands) { return {Adagrad::from(words, operands)}; }
  void run(const float* gradients, const float* report, const float* rate, Update<P> parameter, Update<M> sum,
           const Args& args) const;
};

// Judges a step's gradients (ops/commit.h). Their norm is summed lane by lane, then over lanes, with compensation.
struct VerdictForm : Verdict {
  static VerdictForm from(const Words& words, const Operands& operands) { return {Verdict::from(words, operands)}; }
  void run(const float* gradients, const float* loss, const float* count, const float* loss_scale, uint32_t* apply,
           uint32_t* amax, float* report, const Args& args) const;
};

template <class T>
struct AccumulateForm : Accumulate {
  static AccumulateForm from(const Words& words, const Operands& operands) {
    return {Accumulate::from(words, operands)};
  }
  void run(const T* x, Update<float> sum, const Args& args) const;
};

namespace fast::optimizer {

template <bool kNesterov>
struct MomentumOf {
  template <class P, class M>
  using Form = MomentumForm<kNesterov, P, M>;
};
template <bool kDecoupled>
struct AdamOf {
  template <class P, class M>
  using Form = AdamForm<kDecoupled, P, M>;
};
// Returns the lines of an optimizer, one for each pair of types of a parameter and its moments.
template <template <class, class> class Form>
constexpr auto optimizers(const char* name, Op op, ShapeRule shapes) {
  return line<Form<float, float>>({name, "F32"}, op, shapes) +
         line<Form<float, Bfloat16>>({name, "F32MomentsBf16"}, op, shapes) +
         line<Form<Bfloat16, float>>({name, "Bf16"}, op, shapes) +
         line<Form<Float16, float>>({name, "F16"}, op, shapes);
}

template <class Tier>
constexpr auto lines() {
  return line<SgdForm<float>>("SgdF32", Op::kSgd, Sgd::shapes) +
         line<SgdForm<Bfloat16>>("SgdBf16", Op::kSgd, Sgd::shapes) +
         line<SgdForm<Float16>>("SgdF16", Op::kSgd, Sgd::shapes) +
         optimizers<MomentumOf<false>::Form>("Momentum", Op::kMomentum, Momentum::shapes) +
         optimizers<MomentumOf<true>::Form>("Nesterov", Op::kNesterov, Momentum::shapes) +
         optimizers<AdamOf<false>::Form>("Adam", Op::kAdam, Adam::shapes) +
         optimizers<AdamOf<true>::Form>("AdamW", Op::kAdamW, Adam::shapes) +
         optimizers<RmspropForm>("Rmsprop", Op::kRmsprop, Rmsprop::shapes) +
         optimizers<AdagradForm>("Adagrad", Op::kAdagrad, Adagrad::shapes) +
         line<VerdictForm>("VerdictF32", Op::kVerdict, Verdict::shapes) +
         floats<AccumulateForm>("Accumulate", Op::kAccumulate, Accumulate::shapes);
}

}  // namespace fast::optimizer

}  // namespace nacre::inline NACRE_ISA
