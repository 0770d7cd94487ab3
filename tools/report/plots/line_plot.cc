#include "tools/report/plots/line_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "tools/report/picture/style.h"
#include "tools/report/picture/svg.h"

namespace nacre::tools {
namespace {

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();

  void include(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Returns the range to draw, which contains more than one number.
  Range drawn() const {
    if (!(low <= high)) return {0, 1};
    if (low < high) return *this;
    const double half = low == 0 ? 0.5 : std::abs(low) / 2;
    return {low - half, high + half};
  }
  // Returns the range to draw for shares: never below 0 or above 1, even if widened.
  Range drawn_share() const {
    if (!(low <= high)) return {0, 1};
    const double half = low == high ? 0.05 : 0;
    return {std::max(std::min(low, 0.95) - half, std::min(low, 0.0)),
            std::min(std::max(high, 0.05) + half, std::max(high, 1.0))};
  }
};

class LinePlotter {
  static constexpr double kWidth = 440, kHeight = 290, kLeft = 62, kRight = 20, kTop = 34, kBottom = 46, kFont = 12;
  static constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;

 public:
  explicit LinePlotter(const LinePlot& plot) : plot_(plot), svg_(kWidth, kHeight, "", {plot.label, "img"}) {
    for (const Curve& curve : plot.curves)
      for (const auto& [x, y] : curve.points)
        if (std::isfinite(y)) x_.include(x), y_.include(y);
    x_ = x_.drawn();
    y_ = plot.percent ? y_.drawn_share() : y_.drawn();
    const double step = mark_step(y_.high - y_.low, 6);
    y_ = {std::floor(y_.low / step) * step, std::ceil(y_.high / step) * step};
  }

  std::string draw() {
    grid();
    for (size_t i = 0; i < plot_.curves.size(); ++i) curve(i);
    svg_.raw(fmt::format("<path class=\"line-cursor\" visibility=\"hidden\" d=\"M0 {}v{}\"/>", svg_number(kTop),
                         svg_number(kPlotHeight)));
    return svg_.finish();
  }

  std::vector<LineReadout> readouts() const {
    std::map<double, std::string> texts;
    for (const Curve& c : plot_.curves)
      for (const auto& [x, y] : c.points)
        if (std::isfinite(y)) texts[x] += fmt::format("{}{} {}", texts[x].empty() ? "" : ", ", c.name, y_text(y));
    std::vector<LineReadout> all;
    for (const auto& [x, text] : texts) all.push_back({fmt::format("{} {:.6g}: {}", plot_.x_name, x, text), across(x)});
    return all;
  }

 private:
  double across(double x) const { return kLeft + (x - x_.low) / (x_.high - x_.low) * kPlotWidth; }
  double down(double y) const { return kTop + (y_.high - y) / (y_.high - y_.low) * kPlotHeight; }
  std::string y_text(double y) const {
    return plot_.percent ? fmt::format("{:.6g} %", 100 * y) : fmt::format("{:.6g}", y);
  }

  // Draws the grid. Marks are whole multiples of the step, so no rounding error adds up in their texts. (-0) + 0.0 is
  // 0 without a sign.
  void grid() {
    const double y_step = mark_step(y_.high - y_.low, 6), x_step = std::max(1.0, mark_step(x_.high - x_.low, 8));
    for (double i = std::ceil(y_.low / y_step - 1e-9) + 0.0; i <= y_.high / y_step + 1e-9; ++i) {
      svg_.line(kLeft, down(i * y_step), kLeft + kPlotWidth, down(i * y_step), "line-grid");
      svg_.text(kLeft - 8, down(i * y_step) + 4, y_text(i * y_step), "line-text line-end");
    }
    for (double i = std::ceil(x_.low / x_step); i <= x_.high / x_step; ++i) {
      svg_.line(across(i * x_step), kTop, across(i * x_step), kTop + kPlotHeight, "line-grid");
      svg_.text(across(i * x_step), kHeight - kBottom + 18, fmt::format("{:.6g}", i * x_step), "line-text line-mid");
    }
    svg_.text(kLeft + kPlotWidth / 2, kHeight - 8, plot_.x_name, "line-text line-mid");
  }

  void curve(size_t index) {
    const Curve& c = plot_.curves[index];
    const std::string color = fmt::format("line-{}", index % 4);
    std::string data, dots;
    bool drawing = false;
    for (const auto& [x, y] : c.points) {
      if (!std::isfinite(y)) {
        drawing = false;
        continue;
      }
      const std::string at = svg_number(across(x)) + " " + svg_number(down(y));
      data += (drawing ? "L" : "M") + at;
      dots += "M" + at + "h0.1";
      drawing = true;
    }
    svg_.open_group(c.name);
    svg_.path(data, "line-curve " + color);
    svg_.close();
    if (c.points.size() <= kMostTitles) titles(c, color);
    else svg_.path(dots, "line-point " + color);
    svg_.path(fmt::format("M{} {}h18", svg_number(legend_), svg_number(kTop - 20)), "line-curve " + color);
    svg_.text(legend_ + 24, kTop - 16, c.name, "line-text");
    legend_ += 24 + text_width(c.name) * kFont * 1.08 + 22;
  }

  // Draws a dot for each point, which shows its numbers when pointed at.
  void titles(const Curve& c, const std::string& color) {
    for (const auto& [x, y] : c.points) {
      if (!std::isfinite(y)) continue;
      svg_.open_group(fmt::format("{}, {} {:.6g}: {}", c.name, plot_.x_name, x, y_text(y)));
      svg_.path(fmt::format("M{} {}h0.1", svg_number(across(x)), svg_number(down(y))), "line-point " + color);
      svg_.close();
    }
  }

  static constexpr size_t kMostTitles = 400;
  const LinePlot& plot_;
  Svg svg_;
  Range x_, y_;
  double legend_ = kLeft;  // left end of the next curve's entry above the plot
};

}  // namespace

double mark_step(double range, int most) {
  if (!(range > 0) || !std::isfinite(range)) return 1;
  const double least = range / most, power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * (1 - 1e-12)) return factor * power;
  return 10 * power;
}

std::string line_plot(const LinePlot& plot) { return LinePlotter(plot).draw(); }

std::vector<LineReadout> line_readouts(const LinePlot& plot) { return LinePlotter(plot).readouts(); }

}  // namespace nacre::tools
