// The kernels of the simulated device by name, and the function that runs their threads.
#pragma once

#include <string>

#include "ports/cuda/step_image.h"
#include "tests/fake/fake_driver.h"

namespace nacre::fake {

// Returns the kernel with this name, such as "nacre_kDenseF32", or null.
const cuda::SimulatedKernel* simulated_kernel(const char* name);
// For a name such as "nacre_kAdamF32Many" returns the kernel that it runs for each step, or null if there is none.
const cuda::SimulatedKernel* simulated_kernel_of_many(const std::string& name);

// Runs the threads of one kernel one after another. Returns how many ran.
uint32_t run_threads(const cuda::SimulatedKernel& kernel, const void* image, uint32_t most, Simulation& simulation);

}  // namespace nacre::fake
