// NACRE_DEFINE_ENTRIES of the device (kernels/define_entries.h): nvcc compiles the reference's sources with it, and
// each entry becomes a __global__ function nacre_<name>, whose grid's threads share its loops (ops/independent.h).
#pragma once

#include "ports/cuda/step_image.h"

#define NACRE_ENTRY(name, op, rounding, in_place, type, rule, ...)                                                    \
  extern "C" __global__ void __launch_bounds__(cuda::kBlockThreads) nacre_##name(                                     \
      const __grid_constant__ cuda::StepImage<cuda::image_operands(Adapter<type, &type::__VA_ARGS__>::kOperands,      \
                                                                   Adapter<type, &type::__VA_ARGS__>::kOperandCount)> \
          image) {                                                                                                    \
    cuda::run_image<Adapter<type, &type::__VA_ARGS__>>(image);                                                        \
  }
