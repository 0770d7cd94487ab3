// Inner loops of weight fits in float64, in which conversions spend seconds. Release builds compile float64_sums.cc at
// -O3 and the other tools at -O1. The order of additions is written out, so compilers give equal sums.
#pragma once

#include <array>
#include <cstdint>

namespace nacre::tools {

double dot(const double* a, const double* b, int64_t count);  // sum_i a_i b_i

// Returns the dot products of `a` with the four vectors at b, b + stride, b + 2 stride, b + 3 stride.
std::array<double, 4> four_dots(const double* a, const double* b, int64_t stride, int64_t count);

void add_scaled(double factor, const double* x, double* sum, int64_t count);  // sum_i += factor x_i

}  // namespace nacre::tools
