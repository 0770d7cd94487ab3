#include "ports/cuda/cuda_port.h"

#ifdef NACRE_CUDA_MODULES
extern "C" const void* const nacre_cuda_modules[NACRE_CUDA_MODULES];
#endif

namespace nacre::cuda {

std::span<const void* const> modules() {
#ifdef NACRE_CUDA_MODULES
  return nacre_cuda_modules;
#else
  return {};
#endif
}

}  // namespace nacre::cuda
