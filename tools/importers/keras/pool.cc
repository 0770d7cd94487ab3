// Converts pools over windows of 1 or 2 axes, pools to a given output size, and global pools.
#include <algorithm>

#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "tools/importers/keras/window.h"
#include "tools/importers/shared/resize_tables.h"

namespace nacre::tools::keras {
namespace {

template <Op kOp, int kSpatial>
void convert_pool(Call& call) {
  const ValueId x = as_image(call, call.input(), kSpatial);
  const std::vector<int64_t> kernel = call.integers("pool_size", kSpatial, 2);
  const std::vector<int64_t> stride = call.given("strides") ? call.integers("strides", kSpatial, 2) : kernel;
  Node node = call.step(kOp, {x});
  set_window(call, node, call.dims(x),
             {kernel, stride, std::vector<int64_t>(kSpatial, 1), call.text("padding", "valid")});
  set_integer(node, "kernel_h", int(kSpatial == 1 ? 1 : kernel[0]));
  set_integer(node, "kernel_w", int(kernel.back()));
  call.outputs = {from_image(call, call.emit(std::move(node)), kSpatial)};
}

// Returns the mean over the steps of x [batch, time, c] at which the mask is true.
ValueId masked_mean(const Call& call, ValueId x, ValueId mask, bool keep) {
  const std::vector<int64_t> dims = call.dims(mask);
  const ValueId counts = call.reshape(mask, {dims[0], dims[1], 1});
  const ValueId sum = call.reduce(Reduce::kSum, call.select(counts, x, call.number(0)), {1}, keep);
  const ValueId count = call.reduce(Reduce::kSum, call.cast(counts), {1}, keep);
  return call.binary(Binary::kDiv, sum, count);
}

template <bool kMaximum>
void convert_global(Call& call) {
  const ValueId x = call.input(), mask = mask_of(call, 0, "mask");
  std::vector<int> axes;
  for (int i = 1; i + 1 < call.rank(x); ++i) axes.push_back(i);
  if (axes.empty()) call.bad("an input of shape " + dims_text(call.dims(x)));
  const bool keep = call.flag("keepdims", false);
  if (mask != kNone && axes.size() == 1 && call.rank(mask) != 2)
    call.bad("a mask of shape " + dims_text(call.dims(mask)));
  if (!kMaximum && mask != kNone && axes.size() == 1) call.outputs = {masked_mean(call, x, mask, keep)};
  else call.outputs = {kMaximum ? call.reduce(Reduce::kMax, x, axes, keep) : call.mean(x, axes, keep)};
}

// Window i of `out` windows over an axis of `in` elements: [floor(i in / out), ceil((i + 1) in / out)).
struct AdaptiveWindow {
  int64_t begin, size;
};
AdaptiveWindow adaptive_window(int64_t i, int64_t in, int64_t out) {
  const int64_t begin = i * in / out, end = ((i + 1) * in + out - 1) / out;
  return {begin, end - begin};
}

ResizeTable means(const Call& call, int64_t in, int64_t out) {
  std::vector<Taps> outputs;
  call.spend(out * (in / out + 2));
  for (int64_t i = 0; i < out; ++i) {
    const AdaptiveWindow w = adaptive_window(i, in, out);
    Taps taps;
    for (int64_t k = 0; k < w.size; ++k) taps.push_back({w.begin + k, 1.0 / double(w.size)});
    outputs.push_back(std::move(taps));
  }
  return table_of(outputs, in);
}

// Pools along one axis by the mean: a resize node whose weights are those of the windows.
ValueId adaptive_mean(const Call& call, ValueId x, int axis, int64_t out) {
  std::vector<int64_t> dims = call.dims(x);
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < int(dims.size()); ++i) (i < axis ? outer : inner) *= i == axis ? 1 : dims[size_t(i)];
  const int64_t in = dims[size_t(axis)];
  const ValueId lines = call.reshape(x, {outer, in, 1, inner});
  const ValueId y = call.emit(
      resize_step(call.importer->graph(), call.step(Op::kResize, {}), lines, means(call, in, out), identity_table(1)));
  dims[size_t(axis)] = out;
  return call.reshape(y, dims);
}

ValueId adaptive_maximum(const Call& call, ValueId x, int axis, int64_t out) {
  const int64_t in = call.dims(x)[size_t(axis)];
  std::vector<ValueId> parts;
  for (int64_t i = 0; i < out; ++i) {
    const AdaptiveWindow w = adaptive_window(i, in, out);
    parts.push_back(call.reduce(Reduce::kMax, call.slice(x, axis, w.begin, w.size), {axis}, true));
  }
  return call.concat(parts, axis);
}

template <bool kMaximum, int kSpatial>
void convert_adaptive(Call& call) {
  constexpr int64_t kMostOutputs = 1024;
  ValueId y = call.input();
  if (call.rank(y) != kSpatial + 2) call.bad("an input of shape " + dims_text(call.dims(y)));
  const std::vector<int64_t> sizes = call.integers("output_size", kSpatial, 1);
  for (int axis = 1; axis <= kSpatial; ++axis) {
    const int64_t out = sizes[size_t(axis - 1)];
    if (out < 1) call.bad("an output of size " + std::to_string(out));
    if (out > kMostOutputs) call.unsupported("an output of more than 1024 windows");
    y = kMaximum ? adaptive_maximum(call, y, axis, out) : adaptive_mean(call, y, axis, out);
  }
  call.outputs = {y};
}

constexpr Converter kPoolRows[] = {
    {"AveragePooling1D", &convert_pool<Op::kAveragePool, 1>},
    {"AveragePooling2D", &convert_pool<Op::kAveragePool, 2>},
    {"MaxPooling1D", &convert_pool<Op::kMaxPool, 1>},
    {"MaxPooling2D", &convert_pool<Op::kMaxPool, 2>},
    {"GlobalAveragePooling1D", &convert_global<false>},
    {"GlobalAveragePooling2D", &convert_global<false>},
    {"GlobalAveragePooling3D", &convert_global<false>},
    {"GlobalMaxPooling1D", &convert_global<true>},
    {"GlobalMaxPooling2D", &convert_global<true>},
    {"GlobalMaxPooling3D", &convert_global<true>},
    {"AdaptiveAveragePooling1D", &convert_adaptive<false, 1>},
    {"AdaptiveAveragePooling2D", &convert_adaptive<false, 2>},
    {"AdaptiveAveragePooling3D", &convert_adaptive<false, 3>},
    {"AdaptiveMaxPooling1D", &convert_adaptive<true, 1>},
    {"AdaptiveMaxPooling2D", &convert_adaptive<true, 2>},
    {"AdaptiveMaxPooling3D", &convert_adaptive<true, 3>},
};

}  // namespace

std::span<const Converter> pool_converters() { return kPoolRows; }

}  // namespace nacre::tools::keras
