// Draws random numbers, uniform in [0, 1).
//
//   x [..] gives the shape; its numbers are not read   run int32 [1]   y [..] of x's type
//
//   y_e = (word e mod 4 of philox({e div 4, layer, run, 0}, {seed low, seed high}) div 2^(32 - d)) 2^-d
//
// d is the number of bits of y's significand, at most 32 (8 in bfloat16, 11 in float16, 24 in float32). So every y is
// one of 2^d numbers at equal distances, and none rounds to 1. y is a function of seed, layer, run and element:
// neither the order of elements nor the number of workers changes it. `run` may be a tensor of the stream region that
// each run counts up (store.h). Then every run draws other numbers, and after a reset the first ones are drawn again.
#pragma once

#include <limits>
#include <type_traits>

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/numeric/philox.h"
#include "engine/numeric/small_float.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

struct RandomUniform {  // the op random
  int elements;
  PhiloxKey seed;
  uint32_t layer;

  enum Word { kSeed = 0, kLayer = 2 };

  static constexpr RandomUniform from(const Words& words, const Operands& operands) {
    return {.elements = operands[0].elements(), .seed = {words[kSeed], words[kSeed + 1]}, .layer = words[kLayer]};
  }

  template <class T>
  constexpr void forward(const T*, const int32_t* run, T* y) const {
    using A = typename Element<T>::Accumulator;
    constexpr int kBits = significand_bits<T>() < 32 ? significand_bits<T>() : 32;
    constexpr A kUnit = A(1) / A(uint64_t{1} << kBits);
    for (int block : independent((elements - 1) / 4 + 1)) {
      const PhiloxCounter word = philox({uint32_t(block), layer, uint32_t(*run), 0}, seed);
      for (int e = block * 4, i = 0; i < 4 && e < elements; ++e, ++i)
        y[e] = T(A(word[size_t(i)] >> (32 - kBits)) * kUnit);
    }
  }

  static constexpr Code shapes(const Words&, const Operands& operands, Dims* y) {
    if (!is(operands, 1, 1)) return Code::kShapeInput;
    *y = dims_of(operands[0]);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"seed", Coding::kInteger, 2}, {"layer"}};
  static constexpr const char* kInputs[] = {"x", "run"};
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr Gradient kGradients[] = {{.of = {}, .by = Op::kNone, .reads = {}}};  // none, since x is not read

 private:
  template <class T>
  static constexpr int significand_bits() {
    if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::digits;
    else return T::kMantissaBits + 1;
  }
};

inline constexpr OpRule kRandomRule = {.op = Op::kRandom,
                                       .name = "random",
                                       .numerics = Numerics::kPointwise,
                                       .shapes = &RandomUniform::shapes,
                                       .attributes = RandomUniform::kAttributes,
                                       .inputs = RandomUniform::kInputs,
                                       .outputs = RandomUniform::kOutputs,
                                       .gradients = RandomUniform::kGradients};

}  // namespace nacre::inline NACRE_ISA
