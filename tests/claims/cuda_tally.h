// Shared parts of the claims about a real GPU, through the CUDA port. A claim runs once with the port's own kernels
// and once with products by cuBLASLt, and counts checks. Without a GPU it is NOT SHOWN, with the port's sentence.
//
// The bound on the error of a number of float type T is a sum:
//
//   rounding   one unit of T's last place, because the exact result may lie between two numbers of T
//   share      a share of the largest magnitude of the tensor. Own kernels: 32 2^-24, because CUDA's functions are
//              within 2 ulp and the host's within 1. Steps with cuBLASLt, which sums in its own order: 1e-5. Steps of
//              float8 codes, whose sums have fewer bits on Tensor Cores, and whole models with cuBLASLt: 4e-3. For
//              float64 each share is multiplied by 2^-29.
//   product    for a product of k terms by cuBLASLt, (k / 8 + 2) 2^-22 of k times the largest magnitudes of both
//              factors. A Tensor Core adds eight products and more at a time, and cuts each at the last place of the
//              largest.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "tests/claims/cuda_models.h"

namespace nacre::test {

inline constexpr double kOwnShare = 32 * 0x1p-24, kProductShare = 1e-5, kFloat8Share = 4e-3;

struct Tally {
  uint64_t cases = 0, elements = 0, exact = 0, models = 0, failures = 0, products = 0;
  double share = kOwnShare;              // share of the largest magnitude of a tensor
  double besides = 0;                    // a further error that a number may have
  double least_unit = 0;                 // the last place of a type that a float32 result was rounded to
  double beyond = 0;                     // worst error of the last within(), as a multiple of its bound
  double found = 0, wanted = 0;          // the number with that error
  std::map<std::string, uint64_t> told;  // how often each sentence failed

  bool that(bool holds, const std::string& what) {
    if (holds) return true;
    ++failures;
    if (++told[what] == 1) std::printf("FAIL %s\n", what.c_str());
    return false;
  }
  bool within_bounds(bool holds, const std::string& what) {
    const bool first = !told.contains(what);
    if (that(holds, what)) return true;
    if (first) std::printf("     %.9g, not %.9g: %.3g times the bound away\n", found, wanted, beyond);
    return false;
  }
  void print_repeated() const {
    for (const auto& [what, times] : told)
      if (times > 1) std::printf("FAIL %s: %llu times\n", what.c_str(), static_cast<unsigned long long>(times));
  }
};

// Returns 2^-(bits of the significand after its first); 0 for integers.
double unit_of(ElementType type);
double largest_of(const Array& array);  // the largest finite magnitude
// Returns whether all numbers are within the bounds of the tally, and counts them.
bool within(const Array& got, const Array& want, Tally& tally);

// Runs the claim on both kinds of device and prints its line. Passes on the arguments after "simulated", if that is
// the first argument. Returns the claim's exit status.
using RunOnGpu = std::function<void(Tally&, cuda::Device&, int count, char** arguments)>;
int on_gpu(const char* claim, int count, char** arguments, const RunOnGpu& run);

}  // namespace nacre::test
