// Curves over one axis, as SVG: what `nacre tune` shows of a training.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace nacre::tools {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // a point that is not finite interrupts the line
};

struct LinePlot {
  std::string x_name;
  std::vector<Curve> curves;  // at most 4
  bool percent = false;       // y is a share, shown in percent
};

std::string line_plot(const LinePlot& plot);

// Distance of axis marks: the smallest of 1, 2 and 5 times a power of ten that needs at most `most` steps for `range`.
double mark_step(double range, int most);

}  // namespace nacre::tools
