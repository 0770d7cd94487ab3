// Bars from left to right, one per row, as SVG: names on the left, values on the right.
#pragma once

#include <string>
#include <vector>

namespace nacre::tools {

struct Bar {
  std::string name, value;  // as they are shown
  double length = 0;        // share of the full width, clamped to [0, 1]
  std::string title = {};   // when pointed at
};

std::string bar_plot(const std::vector<Bar>& bars);

}  // namespace nacre::tools
