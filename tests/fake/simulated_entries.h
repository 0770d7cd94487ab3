// NACRE_DEFINE_ENTRIES of the simulated device (kernels/define_entries.h): makes each entry a function that runs one
// thread of a step's image. ports/cuda/device_entries.h makes a __global__ function of it in the same way.
#pragma once

#include "ports/cuda/step_image.h"

#define NACRE_ENTRY(name, op, rounding, in_place, type, rule, ...)                              \
  extern const cuda::SimulatedKernel simulated_##name;                                          \
  const cuda::SimulatedKernel simulated_##name = {                                              \
      [](const void* image) {                                                                   \
        using A = Adapter<type, &type::__VA_ARGS__>;                                            \
        constexpr int kCount = cuda::image_operands(A::kOperands, A::kOperandCount);            \
        cuda::run_image<A>(*static_cast<const cuda::StepImage<kCount>*>(image));                \
      },                                                                                        \
      sizeof(cuda::StepImage<cuda::image_operands(Adapter<type, &type::__VA_ARGS__>::kOperands, \
                                                  Adapter<type, &type::__VA_ARGS__>::kOperandCount)>)};
