// Draws curves over one axis as SVG, for the trainings of `nacre tune`.
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
  std::string label = {};  // for screen readers, about the whole picture
  std::string x_name;
  std::vector<Curve> curves;  // at most 4
  bool percent = false;       // y is a share, shown in percent
};

std::string line_plot(const LinePlot& plot);

// The values of all curves at one x, "epoch 3: training 0.12, validation 0.2", and its position in the picture.
// page.js shows the one to which the reader points or moves with arrow keys.
struct LineReadout {
  std::string text;
  double place = 0;
};
std::vector<LineReadout> line_readouts(const LinePlot& plot);

// Returns the distance of axis marks: the smallest of 1, 2 and 5 times a power of ten that needs at most `most` steps
// for `range`.
double mark_step(double range, int most);

}  // namespace nacre::tools
