// NACRE_THREADS names this file for the device (ops/independent.h): threads of a 1-dimensional grid; a team is a block.
#pragma once

#include <cstdint>

namespace nacre::cuda {

// These functions are __host__ too, because the constexpr functions that call them are both.
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

// Joins a sum or a maximum over the threads of a block: within each warp by shuffles, then over the warps in order.
struct Sum {
  template <class A>
  __host__ __device__ static A of(A a, A b) {
    return a + b;
  }
};
struct Max {
  template <class A>
  __host__ __device__ static A of(A a, A b) {
    return b > a ? b : a;
  }
};
template <class Op, class A>
__host__ __device__ inline A over_team(A v) {
#ifdef __CUDA_ARCH__
  constexpr unsigned kAll = 0xffffffffu, kWarp = 32, kMostWarps = 32;
  __shared__ A of_warps[kMostWarps];
  for (unsigned distance = kWarp / 2; distance > 0; distance /= 2) v = Op::of(v, __shfl_xor_sync(kAll, v, distance));
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = v;
  __syncthreads();
  A all = of_warps[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) all = Op::of(all, of_warps[warp]);
  __syncthreads();  // waits before the next call writes to of_warps
  return all;
#else
  return v;
#endif
}
__host__ __device__ inline uint32_t block_index() {
#ifdef __CUDA_ARCH__
  return blockIdx.x;
#else
  return 0;
#endif
}
__host__ __device__ inline uint32_t block_count() {
#ifdef __CUDA_ARCH__
  return gridDim.x;
#else
  return 1;
#endif
}
__host__ __device__ inline uint32_t index_in_block() {
#ifdef __CUDA_ARCH__
  return threadIdx.x;
#else
  return 0;
#endif
}
__host__ __device__ inline uint32_t block_size() {
#ifdef __CUDA_ARCH__
  return blockDim.x;
#else
  return 1;
#endif
}

}  // namespace nacre::cuda

#define NACRE_TEAM {::nacre::cuda::block_index(), ::nacre::cuda::block_count()}
#define NACRE_IN_TEAM {::nacre::cuda::index_in_block(), ::nacre::cuda::block_size()}
#define NACRE_TEAM_SUM(v) ::nacre::cuda::over_team<::nacre::cuda::Sum>(v)
#define NACRE_TEAM_MAX(v) ::nacre::cuda::over_team<::nacre::cuda::Max>(v)
#define NACRE_THREAD {::nacre::cuda::thread_index(), ::nacre::cuda::thread_count()}
#define NACRE_RAISE(at, v) ::nacre::cuda::raise_atomically(at, v)
