// Imports Conv, pools and ReduceMax: converts ONNX's windows into those of engine/ops/window.h.
//
//   out = floor or ceil((in + before + after - span) / stride) + 1,  span = (kernel - 1) dilation + 1   (per axis)
//
// 1-D windows run with height 1. The engine takes explicit pads that are smaller than the span. ceil_mode becomes a
// larger pad after. Larger pads become a Pad node, or are refused for an average that does not count its pads.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/import.h"

namespace nacre::tools::onnx_import {
namespace {

struct Axis {
  int64_t in = 1, kernel = 1, stride = 1, dilation = 1, before = 0, after = 0, out = 1;
  int64_t overhang = 0;  // ceil_mode adds it after the pads of the source
  int64_t span() const { return (kernel - 1) * dilation + 1; }
};

struct Window {
  Axis h, w;
};

constexpr int64_t kMaxAttribute = 1 << 14;  // kMaxWindow of engine/ops/parameters.h

void check_range(const Source& source, const char* what, int64_t value, int64_t low) {
  if (value < low || value >= kMaxAttribute)
    source.malformed(std::string(what) + " " + std::to_string(value) + " is out of range");
}

// Sets the pads of SAME_UPPER (`upper`) or SAME_LOWER. out = ceil(in / stride); an odd pad is `after`, else `before`.
void pad_same(Axis& axis, bool upper) {
  const int64_t out = (axis.in + axis.stride - 1) / axis.stride;
  const int64_t total = std::max<int64_t>(0, (out - 1) * axis.stride + axis.span() - axis.in);
  axis.before = upper ? total / 2 : total - total / 2;
  axis.after = total - axis.before;
}

// Sets `out`, `overhang`, and `after` to what the windows really reach. In ceil_mode a window that would start in the
// padding after x is dropped (onnx AveragePool-19, MaxPool-12, and PyTorch).
void fit(const Source& source, Axis& axis, bool ceil) {
  const int64_t room = axis.in + axis.before + axis.after - axis.span();
  if (room < 0 && (!ceil || room <= -axis.stride)) source.malformed("its window is larger than the padded input");
  axis.out = room / axis.stride + 1;  // in ceil_mode room may be negative: one window hangs over
  if (ceil && room > 0 && room % axis.stride != 0 && axis.out * axis.stride < axis.in + axis.before) ++axis.out;
  const int64_t reached = std::max<int64_t>(0, (axis.out - 1) * axis.stride + axis.span() - axis.in - axis.before);
  axis.overhang = std::max<int64_t>(0, reached - axis.after);
  axis.after = std::min(axis.after, reached);
}

// Reads the axes of an operand of rank 3 or 4 (source's order) from the attributes of Conv and of the pools.
Window read_window(const Source& source, const std::vector<int64_t>& dims, const std::vector<int64_t>& kernel,
                   bool ceil) {
  const size_t spatial = dims.size() - 2;
  const std::vector<int64_t> ones(spatial, 1), zeros(2 * spatial, 0);
  const std::vector<int64_t> strides = source.integers("strides", ones), dilations = source.integers("dilations", ones);
  const std::vector<int64_t> pads = source.integers("pads", zeros);
  const std::string automatic = source.text("auto_pad", "NOTSET");
  if (kernel.size() != spatial || strides.size() != spatial || dilations.size() != spatial ||
      pads.size() != 2 * spatial)
    source.malformed("kernel, strides, dilations and pads do not fit the rank of its input");
  if (automatic != "NOTSET" && automatic != "VALID" && automatic != "SAME_UPPER" && automatic != "SAME_LOWER")
    source.malformed("auto_pad '" + automatic + "' is unknown");
  Window window;
  for (size_t i = 0; i < spatial; ++i) {
    Axis& axis = i + 1 == spatial ? window.w : window.h;
    axis = {.in = dims[i + 2], .kernel = kernel[i], .stride = strides[i], .dilation = dilations[i]};
    check_range(source, "kernel size", axis.kernel, 1);
    check_range(source, "stride", axis.stride, 1);
    check_range(source, "dilation", axis.dilation, 1);
    if (automatic == "NOTSET") axis.before = pads[i], axis.after = pads[i + spatial];
    if (automatic.starts_with("SAME")) pad_same(axis, automatic == "SAME_UPPER");
    check_range(source, "pad", axis.before, 0);
    check_range(source, "pad", axis.after, 0);
    fit(source, axis, ceil);
  }
  return window;
}

const OperandPtr& image(const Source& source, const char* what) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  if (x->rank() != 3 && x->rank() != 4)
    source.refuse(std::string(what) + " over an input of rank " + std::to_string(x->rank()) +
                  ": 1, 2 or 3 spatial axes are supported");
  return x;
}

// Returns x as an NHWC image. An operand of rank 3 gets height 1.
ValueId as_image(Import& import, const OperandPtr& x) {
  const ValueId last = import.channels_last(x);
  if (x->rank() == 4) return last;
  const std::vector<int64_t> d = import.value(last).dims;
  return import.reshaped(last, {d[0], 1, d[1], d[2]}, x->name + "/2d");
}

void give_image(Import& import, int rank, ValueId y) {
  if (rank == 3) {
    const std::vector<int64_t> d = import.value(y).dims;
    y = import.reshaped(y, {d[0], d[2], d[3]}, import.output_name() + "/1d");
  }
  import.give_channels_last(0, y);
}

void set_window(Node& node, const Window& window) {
  set_integer(node, "stride_h", int(window.h.stride));
  set_integer(node, "stride_w", int(window.w.stride));
  set_integer(node, "dilation_h", int(window.h.dilation));
  set_integer(node, "dilation_w", int(window.w.dilation));
  set_integer(node, "pad_top", int(window.h.before));
  set_integer(node, "pad_left", int(window.w.before));
  set_integer(node, "pad_bottom", int(window.h.after + window.h.overhang));
  set_integer(node, "pad_right", int(window.w.after + window.w.overhang));
}

bool fits_engine(const Axis& axis) { return axis.before < axis.span() && axis.after + axis.overhang < axis.span(); }

// Returns x (NHWC) after a Pad node with the window's pads. The window keeps only the overhang of ceil_mode.
ValueId padded(Import& import, ValueId x, Window& window, float fill) {
  Node node = import.step(Op::kPad);
  set_integer(node, "before", int(window.h.before), 1);
  set_integer(node, "before", int(window.w.before), 2);
  set_integer(node, "after", int(window.h.after), 1);
  set_integer(node, "after", int(window.w.after), 2);
  set_real(node, "value", fill);
  node.inputs = {x};
  for (Axis* axis : {&window.h, &window.w}) {
    axis->in += axis->before + axis->after;
    axis->before = axis->after = 0;
  }
  return import.append(std::move(node), import.output_name() + "/pad");
}

// ---- Conv: x [n, c, h, w], w [out, c / group, kh, kw], b [out]

// Returns the weights as OHWI; depthwise weights [c m, 1, kh, kw] as [kh, kw, c m]. 1-D kernels get height 1.
ValueId conv_weights(Import& import, const OperandPtr& of, const Value& w, bool depthwise) {
  Value four = w;
  if (w.dims.size() == 3) {  // the axis of per-channel codes stays 0, before the added axis
    four.dims.insert(four.dims.begin() + 2, 1);
  }
  const std::vector<int> perm = depthwise ? std::vector<int>{2, 3, 1, 0} : std::vector<int>{0, 2, 3, 1};
  Value y = permuted(four, perm);
  if (depthwise) {
    y.dims = {y.dims[0], y.dims[1], y.dims[3]};
    if (y.quantizer && y.quantizer->scale.size() > 1) y.quantizer->axis = 2;
  }
  y.name = of->name;
  const Moves moves = {Move::reshape(four.dims), Move::transpose(perm), Move::reshape(y.dims)};
  return import.parameters().parameter(of, moves, std::move(y));
}

// Returns w if it is symmetric, else decoded, because the engine's integer kernels take symmetric weights. A layer
// with decoded weights computes in float32.
Value symmetric(Import& import, const Value& w) {
  const auto zero = [](int64_t z) { return z == 0; };
  if (!w.quantizer || std::all_of(w.quantizer->zero.begin(), w.quantizer->zero.end(), zero)) return w;
  import.log().add("weights with a zero point other than 0 are decoded to float32");
  return decoded(w);
}

constexpr int64_t kMostTaps = 64;  // most taps in a window that becomes one slice or product per tap

// Returns the elements of the padded x [n, c, h, w] that tap i, j of each window reads, [n, c, oh, ow].
Term tap_of(Formula& f, const Term& padded, const Window& window, int64_t i, int64_t j) {
  const Axis &h = window.h, &w = window.w;
  const int64_t top = i * h.dilation, left = j * w.dilation;
  const Term rows = f.slice(padded, 2, top, top + (h.out - 1) * h.stride + 1, h.stride);
  return f.slice(rows, 3, left, left + (w.out - 1) * w.stride + 1, w.stride);
}

// Imports a Conv with weights of run time, by one product of matrices for each tap, on images in the file's order
// [n, c, h, w]. g are groups, k output channels and c input channels of one group:
//
//   y [n, g, k, oh ow] = sum_ij w_ij [g, k, c] x_ij [n, g, c, oh ow],   x_ij the padded x from tap i, j on, in strides
void conv_at_run_time(Import& import, const Source& source) {
  const OperandPtr& x = image(source, "convolution");
  const std::vector<int64_t> w = source.operand(1)->dims;
  if (int(w.size()) != x->rank()) source.malformed("weights and input have other ranks");
  const Window window = read_window(source, x->dims, {w.begin() + 2, w.end()}, false);
  const int64_t n = x->dims[0], c = x->dims[1], k = w[0], g = source.integer("group", 1);
  if (g < 1 || c % g != 0 || k % g != 0 || w[1] != c / g)
    source.malformed("group " + std::to_string(g) + " and weights do not fit " + std::to_string(c) + " channels");
  const Axis &h = window.h, &v = window.w;
  if (h.kernel * v.kernel > kMostTaps)
    source.refuse("its weights, computed at run time, have more than 64 taps", "store them in the file");
  Formula f(import, source);
  const Term plain = f.reshape(f.input(0), {n, c, h.in, v.in});
  const Term padded = f("Pad", {plain, f.list({0, 0, h.before, v.before, 0, 0, h.after, v.after})});
  const Term weights = f.reshape(f.input(1), {g, k / g, c / g, h.kernel, v.kernel});
  Term y;
  for (int64_t i = 0; i < h.kernel; ++i)
    for (int64_t j = 0; j < v.kernel; ++j) {
      const Term part = tap_of(f, padded, window, i, j);
      const Term tap = f.reshape(f.slice(f.slice(weights, 3, i, i + 1), 4, j, j + 1), {1, g, k / g, c / g});
      const Term product = f("MatMul", {tap, f.reshape(part, {n, g, c / g, h.out * v.out})});
      y = y.empty() ? product : f("Add", {y, product});
    }
  if (source.given(2)) y = f("Add", {y, f.reshape(f.input(2), {1, g, k / g, 1})});
  f.give(f.reshape(y, x->rank() == 3 ? std::vector<int64_t>{n, k, v.out} : std::vector<int64_t>{n, k, h.out, v.out}));
  f.run();
}

void conv(Import& import, const Source& source) {
  if (source.operand(0)->rank() == 5) return conv_volume(import, source);
  if (!source.operand(1)->constant) return conv_at_run_time(import, source);
  const OperandPtr& x = image(source, "convolution");
  const Value& w = source.constant(1, "its weights");
  if (int(w.dims.size()) != x->rank() || w.elements() == 0) source.malformed("weights and input have other ranks");
  if (w.type != ElementType::kFloat32) source.refuse("weights of another type than float32");
  std::vector<int64_t> kernel(w.dims.begin() + 2, w.dims.end());
  if (source.integers("kernel_shape", kernel) != kernel)
    source.malformed("kernel_shape contradicts the shape of the weights");
  Window window = read_window(source, x->dims, kernel, false);
  const int64_t groups = source.integer("group", 1), in = x->dims[1], out = w.dims[0];
  if (groups < 1 || in % groups != 0 || out % groups != 0 || w.dims[1] != in / groups)
    source.malformed("group " + std::to_string(groups) + " and weights do not fit " + std::to_string(in) + " channels");
  const bool depthwise = groups == in && groups > 1;

  ValueId image = as_image(import, x);
  if (!fits_engine(window.h) || !fits_engine(window.w)) image = padded(import, image, window, 0);
  Node node = import.step(depthwise ? Op::kDepthwiseConv2d : Op::kConv2d);
  set_window(node, window);
  if (!depthwise) set_integer(node, "groups", int(groups));
  node.inputs = {image, conv_weights(import, source.operand(1), symmetric(import, w), depthwise), kNone};
  if (source.given(2)) {
    source.constant(2, "its bias");
    node.inputs[2] = import.plain(source.operand(2));
  }
  give_image(import, x->rank(), import.append(std::move(node), import.output_name()));
}

// ---- Pools

// Gives the maxima, and as output 1 their places, which count over the whole of x [n, c, h, w]. In a window the first
// tap i k_w + j with the maximum counts. If the window begins in row r and column s of plane p, its place is
//
//   p h w + (r + i dilation_h) w + s + j dilation_w          storage_order 1: p h w + (s + ..) h + r + ..
void max_pool_with_places(Import& import, const Source& source) {
  const OperandPtr& x = image(source, "pooling with indices");
  const Window window =
      read_window(source, x->dims, source.integers("kernel_shape"), source.integer("ceil_mode", 0) != 0);
  const Axis &h = window.h, &w = window.w;
  const int64_t n = x->dims[0], c = x->dims[1], taps = h.kernel * w.kernel;
  if (taps > kMostTaps)
    source.refuse("its second output (indices) is used, and its windows have more than 64 elements");
  const bool columns_first = source.integer("storage_order", 0) != 0;
  const int64_t row_step = columns_first ? 1 : w.in, column_step = columns_first ? h.in : 1;
  import.spend(uint64_t(n * c + h.out * w.out) * 8);
  std::vector<int64_t> planes, corners, out = {n, c, h.out, w.out};
  for (int64_t i = 0; i < n * c; ++i) planes.push_back(i * h.in * w.in);
  for (int64_t i = 0; i < h.out; ++i)
    for (int64_t j = 0; j < w.out; ++j)
      corners.push_back((i * h.stride - h.before) * row_step + (j * w.stride - w.before) * column_step);
  Formula f(import, source);
  const auto whole = [&](std::vector<int64_t> dims, const std::vector<int64_t>& values) {
    return f.whole(ElementType::kInt64, std::move(dims), values);
  };
  const Term pads = f.list({0, 0, h.before, w.before, 0, 0, h.after + h.overhang, w.after + w.overhang});
  const Term padded =
      f("Pad", {f.reshape(f.input(0), {n, c, h.in, w.in}), pads, f.number(-std::numeric_limits<float>::infinity())});
  std::vector<Term> parts;
  for (int64_t tap = 0; tap < taps; ++tap)
    parts.push_back(f.reshape(tap_of(f, padded, window, tap / w.kernel, tap % w.kernel), {n, c, h.out, w.out, 1}));
  const Term all = taps == 1 ? parts[0] : f("Concat", parts, {{"axis", int64_t{4}}});
  const Term tap = f("ArgMax", {all}, {{"axis", int64_t{4}}, {"keepdims", int64_t{0}}});
  const Term kernel = whole({}, {w.kernel});
  const Term down = f("Mul", {f("Div", {tap, kernel}), whole({}, {h.dilation * row_step})});
  const Term right = f("Mul", {f("Mod", {tap, kernel}), whole({}, {w.dilation * column_step})});
  const Term corner = f("Add", {whole({n, c, 1, 1}, planes), whole({h.out, w.out}, corners)});
  const Term place = f("Add", {f("Add", {down, right}), corner});
  if (x->rank() == 3) out.erase(out.begin() + 2);
  f.give(f.reshape(f.reduce("ReduceMax", all, {4}, false), out));
  f.give(f.reshape(place, out));
  f.run();
}

void pool(Import& import, const Source& source, Op op) {
  if (source.wants(1) && source.operand(0)->rank() != 5) return max_pool_with_places(import, source);
  if (source.wants(1)) source.refuse("its second output (indices) is used");
  if (source.operand(0)->rank() == 5) return pool_volume(import, source);
  const OperandPtr& x = image(source, "pooling");
  Window window = read_window(source, x->dims, source.integers("kernel_shape"), source.integer("ceil_mode", 0) != 0);
  const bool average = op == Op::kAveragePool;
  // Pads that count become zeros of x if there is an overhang or the engine does not take them. No overhang counts.
  bool count = average && source.integer("count_include_pad", 0) != 0;
  const bool overhangs = window.h.overhang + window.w.overhang > 0;
  const bool fits = fits_engine(window.h) && fits_engine(window.w);
  ValueId image = as_image(import, x);
  if (count && (overhangs || !fits)) {
    image = padded(import, image, window, 0);
    count = false;
  } else if (!fits && average) {
    source.refuse("its pads are larger than its window");
  } else if (!fits) {
    image = padded(import, image, window, -std::numeric_limits<float>::infinity());
  }
  if (!fits_engine(window.h) || !fits_engine(window.w)) source.refuse("its pads are larger than its window");
  Node node = import.step(op);
  set_window(node, window);
  set_integer(node, "kernel_h", int(window.h.kernel));
  set_integer(node, "kernel_w", int(window.w.kernel));
  if (count) set_integer(node, "count_include_pad", 1);
  node.inputs = {image};
  give_image(import, x->rank(), import.append(std::move(node), import.output_name()));
}

void average_pool(Import& import, const Source& source) { pool(import, source, Op::kAveragePool); }
void max_pool(Import& import, const Source& source) { pool(import, source, Op::kMaxPool); }

// Gives the mean over all spatial axes, which become size 1: channels_last [n, d.., c] over axes 1 .. rank - 2.
void global_average_pool(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  if (x->rank() < 3) source.malformed("needs an input with spatial axes");
  Node node = import.step(Op::kMean);
  set_integer(node, "axes", (1 << (x->rank() - 1)) - 2);
  set_integer(node, "keep_dims", 1);
  node.inputs = {import.channels_last(x)};
  import.give_channels_last(0, import.append(std::move(node), import.output_name()));
}

// Returns the maximum of x, channels_last [n, d.., c], over all of d: [n, 1, 1, c].
ValueId maximum_of_image(Import& import, const Source& source, const OperandPtr& x) {
  const std::vector<int64_t> dims = channels_last_dims(x->dims);
  int64_t rows = 1;
  for (size_t i = 1; i + 2 < dims.size(); ++i) rows *= dims[i];
  const int64_t columns = dims[dims.size() - 2];
  if (rows > kMaxAttribute || columns > kMaxAttribute) source.refuse("its input has more than 16384 rows or columns");
  Node node = import.step(Op::kMaxPool);
  set_integer(node, "kernel_h", int(rows));
  set_integer(node, "kernel_w", int(columns));
  set_window(node, {.h = {}, .w = {}});
  node.inputs = {import.reshaped(import.channels_last(x), {dims[0], rows, columns, dims.back()}, x->name + "/2d")};
  return import.append(std::move(node), import.output_name());
}

void give_maximum(Import& import, const OperandPtr& x, ValueId y) {
  std::vector<int64_t> dims = channels_last_dims(x->dims);
  std::fill(dims.begin() + 1, dims.end() - 1, 1);
  import.give_channels_last(0, import.reshaped(y, dims, import.output_name() + "/nd"));
}

void global_max_pool(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  if (x->rank() < 3) source.malformed("needs an input with spatial axes");
  give_maximum(import, x, maximum_of_image(import, source, x));
}

// Imports ReduceMax. Over the spatial axes and no others it becomes a max_pool of the whole image, because a pool can
// compute in int8.
void reduce_max(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  const int rank = x->rank();
  std::vector<bool> reduced(size_t(rank), false);
  for (const int64_t axis : source.integers_or_input("axes", 1).value_or(std::vector<int64_t>{}))
    reduced[size_t(source.axis(axis, rank))] = true;
  bool spatial = rank >= 3;
  for (int i = 0; i < rank; ++i) spatial = spatial && reduced[size_t(i)] == (i > 1);
  if (!spatial) return maximum_over_axes(import, source);
  const ValueId y = maximum_of_image(import, source, x);
  if (source.integer("keepdims", 1) != 0) return give_maximum(import, x, y);
  import.give_plain(0, import.reshaped(y, {x->dims[0], x->dims[1]}, import.output_name() + "/flat"));
}

constexpr OperatorImporter kWindowImporters[] = {
    {"Conv", conv},
    {"AveragePool", average_pool},
    {"MaxPool", max_pool},
    {"GlobalAveragePool", global_average_pool},
    {"GlobalMaxPool", global_max_pool},
    {"ReduceMax", reduce_max},
};

}  // namespace

std::span<const OperatorImporter> window_importers() { return kWindowImporters; }

}  // namespace nacre::tools::onnx_import
