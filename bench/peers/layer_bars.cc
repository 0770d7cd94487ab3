#include "bench/peers/layer_bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace nacre::bench {
namespace {

using Which = std::function<bool(const Row&)>;

constexpr double kFirstLevel = 40 << 10;  // bytes that fit in L1

// Checks that every row that `which` names reaches the bar. Names the row with the least value.
Bar each(const std::vector<Row>& rows, const std::string& what, const Which& which, double least,
         const std::function<double(const Row&)>& value) {
  const Row* worst = nullptr;
  int count = 0, met = 0;
  for (const Row& row : rows) {
    if (!which(row)) continue;
    ++count, met += value(row) >= least ? 1 : 0;
    if (worst == nullptr || value(row) < value(*worst)) worst = &row;
  }
  if (worst == nullptr) return {what + ": no row", false};
  return {fmt::format("{} >= {}: {} of {} rows; the least is {:.2f} of {} {}", what, least, met, count, value(*worst),
                      worst->type, worst->name),
          met == count};
}

double share(const Row& row) { return row.share; }
double upper(const Row& row) { return row.high; }
double middle(const Row& row) { return row.speed; }

Bar mean(const std::vector<Row>& rows, const std::string& what, const Which& which, double least) {
  double sum = 0;
  int count = 0;
  for (const Row& row : rows)
    if (which(row)) sum += std::log(row.speed), ++count;
  if (count == 0) return {what + ": no row", false};
  const double value = std::exp(sum / count);
  return {fmt::format("{} >= {}: geometric mean of {} rows {:.2f}", what, least, count, value), value >= least};
}

// Returns the bar for float8: its median speed, compared with our own bfloat16 of the same shape, must reach 0.9.
Bar float8_bar(const std::vector<Row>& rows) {
  std::vector<Row> pairs;
  for (const Row& row : rows) {
    if (row.type != "float8" || row.m < 128) continue;
    const auto same =
        std::ranges::find_if(rows, [&](const Row& r) { return r.type == "bfloat16" && r.name == row.name; });
    if (same == rows.end()) continue;
    pairs.push_back(row);
    pairs.back().speed = same->seconds / row.seconds;
  }
  return each(pairs, "M >= 128, float8, speed of our bfloat16", [](const Row&) { return true; }, 0.9, middle);
}

}  // namespace

std::vector<Bar> gemm_bars(const std::vector<Row>& rows) {
  std::vector<Bar> bars;
  for (const char* type : {"float32", "bfloat16", "int8"})
    bars.push_back(each(
        rows, fmt::format("M >= 128, {}, share of the roof", type),
        [=](const Row& r) { return r.type == type && r.m >= 128; }, 0.93, share));
  bars.push_back(float8_bar(rows));
  const auto small = [](const char* type) {
    return [=](const Row& r) { return r.type == type && r.name == "49x64x64"; };
  };
  bars.push_back(each(rows, "49x64x64, float32, speed of the best peer", small("float32"), 0.98, upper));
  bars.push_back(each(rows, "49x64x64, bfloat16, share of the roof", small("bfloat16"), 0.88, share));
  bars.push_back(each(rows, "49x64x64, int8, share of the roof", small("int8"), 0.73, share));
  bars.push_back(each(
      rows, "M = 1, weights beyond L1, share of the bandwidth",
      [](const Row& r) { return r.m == 1 && r.bytes > kFirstLevel; }, 0.8, share));
  bars.push_back(each(
      rows, "M = 1, weights in L1, speed of the best peer",
      [](const Row& r) { return r.m == 1 && r.bytes <= kFirstLevel && r.high > 0; }, 1.0, upper));
  bars.push_back(
      each(rows, "every shape, speed of the best peer", [](const Row& r) { return r.high > 0; }, 0.97, upper));
  return bars;
}

std::vector<Bar> convolution_bars(const std::vector<Row>& rows) {
  const auto int8 = [](const Row& r) { return r.type == "int8"; };
  return {each(
              rows, "float32, speed of the best peer", [](const Row& r) { return r.type == "float32"; }, 1.0, upper),
          mean(rows, "int8, speed of the best peer", int8, 1.2),
          each(
              rows, "int8 depthwise, speed of the best peer",
              [](const Row& r) { return r.type == "int8" && r.op == "depthwise_conv2d"; }, 2.0, upper)};
}

}  // namespace nacre::bench
