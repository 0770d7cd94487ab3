// Draws the arena over time: every tensor that is no view of another is a rectangle, as wide as its bytes and as high
// as the steps during which it lives.
#pragma once

#include <vector>

#include "tools/evaluate/program_report.h"
#include "tools/report/picture/svg.h"

namespace nacre::tools {

inline constexpr double kMemoryPanelWidth = 420;

struct Band {  // the band of a step, in pixels from the top
  double top, height;
};

// Draws all banks side by side, from `x` to x + kMemoryPanelWidth, one band per step.
void draw_memory(Svg& svg, const ProgramReport& report, const std::vector<Band>& bands, double x);

}  // namespace nacre::tools
