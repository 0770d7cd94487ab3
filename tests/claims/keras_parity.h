// The parts of claim keras_parity that compare numbers.
#pragma once

#include "tests/claims/keras_tables.h"

namespace nacre::tools {

// Counts arrays that are equal to the bit, and all arrays that were compared.
struct Count {
  int equal = 0, total = 0;

  void note(bool same) {
    equal += same ? 1 : 0;
    ++total;
  }
  bool all() const { return total > 0 && equal == total; }
};

struct Int8Parity {
  int layers = 0;
  Count kernel, kernel_scale, x, x_scale, sums;
  int64_t outputs = 0, exact = 0, within = 0;  // elements of y: all, equal to the bit, at most 1 ulp away

  bool shown() const {
    return kernel.all() && kernel_scale.all() && x.all() && x_scale.all() && sums.all() && outputs > 0 &&
           within == outputs;
  }
};

// A change to an int8 layer that the comparison must see.
struct Int8Change {
  float kernel = 1, x = 1;  // factors of one element
};

// Runs each layer as a graph of one dense through apply_policy, fuse, plan, model file and engine. `policy` is its
// name.
Int8Parity compare_int8(const Json& table, const std::string& policy, const Int8Change& change = {});

// Compares the outputs of one policy with those of Keras on both backends, JAX and torch. If a sum is exact, Keras's
// output does not depend on the order of the terms. Such an output must equal that of both backends, or of one of
// them if the two differ.
struct RoundingParity {
  int layers = 0;
  int64_t exact = 0, other = 0;             // outputs whose sum is exact, and the others
  int64_t exact_different = 0;              // exact outputs that neither backend gives
  int64_t jax_alone = 0, torch_alone = 0;   // exact outputs that only one backend gives
  int64_t other_different = 0, beyond = 0;  // other outputs that neither gives; and beyond the bound
  double worst = 0;                         // largest distance from the nearer backend; 1: the bound

  // Counts an output. Distances are in units of the most that another order of the terms can change.
  void note(bool is_exact, double from_jax, double from_torch) {
    const double nearer = from_jax < from_torch ? from_jax : from_torch;
    (is_exact ? exact : other) += 1;
    if (is_exact) {
      exact_different += nearer > 0 ? 1 : 0;
      jax_alone += from_jax == 0 && from_torch > 0 ? 1 : 0;
      torch_alone += from_torch == 0 && from_jax > 0 ? 1 : 0;
    } else {
      other_different += nearer > 0 ? 1 : 0;
      beyond += nearer > 1 ? 1 : 0;
    }
    worst = nearer > worst ? nearer : worst;
  }
  bool shown() const { return exact >= 2000 && exact_different == 0 && beyond == 0; }
};

// Compares policy `keras` of the table with `policy`, its name here. nacre_policy returns the policy that reproduces
// it.
RoundingParity compare_rounding(const Json& table, const std::string& keras, const std::string& policy);
std::string nacre_policy(const std::string& keras);

struct Float8Parity {
  int layers = 0, steps = 0;
  Count states, quantized;  // per step: four variables; quantized and dequantized x and kernel
  int64_t outputs = 0, within = 0;
  double worst = 0;             // largest |y - Keras's| over 4 eps sqrt(K) sum |terms|
  int guarded = 0, scales = 0;  // scales that the guards of amax_history.h change; all scales

  bool shown() const { return states.all() && quantized.all() && outputs > 0 && within == outputs; }
};

struct Float8Change {
  bool transformer_engine = false;  // updates amaxes in that system's order
  bool plain_bias = false;          // does not round the bias through bfloat16
};

// Runs each layer's 50 steps with amax_history.h in Keras's order, and with the float8 quantize and dense kernels.
Float8Parity compare_float8(const Json& table, const Float8Change& change = {});

}  // namespace nacre::tools
