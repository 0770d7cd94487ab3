// Counts of the parts of claim cuda_fake.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace nacre::test {

struct CudaTally {
  uint64_t cases = 0, threads_share = 0, runs = 0, steps = 0, faults = 0, failures = 0;
  uint64_t kernels = 0, products = 0, joined = 0, turned = 0;  // as a Device counts them
  uint64_t bytes_in = 0, bytes_out = 0, state_bytes = 0;       // of the last step of each network

  bool that(bool holds, const std::string& what) {
    if (!holds && ++failures <= 20) std::printf("FAIL %s\n", what.c_str());
    return holds;
  }
};

// Tries each entry of the reference on random cases, on the threads of the simulated device.
void try_kernels_on_threads(CudaTally& tally, int cases, uint64_t seed);

}  // namespace nacre::test
