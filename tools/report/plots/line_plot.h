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
  std::string label = {};  // of the whole picture, for screen readers
  std::string x_name;
  std::vector<Curve> curves;  // at most 4
  bool percent = false;       // y is a share, shown in percent
};

std::string line_plot(const LinePlot& plot);

// For every x at which a curve has a point, what they all say there, "epoch 3: training 0.12, validation 0.2", and its
// place in the picture: page.js shows one where the reader points or moves with arrow keys.
struct LineReadout {
  std::string text;
  double place = 0;
};
std::vector<LineReadout> line_readouts(const LinePlot& plot);

// Distance of axis marks: the smallest of 1, 2 and 5 times a power of ten that needs at most `most` steps for `range`.
double mark_step(double range, int most);

}  // namespace nacre::tools
