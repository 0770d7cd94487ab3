// Draws points with names over two axes as SVG: the costs of models and how good they are. Less of x is better.
// Points that no other point beats in both are the Pareto front: filled and joined by a line. Other points are hollow
// squares.
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace nacre::tools {

struct ScatterPoint {
  std::string name;
  double x = 0, y = 0;     // a point that is not finite is not drawn
  std::string title = {};  // shown when pointed at
};

inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

struct ScatterPlot {
  std::string label = {};  // describes the whole picture
  std::string x_name, y_name;
  bool percent = false;  // y is a share, shown in percent
  bool higher_is_better = true;
  double y_least = -kUnbounded, y_most = kUnbounded;  // possible values of y: the axis ends there
  std::vector<ScatterPoint> points;
};

std::vector<bool> pareto_points(const ScatterPlot& plot);

std::string scatter_plot(const ScatterPlot& plot);

}  // namespace nacre::tools
