#include "tools/report/plots/scatter_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tools/report/picture/style.h"
#include "tools/report/picture/svg.h"
#include "tools/report/plots/line_plot.h"

namespace nacre::tools {
namespace {

bool is_drawn(const ScatterPoint& p) { return std::isfinite(p.x) && std::isfinite(p.y); }

bool overlap(const Rectangle& a, const Rectangle& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

class ScatterPlotter {
  static constexpr double kWidth = 460, kHeight = 330, kLeft = 62, kRight = 18, kTop = 30, kBottom = 46, kFont = 12;
  static constexpr double kMostName = 170, kPoint = 5;

 public:
  explicit ScatterPlotter(const ScatterPlot& plot)
      : plot_(plot), front_(pareto_points(plot)), svg_(kWidth, kHeight, "", {plot.label, "img"}) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (const ScatterPoint& p : plot.points) {
      if (!is_drawn(p)) continue;
      x_high_ = std::max(x_high_, p.x);
      low = std::min(low, p.y);
      high = std::max(high, p.y);
    }
    if (!(low <= high)) low = 0, high = 1;
    x_step_ = mark_step(x_high_ > 0 ? x_high_ : 1, 5);
    x_high_ = std::max(1.0, std::ceil(x_high_ * 1.02 / x_step_)) * x_step_;
    const double room = low == high ? std::max(std::abs(low) * 0.02, 1e-6) : (high - low) * 0.12;
    y_step_ = mark_step(high - low + 2 * room, 5);
    y_low_ = std::max(plot.y_least, std::floor((low - room) / y_step_) * y_step_);
    y_high_ = std::min(plot.y_most, std::ceil((high + room) / y_step_) * y_step_);
  }

  std::string draw() {
    grid();
    join_front();
    for (const ScatterPoint& p : plot_.points)
      if (is_drawn(p))
        taken_.push_back({across(p.x) - kPoint - 1, down(p.y) - kPoint - 1, 2 * kPoint + 2, 2 * kPoint + 2});
    for (size_t i = 0; i < plot_.points.size(); ++i)
      if (is_drawn(plot_.points[i])) point(i);
    return svg_.finish();
  }

 private:
  double across(double x) const { return kLeft + x / x_high_ * (kWidth - kLeft - kRight); }
  double down(double y) const { return kTop + (y_high_ - y) / (y_high_ - y_low_) * (kHeight - kTop - kBottom); }

  void grid() {
    for (double i = std::ceil(y_low_ / y_step_ - 1e-9) + 0.0; i <= y_high_ / y_step_ + 1e-9; ++i) {
      const double y = i * y_step_;
      svg_.line(kLeft, down(y), kWidth - kRight, down(y), "line-grid");
      svg_.text(kLeft - 7, down(y) + 4, plot_.percent ? fmt::format("{:.6g} %", 100 * y) : fmt::format("{:.6g}", y),
                "line-text line-end");
    }
    for (double i = 0; i <= x_high_ / x_step_ + 1e-9; ++i) {
      const double x = i * x_step_;
      svg_.line(across(x), kTop, across(x), kHeight - kBottom, "line-grid");
      svg_.text(across(x), kHeight - kBottom + 17, x >= 1000 ? short_count(uint64_t(x)) : fmt::format("{:.6g}", x),
                "line-text line-mid");
    }
    svg_.text(kWidth - kRight, kHeight - 8, plot_.x_name + " (lower is better)", "line-text line-end");
    svg_.text(4, 16, plot_.y_name + (plot_.higher_is_better ? " (higher is better)" : " (lower is better)"),
              "line-text");
  }

  void join_front() {
    std::vector<size_t> order;
    for (size_t i = 0; i < front_.size(); ++i)
      if (front_[i]) order.push_back(i);
    std::ranges::sort(order, {}, [&](size_t i) { return plot_.points[i].x; });
    std::string data;
    for (const size_t i : order) {
      const std::string x = svg_number(across(plot_.points[i].x)), y = svg_number(down(plot_.points[i].y));
      data += data.empty() ? fmt::format("M{} {}", x, y) : fmt::format("H{}V{}", x, y);
    }
    if (order.size() > 1) svg_.path(data, "scatter-front");
  }

  // Draws a name beside its point, at the first of kPlaces where no other name or point is, else at the last.
  void name(const std::string& words, double x, double y, bool front) {
    constexpr struct {
      double x, y;
      int side;  // -1: the text ends there, 0: is centred there, 1: begins there
    } kPlaces[] = {{9, 4, 1},    {-9, 4, -1},  {0, -10, 0},  {0, 19, 0}, {9, -9, 1},   {9, 17, 1},
                   {-9, -9, -1}, {-9, 17, -1}, {0, -24, 0},  {0, 33, 0}, {14, -22, 1}, {14, 31, 1},
                   {0, -38, 0},  {0, 47, 0},   {14, -36, 1}, {14, 45, 1}};
    const double width = text_width(words) * kFont * (front ? 1.2 : 1.08);
    for (const auto& place : kPlaces) {
      const double from = x + place.x - (place.side > 0 ? 0 : place.side < 0 ? width : width / 2);
      const Rectangle box = {from - 3, y + place.y - kFont + 1, width + 6, kFont + 2};
      const bool inside = box.x >= kLeft + 1 && box.x + width <= kWidth - 2 && box.y >= kTop - 8 &&
                          box.y + box.height <= kHeight - kBottom;
      if (&place != std::end(kPlaces) - 1 &&
          (!inside || std::ranges::any_of(taken_, [&](const Rectangle& r) { return overlap(r, box); })))
        continue;
      if (std::abs(place.y) > 19) svg_.line(x, y, x + place.x, y + place.y + (place.y < 0 ? 3 : -kFont), "line-grid");
      svg_.text(from, y + place.y, words, front ? "line-text scatter-name" : "line-text");
      taken_.push_back(box);
      return;
    }
  }

  void point(size_t i) {
    const ScatterPoint& p = plot_.points[i];
    const double x = across(p.x), y = down(p.y);
    svg_.open_group(p.title);
    if (front_[i]) svg_.rectangle({x - kPoint, y - kPoint, 2 * kPoint, 2 * kPoint}, "scatter-point", kPoint);
    else svg_.rectangle({x - kPoint + 1, y - kPoint + 1, 2 * kPoint - 2, 2 * kPoint - 2}, "scatter-beaten");
    name(fit(p.name, kMostName, kFont), x, y, front_[i]);
    svg_.close();
  }

  const ScatterPlot& plot_;
  const std::vector<bool> front_;
  Svg svg_;
  double x_high_ = 0, x_step_ = 1, y_low_ = 0, y_high_ = 1, y_step_ = 1;
  std::vector<Rectangle> taken_;
};

}  // namespace

std::vector<bool> pareto_points(const ScatterPlot& plot) {
  const double sign = plot.higher_is_better ? 1 : -1;
  std::vector<bool> front;
  for (const ScatterPoint& p : plot.points) {
    const bool beaten = std::ranges::any_of(plot.points, [&](const ScatterPoint& other) {
      return is_drawn(other) && other.x <= p.x && sign * other.y >= sign * p.y &&
             (other.x < p.x || sign * other.y > sign * p.y);
    });
    front.push_back(is_drawn(p) && !beaten);
  }
  return front;
}

std::string scatter_plot(const ScatterPlot& plot) { return ScatterPlotter(plot).draw(); }

}  // namespace nacre::tools
