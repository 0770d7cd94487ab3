// Convolutions. Kernels of Keras [h, w, in / groups, out], of depthwise [h, w, in, multiplier], output channel = input
// channel * multiplier + m; the graph's are [out, h, w, in / groups] and [h, w, out]. One axis of time is an image of
// height 1.
#include <algorithm>

#include "tools/importers/keras_window.h"

namespace nacre::tools::keras {

void need_channels_last(const Call& call) {
  const std::string format = call.text("data_format", "channels_last");
  if (format != "channels_last") call.unsupported("data_format " + format + ": save the model with channels_last");
}

ValueId as_image(const Call& call, ValueId x, int spatial) {
  const std::vector<int64_t> dims = call.dims(x);
  if (int(dims.size()) != spatial + 2) call.bad("an input of shape " + dims_text(dims));
  return spatial == 2 ? x : call.reshape(x, {dims[0], 1, dims[1], dims[2]});
}

ValueId from_image(const Call& call, ValueId y, int spatial) {
  const std::vector<int64_t> dims = call.dims(y);
  return spatial == 2 ? y : call.reshape(y, {dims[0], dims[2], dims[3]});
}

// SAME: out = ceil(in / stride); what is missing is padded, the odd one after. CAUSAL: all of it before.
//
//   total = max(0, (out - 1) stride + (kernel - 1) dilation + 1 - in),   before = total / 2
void set_window(const Call& call, Node& node, const std::vector<int64_t>& image, const WindowSizes& s) {
  static constexpr const char* kNames[2][4] = {{"stride_h", "dilation_h", "pad_top", "pad_bottom"},
                                               {"stride_w", "dilation_w", "pad_left", "pad_right"}};
  for (size_t axis = 0; axis < 2; ++axis) {
    const int64_t kernel = s.kernel[axis], stride = s.stride[axis], dilation = s.dilation[axis];
    if (kernel < 1 || stride < 1 || dilation < 1) call.bad("a stride, dilation or kernel size is not positive");
    if (kernel > kMostWindow || stride > kMostWindow || dilation > kMostWindow) call.unsupported("a window over 2^14");
    set_integer(node, kNames[axis][0], int(stride));
    set_integer(node, kNames[axis][1], int(dilation));
    if (s.padding == "valid") continue;
    const int64_t in = image[axis + 1], out = (in + stride - 1) / stride;
    int64_t total = std::max<int64_t>(0, (out - 1) * stride + (kernel - 1) * dilation + 1 - in);
    int64_t before = total / 2;
    if (s.padding == "causal") before = total = (kernel - 1) * dilation;
    else if (s.padding != "same") call.bad("padding " + s.padding + " is none");
    set_integer(node, kNames[axis][2], int(before));
    set_integer(node, kNames[axis][3], int(total - before));
  }
}

namespace {

std::vector<int64_t> as_two(std::vector<int64_t> sizes) {
  if (sizes.size() == 1) sizes.insert(sizes.begin(), 1);
  return sizes;
}

WindowSizes sizes_of(const Call& call, int spatial, const std::vector<int64_t>& kernel) {
  return {as_two({kernel.begin(), kernel.begin() + spatial}), as_two(call.integers("strides", size_t(spatial), 1)),
          as_two(call.integers("dilation_rate", size_t(spatial), 1)), call.text("padding", "valid")};
}

// [h, w, in, out] -> [out, h, w, in]: a matrix of [h w in, out] turned.
ValueId conv_kernel(const Call& call, size_t i, int spatial) {
  const std::vector<int64_t> d = call.weights[i].dims;
  if (int(d.size()) != spatial + 2) call.bad("a kernel of shape " + dims_text(d));
  const int64_t h = spatial == 2 ? d[0] : 1, w = d[size_t(spatial) - 1], in = d[size_t(spatial)], out = d.back();
  return call.variable(i, "kernel", "conv", {out, h, w, in},
                       [&](const auto& numbers) { return transposed(numbers, h * w * in, out); });
}

ValueId bias_of(const Call& call, size_t i) { return call.flag("use_bias", true) ? call.variable(i, "bias") : kNone; }

ValueId conv(const Call& call, ValueId image, ValueId w, ValueId bias, const WindowSizes& sizes) {
  Node node = call.step(Op::kConv2d, {image, w});
  if (bias != kNone) node.inputs.push_back(bias);
  set_window(call, node, call.dims(image), sizes);
  const int64_t in = call.dims(w)[3], groups = in > 0 ? call.dims(image)[3] / in : 0;
  if (groups < 1 || groups * in != call.dims(image)[3])
    call.bad("an input of shape " + dims_text(call.dims(image)) + " for a kernel of " + dims_text(call.dims(w)));
  set_integer(node, "groups", int(groups));
  return call.emit(std::move(node));
}

ValueId depthwise(const Call& call, ValueId image, ValueId bias, int spatial) {
  const std::vector<int64_t> d = call.weights[0].dims;
  if (int(d.size()) != spatial + 2) call.bad("a kernel of shape " + dims_text(d));
  const int64_t h = spatial == 2 ? d[0] : 1, w = d[size_t(spatial) - 1];
  Node node = call.step(
      Op::kDepthwiseConv2d,
      {image, call.variable(0, "depthwise_kernel", "depthwise", {h, w, d[size_t(spatial)] * d[size_t(spatial) + 1]})});
  if (bias != kNone) node.inputs.push_back(bias);
  set_window(call, node, call.dims(image), sizes_of(call, spatial, d));
  return call.emit(std::move(node));
}

template <int kSpatial>
void convert_conv(Call& call) {
  need_channels_last(call);
  const ValueId x = as_image(call, call.input(), kSpatial), w = conv_kernel(call, 0, kSpatial);
  WindowSizes sizes = sizes_of(call, kSpatial, call.weights[0].dims);
  const ValueId y = conv(call, x, w, bias_of(call, 1), sizes);
  call.outputs = {activated(call, from_image(call, y, kSpatial))};
}

template <int kSpatial>
void convert_depthwise(Call& call) {
  need_channels_last(call);
  const ValueId x = as_image(call, call.input(), kSpatial);
  call.outputs = {activated(call, from_image(call, depthwise(call, x, bias_of(call, 1), kSpatial), kSpatial))};
}

// Depthwise, then a convolution of one pixel.
template <int kSpatial>
void convert_separable(Call& call) {
  need_channels_last(call);
  const ValueId x = as_image(call, call.input(), kSpatial), wide = depthwise(call, x, kNone, kSpatial);
  const WindowSizes one = {{1, 1}, {1, 1}, {1, 1}, "valid"};
  const ValueId y = conv(call, wide, conv_kernel(call, 1, kSpatial), bias_of(call, 2), one);
  call.outputs = {activated(call, from_image(call, y, kSpatial))};
}

constexpr Converter kWindowRows[] = {
    {"Conv1D", &convert_conv<1>},
    {"Conv2D", &convert_conv<2>},
    {"Convolution1D", &convert_conv<1>},
    {"Convolution2D", &convert_conv<2>},
    {"DepthwiseConv1D", &convert_depthwise<1>},
    {"DepthwiseConv2D", &convert_depthwise<2>},
    {"SeparableConv1D", &convert_separable<1>},
    {"SeparableConv2D", &convert_separable<2>},
};

}  // namespace

std::span<const Converter> window_converters() { return kWindowRows; }

}  // namespace nacre::tools::keras
