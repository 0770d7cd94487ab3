#include "tools/base/float64_sums.h"

namespace nacre::tools {

// Keeps eight partial sums, because each addition to one sum waits for the addition before it.
double dot(const double* a, const double* b, int64_t count) {
  constexpr int64_t kSums = 8;
  double sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums)
    for (int64_t lane = 0; lane < kSums; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (; i < count; ++i) sums[0] += a[i] * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// Keeps two partial sums a row: the eight sums do not wait for one another, and `a` is read once.
std::array<double, 4> four_dots(const double* a, const double* b, int64_t stride, int64_t count) {
  const double *b0 = b, *b1 = b + stride, *b2 = b + 2 * stride, *b3 = b + 3 * stride;
  double s0[2] = {}, s1[2] = {}, s2[2] = {}, s3[2] = {};
  int64_t i = 0;
  for (; i + 2 <= count; i += 2)
    for (int64_t lane = 0; lane < 2; ++lane) {
      const double v = a[i + lane];
      s0[lane] += v * b0[i + lane];
      s1[lane] += v * b1[i + lane];
      s2[lane] += v * b2[i + lane];
      s3[lane] += v * b3[i + lane];
    }
  if (i < count) s0[0] += a[i] * b0[i], s1[0] += a[i] * b1[i], s2[0] += a[i] * b2[i], s3[0] += a[i] * b3[i];
  return {s0[0] + s0[1], s1[0] + s1[1], s2[0] + s2[1], s3[0] + s3[1]};
}

void add_scaled(double factor, const double* x, double* sum, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sum[i] += factor * x[i];
}

}  // namespace nacre::tools
