// The kernels of the simulated device, by name, and how threads run them.
#pragma once

#include "ports/cuda/step_image.h"
#include "ports/fake/fake_driver.h"

namespace nacre::fake {

// "nacre_kDenseF32"; null: there is none of this name.
const cuda::SimulatedKernel* simulated_kernel(const char* name);

// Threads of one kernel, one after another; how many ran.
uint32_t run_threads(const cuda::SimulatedKernel& kernel, const void* image, uint32_t most, Simulation& simulation);

}  // namespace nacre::fake
