// Converts RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR of NHWC maps, with the arithmetic of LiteRT's reference kernels
// (reference/resize_bilinear.h, resize_nearest_neighbor.h). Per axis, in float32:
//
//   scale = in / out; with align_corners and out > 1, (in - 1) / (out - 1)
//   bilinear   at = i scale; with half_pixel_centers, (i + 1/2) scale - 1/2
//   nearest    floor(i scale); with half_pixel_centers, floor((i + 1/2) scale); with align_corners, rounded half away
//              from zero instead
//
// For int8 and int16 codes bilinear computes this in integers of 2^-10 each: scale = round(2^10 scale), at = i scale.
// With half_pixel_centers it adds scale / 2 - 2^9.
#include <algorithm>
#include <cmath>

#include "engine/ops/resize.h"
#include "tools/importers/shared/resize_tables.h"
#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {
namespace {

struct ResizedAxis {
  int64_t in, out;
  bool align_corners, half_pixel_centers;

  bool between_corners() const { return align_corners && out > 1; }
  float scale() const { return between_corners() ? float(in - 1) / float(out - 1) : float(in) / float(out); }
};

Taps lerp(int64_t low, int64_t high, double past) { return {{low, 1 - past}, {high, past}}; }

Taps linear_of_reals(const ResizedAxis& axis, int64_t i) {
  const float at = axis.half_pixel_centers ? (float(i) + 0.5f) * axis.scale() - 0.5f : float(i) * axis.scale();
  const int64_t low = std::max<int64_t>(int64_t(std::floor(at)), 0);
  return lerp(low, std::min(int64_t(std::ceil(at)), axis.in - 1), double(at - float(low)));
}

Taps linear_of_codes(const ResizedAxis& axis, int64_t i) {
  constexpr int64_t kOne = 1 << Resize::kFraction;
  const int64_t from = axis.between_corners() ? axis.in - 1 : axis.in,
                to = axis.between_corners() ? axis.out - 1 : axis.out;
  const int64_t scale = (kOne * from + to / 2) / to;
  const int64_t at = axis.half_pixel_centers ? i * scale + scale / 2 - kOne / 2 : i * scale;
  const int64_t low = std::max<int64_t>(at / kOne, 0), high = std::min((at + kOne - 1) / kOne, axis.in - 1);
  return lerp(low, high, double(at - kOne * low) / double(kOne));
}

Taps nearest_pixel(const ResizedAxis& axis, int64_t i) {
  const float at = (float(i) + (axis.half_pixel_centers ? 0.5f : 0.0f)) * axis.scale();
  return {{int64_t(axis.align_corners ? std::round(at) : std::floor(at)), 1}};
}

using TapsOf = Taps (*)(const ResizedAxis& axis, int64_t i);
ResizeTable axis_table(const ResizedAxis& axis, TapsOf taps_of) {
  std::vector<Taps> outputs;
  for (int64_t i = 0; i < axis.out; ++i) outputs.push_back(taps_of(axis, i));
  return table_of(outputs, axis.in);
}

template <class Options>
void convert_resize(Importer& importer, Operation& op, TapsOf taps_of) {
  const auto& options = importer.options<Options>(op);
  const ValueId x = importer.real_input(op, 0);
  const std::vector<int64_t> dims = importer.value(x).dims, size = importer.integers(op, 1);
  if (dims.size() != 4) importer.bad(op, "its input has " + std::to_string(dims.size()) + " axes, not 4");
  if (size.size() != 2) importer.bad(op, "its size is not a height and a width");
  if (options.align_corners() && options.half_pixel_centers())
    importer.bad(op, "has both align_corners and half_pixel_centers");
  ResizeTable tables[2];
  for (size_t i = 0; i < 2; ++i) {
    if (size[i] < 1 || size[i] > kMostResized) importer.unsupported(op, "a size of " + std::to_string(size[i]));
    tables[i] = axis_table({dims[i + 1], size[i], options.align_corners(), options.half_pixel_centers()}, taps_of);
  }
  Node node;
  node.name = importer.value(importer.output(op)).name;
  node = resize_step(importer.graph(), std::move(node), x, tables[0], tables[1]);
  node.outputs = {importer.output(op)};
  importer.emit(op, std::move(node));
}

void convert_bilinear(Importer& importer, Operation& op) {
  const std::optional<Quantizer>& q = importer.value(importer.real_input(op, 0)).quantizer;
  const bool codes = q && q->codes != ElementType::kUint8;
  convert_resize<ResizeBilinearOptions>(importer, op, codes ? &linear_of_codes : &linear_of_reals);
}

void convert_nearest(Importer& importer, Operation& op) {
  convert_resize<ResizeNearestNeighborOptions>(importer, op, &nearest_pixel);
}

}  // namespace

std::span<const Converter> resize_converters() {
  static constexpr Converter kRows[] = {
      {BuiltinOperator::RESIZE_BILINEAR, &convert_bilinear},
      {BuiltinOperator::RESIZE_NEAREST_NEIGHBOR, &convert_nearest},
  };
  return kRows;
}

}  // namespace nacre::tools::tflite
