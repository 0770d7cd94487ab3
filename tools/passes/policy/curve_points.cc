#include "tools/passes/policy/curve_points.h"

#include <cmath>

namespace nacre::tools {

// With s(i) = 2^16 sigmoid(i / 24), LiteRT's point i is s(i), plus half the amount by which the curve at i + 1/2
// exceeds the middle of the line from s(i) to s(i + 1). No interpolation starts from the last point.
std::vector<int32_t> sigmoid_points() {
  const auto s = [](double i) { return 65536 / (1 + std::exp(-i / 24)); };
  std::vector<int32_t> points;
  for (int i = 0; i < 255; ++i) {
    const double sag = s(i + 0.5) - (s(i) + s(i + 1)) / 2;
    points.push_back(int32_t(std::floor(s(i) + sag / 2 + 0.5)));
  }
  points.push_back(65535);
  return points;
}

}  // namespace nacre::tools
