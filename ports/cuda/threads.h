// NACRE_THREADS of the device (ops/independent.h): the threads of a grid of one dimension.
#pragma once

#include <cstdint>

namespace nacre::cuda {

// __host__ too: what calls them are constexpr functions, which are of both.
__host__ __device__ inline uint32_t thread_index() {
#ifdef __CUDA_ARCH__
  return blockIdx.x * blockDim.x + threadIdx.x;
#else
  return 0;
#endif
}
__host__ __device__ inline uint32_t thread_count() {
#ifdef __CUDA_ARCH__
  return gridDim.x * blockDim.x;
#else
  return 1;
#endif
}
__host__ __device__ inline void raise_atomically([[maybe_unused]] uint32_t* at, [[maybe_unused]] uint32_t v) {
#ifdef __CUDA_ARCH__
  atomicMax(at, v);
#endif
}

}  // namespace nacre::cuda

#define NACRE_THREAD \
  { ::nacre::cuda::thread_index(), ::nacre::cuda::thread_count() }
#define NACRE_RAISE(at, v) ::nacre::cuda::raise_atomically(at, v)
