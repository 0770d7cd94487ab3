// Converts convolutions. Keras has kernels [h, w, in / groups, out], and depthwise ones [h, w, in, multiplier] with
// output channel = input channel * multiplier + m. The graph has [out, h, w, in / groups] and [h, w, out]. A single
// axis of time is an image of height 1.
#include <algorithm>

#include "tools/importers/keras/window.h"

namespace nacre::tools::keras {

ValueId as_image(const Call& call, ValueId x, int spatial) {
  const std::vector<int64_t> dims = call.dims(x);
  if (int(dims.size()) != spatial + 2) call.bad("an input of shape " + dims_text(dims));
  return spatial == 2 ? x : call.reshape(x, {dims[0], 1, dims[1], dims[2]});
}

ValueId from_image(const Call& call, ValueId y, int spatial) {
  const std::vector<int64_t> dims = call.dims(y);
  return spatial == 2 ? y : call.reshape(y, {dims[0], dims[2], dims[3]});
}

WindowSizes sizes_of(const Call& call, size_t spatial, const std::vector<int64_t>& kernel) {
  return {{kernel.begin(), kernel.begin() + std::ptrdiff_t(spatial)},
          call.integers("strides", spatial, 1),
          call.integers("dilation_rate", spatial, 1),
          call.text("padding", "valid")};
}

void check_window(const Call& call, const WindowSizes& s) {
  for (size_t axis = 0; axis < s.kernel.size(); ++axis) {
    const int64_t kernel = s.kernel[axis], stride = s.stride[axis], dilation = s.dilation[axis];
    if (kernel < 1 || stride < 1 || dilation < 1) call.bad("a stride, dilation or kernel size is not positive");
    if (kernel > kMostWindow || stride > kMostWindow || dilation > kMostWindow) call.unsupported("a window over 2^14");
  }
}

// SAME: out = ceil(in / stride), with half of the missing elements on each side and an odd one after. CAUSAL: all
// before.
//
//   total = max(0, (out - 1) stride + (kernel - 1) dilation + 1 - in),   before = total / 2
Pads pads_of(const Call& call, int64_t in, const WindowSizes& s, size_t axis) {
  if (s.padding == "valid") return {};
  const int64_t stride = s.stride[axis], reach = (s.kernel[axis] - 1) * s.dilation[axis];
  if (s.padding == "causal") return {reach, 0};
  if (s.padding != "same") call.bad("padding " + s.padding + " is none");
  const int64_t out = (in + stride - 1) / stride, total = std::max<int64_t>(0, (out - 1) * stride + reach + 1 - in);
  return {total / 2, total - total / 2};
}

void set_window(const Call& call, Node& node, const std::vector<int64_t>& image, const WindowSizes& s) {
  static constexpr const char* kNames[2][4] = {{"stride_h", "dilation_h", "pad_top", "pad_bottom"},
                                               {"stride_w", "dilation_w", "pad_left", "pad_right"}};
  check_window(call, s);
  for (size_t axis = 0; axis < s.kernel.size(); ++axis) {
    const size_t at = s.kernel.size() == 1 ? 1 : axis;
    const Pads pads = pads_of(call, image[at + 1], s, axis);
    set_integer(node, kNames[at][0], int(s.stride[axis]));
    set_integer(node, kNames[at][1], int(s.dilation[axis]));
    if (pads.before > 0) set_integer(node, kNames[at][2], int(pads.before));
    if (pads.after > 0) set_integer(node, kNames[at][3], int(pads.after));
  }
}

namespace {

// Makes the kernel: [h, w, in, out] -> [out, h, w, in], a transposed matrix of [h w in, out].
ValueId conv_kernel(const Call& call, StoredKernel kernel, int spatial) {
  const std::vector<int64_t> d = call.weights[kernel.variable].dims;
  if (int(d.size()) != spatial + 2) call.bad("a kernel of shape " + dims_text(d));
  const int64_t h = spatial == 2 ? d[0] : 1, w = d[size_t(spatial) - 1], in = d[size_t(spatial)], out = d.back();
  return call.variable(kernel.variable, kernel.label, "conv", {out, h, w, in},
                       [&](const auto& numbers) { return transposed(numbers, h * w * in, out); });
}

ValueId bias_of(const Call& call, size_t i) { return call.flag("use_bias", true) ? call.variable(i, "bias") : kNone; }

}  // namespace

ValueId convolved_image(const Call& call, ValueId image, ValueId w, ValueId bias, const WindowSizes& sizes) {
  Node node = call.step(Op::kConv2d, {image, w});
  if (bias != kNone) node.inputs.push_back(bias);
  set_window(call, node, call.dims(image), sizes);
  const int64_t in = call.dims(w)[3], groups = in > 0 ? call.dims(image)[3] / in : 0;
  if (groups < 1 || groups * in != call.dims(image)[3])
    call.bad("an input of shape " + dims_text(call.dims(image)) + " for a kernel of " + dims_text(call.dims(w)));
  set_integer(node, "groups", int(groups));
  return call.emit(std::move(node));
}

ValueId convolved(const Call& call, ValueId x, StoredKernel kernel, ValueId bias, const WindowSizes& sizes) {
  const int spatial = int(sizes.kernel.size());
  if (spatial == 3) return convolved_volume(call, x, kernel, bias, sizes);
  const ValueId image = as_image(call, x, spatial), w = conv_kernel(call, kernel, spatial);
  return from_image(call, convolved_image(call, image, w, bias, sizes), spatial);
}

namespace {

ValueId depthwise(const Call& call, ValueId image, ValueId bias, int spatial) {
  const std::vector<int64_t> d = call.weights[0].dims;
  if (int(d.size()) != spatial + 2) call.bad("a kernel of shape " + dims_text(d));
  const int64_t h = spatial == 2 ? d[0] : 1, w = d[size_t(spatial) - 1];
  Node node = call.step(
      Op::kDepthwiseConv2d,
      {image, call.variable(0, "depthwise_kernel", "depthwise", {h, w, d[size_t(spatial)] * d[size_t(spatial) + 1]})});
  if (bias != kNone) node.inputs.push_back(bias);
  set_window(call, node, call.dims(image), sizes_of(call, size_t(spatial), d));
  return call.emit(std::move(node));
}

template <int kSpatial>
void convert_conv(Call& call) {
  const ValueId x = call.input();
  if (call.rank(x) != kSpatial + 2) call.bad("an input of shape " + dims_text(call.dims(x)));
  if (call.weights[0].dims.size() != kSpatial + 2) call.bad("a kernel of shape " + dims_text(call.weights[0].dims));
  const int64_t filters = call.weights[0].dims.back();
  if (call.integer("filters", filters) != filters)
    call.bad("filters of " + std::to_string(call.integer("filters", filters)) + " for a kernel of shape " +
             dims_text(call.weights[0].dims));
  const WindowSizes sizes = sizes_of(call, kSpatial, call.weights[0].dims);
  call.outputs = {activated(call, convolved(call, x, {}, bias_of(call, 1), sizes))};
}

template <int kSpatial>
void convert_depthwise(Call& call) {
  const ValueId x = as_image(call, call.input(), kSpatial);
  call.outputs = {activated(call, from_image(call, depthwise(call, x, bias_of(call, 1), kSpatial), kSpatial))};
}

// Makes a depthwise convolution, then a convolution of one pixel.
template <int kSpatial>
void convert_separable(Call& call) {
  const ValueId x = as_image(call, call.input(), kSpatial), wide = depthwise(call, x, kNone, kSpatial);
  const ValueId w = conv_kernel(call, {1}, kSpatial);
  const ValueId y = convolved_image(call, wide, w, bias_of(call, 2), {{1, 1}, {1, 1}, {1, 1}, "valid"});
  call.outputs = {activated(call, from_image(call, y, kSpatial))};
}

constexpr Converter kWindowRows[] = {
    {"Conv1D", &convert_conv<1>},
    {"Conv2D", &convert_conv<2>},
    {"Conv3D", &convert_conv<3>},
    {"Convolution1D", &convert_conv<1>},
    {"Convolution2D", &convert_conv<2>},
    {"Convolution3D", &convert_conv<3>},
    {"DepthwiseConv1D", &convert_depthwise<1>},
    {"DepthwiseConv2D", &convert_depthwise<2>},
    {"SeparableConv1D", &convert_separable<1>},
    {"SeparableConv2D", &convert_separable<2>},
};

}  // namespace

std::span<const Converter> window_converters() { return kWindowRows; }

}  // namespace nacre::tools::keras
