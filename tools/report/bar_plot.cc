#include "tools/report/bar_plot.h"

#include <algorithm>

#include "tools/report/picture_style.h"
#include "tools/report/svg.h"

namespace nacre::tools {
namespace {

constexpr double kRow = 20, kBar = 13, kNames = 300, kBarWidth = 560, kValues = 110, kFont = 12;

// currentColor: the page's ink, in light and in dark.
constexpr const char* kBarStyle =
    "text.bar-text { font: 12px Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif; fill: currentColor }\n"
    ".bar-name { text-anchor: end }\n"
    ".bar-box { fill: #5a8bc6 }\n"
    ".bar-back { fill: currentColor; fill-opacity: 0.07 }\n";

}  // namespace

std::string bar_plot(const std::vector<Bar>& bars) {
  Svg svg(kNames + kBarWidth + kValues, kRow * double(bars.size()) + 6, kBarStyle);
  double y = 3;
  for (const Bar& bar : bars) {
    const double baseline = y + kBar - 2.5;
    svg.open_group(bar.title);
    svg.text(kNames - 8, baseline, fit(bar.name, kNames - 12, kFont), "bar-text bar-name");
    svg.rectangle({kNames, y, kBarWidth, kBar}, "bar-back", 2);
    svg.rectangle({kNames, y, kBarWidth * std::clamp(bar.length, 0.0, 1.0), kBar}, "bar-box", 2);
    svg.text(kNames + kBarWidth + 8, baseline, bar.value, "bar-text");
    svg.close();
    y += kRow;
  }
  return svg.finish();
}

}  // namespace nacre::tools
