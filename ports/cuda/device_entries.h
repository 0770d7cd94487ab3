// Defines NACRE_DEFINE_ENTRIES for the device (kernels/define_entries.h). nvcc compiles the reference's sources with
// it. Each entry becomes a __global__ function nacre_<name>, and the threads of its grid share its loops
// (ops/independent.h). With NACRE_MANY there is also nacre_<name>Many. It runs one step for each row of blocks; the
// images of these steps lie in device memory.
#pragma once

#include "ports/cuda/step_image.h"

#ifdef NACRE_MANY
#define NACRE_ENTRY_OF_MANY(name, type, ...)                                                                   \
  extern "C" __global__ void __launch_bounds__(cuda::kBlockThreads) nacre_##name##Many(                        \
      const cuda::StepImage<cuda::image_operands(Adapter<type, &type::__VA_ARGS__>::kOperands,                 \
                                                 Adapter<type, &type::__VA_ARGS__>::kOperandCount)>* images) { \
    cuda::run_image<Adapter<type, &type::__VA_ARGS__>>(images[blockIdx.y]);                                    \
  }
#else
#define NACRE_ENTRY_OF_MANY(name, type, ...)
#endif

#define NACRE_ENTRY(name, op, rounding, in_place, type, rule, ...)                                                    \
  extern "C" __global__ void __launch_bounds__(cuda::kBlockThreads) nacre_##name(                                     \
      const __grid_constant__ cuda::StepImage<cuda::image_operands(Adapter<type, &type::__VA_ARGS__>::kOperands,      \
                                                                   Adapter<type, &type::__VA_ARGS__>::kOperandCount)> \
          image) {                                                                                                    \
    cuda::run_image<Adapter<type, &type::__VA_ARGS__>>(image);                                                        \
  }                                                                                                                   \
  NACRE_ENTRY_OF_MANY(name, type, __VA_ARGS__)
