// Converts layers that spread the contrast of images: AutoContrast, ContrastLimitedAdaptiveHistogramEqualization.
//
// The second layer reads an image of 0 .. 255 in tiles of P pixels, and does per channel (limit is clip_limit):
//
//   h_k = the pixels of the tile with floor(x) = k                    histogram
//   g_k = min(h_k, limit P / 256) + sum_j max(h_j - limit P / 256, 0) / 256
//   c_k = sum_{j <= k} g_j,   m_k = 255 (c_k - min c) / (P - min c)   map of the tile, within 0 .. 255
//   y   = the maps of the four nearest tiles (by their middles), at floor(x), interpolated
//
// A pixel needs only the maps of its own tile and of the eight around it. Their weights depend only on its place in the
// tile:
//
//   onehot [tiles, P, 256]   maps [tiles, 9, 256]   y_p = sum_n weight_pn (onehot maps^T)_pn
#include <algorithm>
#include <cmath>

#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/select.h"
#include "engine/ops/unary.h"
#include "tools/base/product.h"
#include "tools/importers/keras/window.h"
#include "tools/importers/shared/resize_tables.h"

namespace nacre::tools::keras {
namespace {

constexpr int64_t kLevels = 256;

struct LevelRange {
  float low = 0, high = 255;
};

LevelRange value_range(const Call& call) {
  const Json* range = call.find("value_range");
  if (range == nullptr || range->size() != 2) return {};
  return {range->at(size_t(0)).get<float>(), range->at(size_t(1)).get<float>()};
}

// Stretches each channel of each image to the whole range of values. A channel of one value stays.
//
//   y = (x - min x) (high - low) / (max x - min x) + low
void convert_auto_contrast(Call& call) {
  const ValueId x = call.input();
  if (call.rank(x) != 4) call.bad("an input of shape " + dims_text(call.dims(x)));
  const auto [low, high] = value_range(call);
  const ValueId least = call.reduce(Reduce::kMin, x, {1, 2}, true), most = call.reduce(Reduce::kMax, x, {1, 2}, true);
  const ValueId width = call.emit(Op::kSub, {most, least}), from = call.emit(Op::kSub, {x, least});
  const ValueId stretched = call.scaled(call.binary(Binary::kDiv, from, width), high - low);
  const ValueId y = call.clamp(call.shifted(stretched, low), low, high);
  call.outputs = {call.select(call.compare(Compare::kGreater, width, call.number(0)), y, x)};
}

struct Tiles {
  int64_t rows, columns, height, width;  // number of tiles; size of a tile
  int64_t pixels() const { return height * width; }
};

// Returns x, extended by its mirror image below and to the right up to whole tiles.
ValueId with_mirror(const Call& call, ValueId x, const Tiles& t) {
  const auto table = [](int64_t in, int64_t out) {
    std::vector<Taps> outputs;
    for (int64_t i = 0; i < out; ++i) {
      const int64_t at = i % (2 * in);
      outputs.push_back({{at < in ? at : 2 * in - 1 - at, 1}});
    }
    return table_of(outputs, in);
  };
  const int64_t height = t.rows * t.height, width = t.columns * t.width;
  const std::vector<int64_t> d = call.dims(x);
  if (d[1] == height && d[2] == width) return x;
  return call.emit(
      resize_step(call.importer->graph(), call.step(Op::kResize, {}), x, table(d[1], height), table(d[2], width)));
}

// Returns the new value of each level in a tile: hot [tiles, P, 256] -> [tiles, 256].
ValueId maps_of(const Call& call, ValueId hot, const Tiles& t) {
  const auto pixels = float(t.pixels()), limit = call.real("clip_limit", 4) * pixels / float(kLevels);
  ValueId h = call.reduce(Reduce::kSum, hot, {1}, false);
  if (limit > 0) {
    const ValueId kept = call.clamp(h, 0, limit);
    const ValueId excess = call.reduce(Reduce::kSum, call.emit(Op::kSub, {h, kept}), {1}, true);
    h = call.emit(Op::kAdd, {kept, call.scaled(excess, 1 / float(kLevels))});
  }
  std::vector<float> up_to(size_t(kLevels * kLevels), 0);  // 1 in row k for levels up to k
  for (int64_t k = 0; k < kLevels; ++k)
    for (int64_t j = 0; j <= k; ++j) up_to[size_t(k * kLevels + j)] = 1;
  call.spend(kLevels * kLevels);
  const ValueId c = call.emit(Op::kDense, {h, call.constant("levels_up_to", {kLevels, kLevels}, up_to)});
  const ValueId least = call.reduce(Reduce::kMin, c, {1}, true);
  const ValueId all = call.emit(Op::kSub, {call.number(pixels), least});
  const ValueId divisor = call.select(call.compare(Compare::kEqual, all, call.number(0)), call.number(1), all);
  const ValueId above = call.scaled(call.emit(Op::kSub, {c, least}), 255);
  return call.clamp(call.binary(Binary::kDiv, above, divisor), 0, 255);
}

// Returns for each tile of `maps` [batch, rows, columns, c, 256] nine maps, its own and those around: [tiles, 9, 256].
ValueId around(const Call& call, ValueId maps, const Tiles& t) {
  for (const int axis : {1, 2}) {
    const int64_t size = call.dims(maps)[size_t(axis)];
    maps = call.concat({call.slice(maps, axis, 0, 1), maps, call.slice(maps, axis, size - 1, 1)}, axis);
  }
  std::vector<ValueId> nine;
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 3; ++j) {
      const ValueId one = call.slice(call.slice(maps, 1, i, t.rows), 2, j, t.columns);
      const std::vector<int64_t> d = call.dims(one);
      nine.push_back(call.reshape(one, {d[0] * d[1] * d[2] * d[3], 1, kLevels}));
    }
  return call.concat(nine, 1);
}

// Returns [P, 9]: the weights of the nine tiles for each pixel of a tile.
std::vector<float> weights_of_places(const Tiles& t) {
  const auto along = [](int64_t i, int64_t size) {
    const double at = double(i) / double(size), w = at < 0.5 ? at + 0.5 : at - 0.5;
    return at < 0.5 ? std::vector<double>{1 - w, w, 0} : std::vector<double>{0, 1 - w, w};
  };
  std::vector<float> all;
  for (int64_t i = 0; i < t.height; ++i)
    for (int64_t j = 0; j < t.width; ++j)
      for (const double a : along(i, t.height))
        for (const double b : along(j, t.width)) all.push_back(float(a * b));
  return all;
}

// Equalizes x [batch, h, w, c] of 0 .. 255.
ValueId equalized(const Call& call, ValueId x, const Tiles& t) {
  const std::vector<int64_t> d = call.dims(x);
  const ValueId whole = with_mirror(call, x, t);
  const ValueId apart =
      call.transpose(call.reshape(whole, {d[0], t.rows, t.height, t.columns, t.width, d[3]}), {0, 1, 3, 5, 2, 4});
  const int64_t tiles = d[0] * t.rows * t.columns * d[3];
  std::vector<float> levels;
  for (int64_t k = 0; k < kLevels; ++k) levels.push_back(float(k));
  const ValueId level = call.unary(Unary::kFloor, call.reshape(apart, {tiles, t.pixels(), 1}));
  const ValueId hot = call.cast(call.compare(Compare::kEqual, level, call.constant("levels", {kLevels}, levels)));
  const ValueId maps = call.reshape(maps_of(call, hot, t), {d[0], t.rows, t.columns, d[3], kLevels});
  Node node = call.step(Op::kBatchedMatmul, {hot, around(call, maps, t)});
  set_integer(node, "transpose_b", 1);
  const std::vector<float> weights = weights_of_places(t);
  call.spend(int64_t(weights.size()));
  const ValueId met =
      call.emit(Op::kMul, {call.emit(std::move(node)), call.constant("places", {t.pixels(), 9}, weights)});
  ValueId y =
      call.reshape(call.reduce(Reduce::kSum, met, {2}, false), {d[0], t.rows, t.columns, d[3], t.height, t.width});
  y = call.reshape(call.transpose(y, {0, 1, 4, 2, 5, 3}), call.dims(whole));
  return call.slice(call.slice(y, 1, 0, d[1]), 2, 0, d[2]);
}

// Keras computes this layer in float32 under any policy, from inputs in the policy's type.
void convert_equalization(Call& call) {
  const ValueId x = call.input();
  const auto [low, high] = value_range(call);
  const std::vector<int64_t> d = call.dims(x), grid = call.integers("tile_grid_size", 2, 8);
  if (d.size() != 4) call.bad("an input of shape " + dims_text(d));
  if (grid[0] < 1 || grid[1] < 1 || grid[0] > kMostResized || grid[1] > kMostResized || !(low < high))
    call.bad("a grid or a range of values that is none");
  const Tiles t = {grid[0], grid[1], (d[1] + grid[0] - 1) / grid[0], (d[2] + grid[1] - 1) / grid[1]};
  if (product_of({{d[0], d[3], t.rows, t.columns, t.pixels()}}) > kMostSize / kLevels)
    call.unsupported("an image of so many pixels: each has a histogram of its own");
  const bool scaled = low != 0 || high != 255;
  const Json levels = {{"clip_limit", call.real("clip_limit", 4)}};
  Call part = call.part(call.class_name, "levels", levels, {});
  ValueId y = call.clamp(x, low, high);
  if (scaled) y = part.scaled(part.binary(Binary::kDiv, part.shifted(y, -low), part.number(high - low)), 255);
  y = equalized(part, y, t);
  if (scaled) y = part.shifted(part.scaled(part.binary(Binary::kDiv, y, part.number(255)), high - low), low);
  call.outputs = {call.clamp(y, low, high)};
}

constexpr Converter kContrastRows[] = {
    {"AutoContrast", &convert_auto_contrast},
    {"ContrastLimitedAdaptiveHistogramEqualization", &convert_equalization},
};

}  // namespace

std::span<const Converter> contrast_converters() { return kContrastRows; }

}  // namespace nacre::tools::keras
