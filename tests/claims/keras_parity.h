// The two halves of claim keras_parity that compare numbers.
#pragma once

#include "tests/claims/keras_tables.h"

namespace nacre::tools {

// Arrays that are equal to the bit, of all that were compared.
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

// What an int8 layer must not get away with: a change that the comparison has to see.
struct Int8Change {
  float kernel = 1, x = 1;  // factors of one element
};

// Each layer as a graph of one dense through apply_policy, fuse, plan, model file and engine. `policy` is its name.
Int8Parity compare_int8(const Json& table, const std::string& policy, const Int8Change& change = {});

struct Float8Parity {
  int layers = 0, steps = 0;
  Count states, quantized;  // of each step: four variables; x and kernel after quantize and dequantize
  int64_t outputs = 0, within = 0;
  double worst = 0;             // |y - Keras's| over 4 eps sqrt(K) sum |terms|
  int guarded = 0, scales = 0;  // scales that the guards of amax_history.h make another, of all scales

  bool shown() const { return states.all() && quantized.all() && outputs > 0 && within == outputs; }
};

struct Float8Change {
  bool transformer_engine = false;  // amaxes in that system's order
  bool plain_bias = false;          // not rounded through bfloat16
};

// Each layer's 50 steps: amax_history.h in Keras's order, and the float8 quantize and dense kernels.
Float8Parity compare_float8(const Json& table, const Float8Change& change = {});

}  // namespace nacre::tools
