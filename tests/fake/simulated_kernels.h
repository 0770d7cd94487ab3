// The kernels of the simulated device, by name, and how threads run them.
#pragma once

#include <string>

#include "ports/cuda/step_image.h"
#include "tests/fake/fake_driver.h"

namespace nacre::fake {

// "nacre_kDenseF32"; null: there is none of this name.
const cuda::SimulatedKernel* simulated_kernel(const char* name);
// "nacre_kAdamF32Many": what it runs for each step. null: it runs none for many.
const cuda::SimulatedKernel* simulated_kernel_of_many(const std::string& name);

// Threads of one kernel, one after another; how many ran.
uint32_t run_threads(const cuda::SimulatedKernel& kernel, const void* image, uint32_t most, Simulation& simulation);

}  // namespace nacre::fake
