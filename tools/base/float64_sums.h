// The inner loops of fits in float64, in which conversions spend seconds: compiled at -O3, whatever the tools are. The
// order of the additions is written out, so the sums are the same from every compiler.
#pragma once

#include <array>
#include <cstdint>

namespace nacre::tools {

double dot(const double* a, const double* b, int64_t count);  // sum_i a_i b_i

// With each of four vectors, at b, b + stride, ..
std::array<double, 4> four_dots(const double* a, const double* b, int64_t stride, int64_t count);

void add_scaled(double factor, const double* x, double* sum, int64_t count);  // sum_i += factor x_i

}  // namespace nacre::tools
