// Dropout sets each element to 0 with probability `rate`. It scales the others so that the expectation does not
// change. Srivastava et al. 2014, JMLR 15, section 4, with the scale in training ("inverted dropout"), as in PyTorch
// and Keras.
//
//   x, y [..]   random uint32 [4] = {seed low, seed high, step, micro-batch}
//
//   y_e = x_e / (1 - rate) where u_e >= rate, else 0
//   u_e = word e mod 4 of philox({e div 4, layer, step, micro-batch}, {seed low, seed high}) 2^-32
//
// So u is a function of seed, step, micro-batch, layer and element. The gradient is dropout of dy with the same
// operands, because y is linear in x. It computes the mask again, so no mask is stored. Inference has no such step,
// because dropout is then the identity.
#pragma once

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/numeric/philox.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

struct Dropout {
  int elements;
  float rate;
  uint32_t layer;

  enum Word { kRate = 0, kLayer = 1 };

  static constexpr Dropout from(const Words& words, const Operands& operands) {
    return {.elements = operands[0].elements(), .rate = words.real(kRate), .layer = words[kLayer]};
  }

  template <class T>
  constexpr void forward(const T* x, const uint32_t* random, T* y) const {
    using A = typename Element<T>::Accumulator;
    const auto dropped = uint32_t(rate * 0x1p32f);  // rate 2^32 rounded down; below 2^32 because rate < 1
    const A kept = 1 - A(rate);
    for (int block : independent((elements - 1) / 4 + 1)) {
      const PhiloxCounter word = philox({uint32_t(block), layer, random[2], random[3]}, {random[0], random[1]});
      for (int e = block * 4, i = 0; i < 4 && e < elements; ++e, ++i)
        y[e] = word[size_t(i)] >= dropped ? T(A(x[e]) / kept) : T(A(0));
    }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    if (!is_finite(words[kRate]) || !(words.real(kRate) >= 0) || !(words.real(kRate) < 1)) return Code::kAttribute;
    if (operands.has(1) && !is(operands, 1, 4)) return Code::kShapeInput;
    *y = dims_of(operands[0]);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"rate", Coding::kReal}, {"layer"}};
  static constexpr const char* kInputs[] = {"x", "random?"};  // absent in a source network; no kernel runs without it
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr Gradient kGradients[] = {
      {.of = kOf<0>, .by = Op::kDropout, .reads = kReads<gradient_of(0), input_of(1)>}};
};

inline constexpr OpRule kDropoutRule = {.op = Op::kDropout,
                                        .name = "dropout",
                                        .numerics = Numerics::kPointwise,
                                        .shapes = &Dropout::shapes,
                                        .attributes = Dropout::kAttributes,
                                        .inputs = Dropout::kInputs,
                                        .outputs = Dropout::kOutputs,
                                        .gradients = Dropout::kGradients};

}  // namespace nacre::inline NACRE_ISA
