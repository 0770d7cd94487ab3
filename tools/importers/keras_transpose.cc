// Transposed convolutions, as convolutions of an image with zeros between its pixels and a kernel turned around.
//
//   x [n, h, w, in]   kernel of Keras [kh, kw, out, in]   y [n, h', w', out]
//
//   valid  h' = h s + max(k - s, 0)     same  h' = h s, of the whole result from (k - s) / 2 on (k > s)
//
// With `before` rows of the whole result left out, u = x with s - 1 zeros behind each row is padded by k - 1 - before
// in front and h' + before - h s behind.
#include <algorithm>

#include "tools/importers/keras_window.h"

namespace nacre::tools::keras {
namespace {

// Zeros behind each pixel: [n, h, w, c] -> [n, h, 1, w, 1, c], padded, and together again.
ValueId spread(const Call& call, ValueId x, const std::vector<int64_t>& stride) {
  const std::vector<int64_t> d = call.dims(x);
  if (stride[0] == 1 && stride[1] == 1) return x;
  Node node = call.step(Op::kPad, {call.reshape(x, {d[0], d[1], 1, d[2], 1, d[3]})});
  set_integer(node, "after", int(stride[0] - 1), 2);
  set_integer(node, "after", int(stride[1] - 1), 4);
  return call.reshape(call.emit(std::move(node)), {d[0], d[1] * stride[0], d[2] * stride[1], d[3]});
}

// [h, w, out, in] -> [out, h, w, in], both axes of places turned around.
std::vector<float> turned(const std::vector<float>& k, const std::vector<int64_t>& d) {
  std::vector<float> made;
  for (int64_t o = 0; o < d[2]; ++o)
    for (int64_t h = d[0]; h-- > 0;)
      for (int64_t w = d[1]; w-- > 0;)
        for (int64_t i = 0; i < d[3]; ++i) made.push_back(k[size_t(((h * d[1] + w) * d[2] + o) * d[3] + i)]);
  return made;
}

template <int kSpatial>
void convert(Call& call) {
  need_channels_last(call);
  std::vector<int64_t> stride = call.integers("strides", kSpatial, 1), d = call.weights[0].dims,
                       dilation = call.integers("dilation_rate", kSpatial, 1);
  if (int(d.size()) != kSpatial + 2) call.bad("a kernel of shape " + dims_text(d));
  if (call.given("output_padding")) call.unsupported("output_padding");
  if (kSpatial == 1) {
    stride.insert(stride.begin(), 1);
    dilation.insert(dilation.begin(), 1);
    d.insert(d.begin(), 1);
  }
  const std::string padding = call.text("padding", "valid");
  const ValueId x = as_image(call, call.input(), kSpatial);
  const std::vector<int64_t> image = call.dims(x);
  if (d[3] != image[3]) call.bad("an input of shape " + dims_text(image) + " for a kernel of " + dims_text(d));
  Node node = call.step(Op::kConv2d, {kNone, call.variable(0, "kernel", "transpose", {d[2], d[0], d[1], d[3]},
                                                           [&](const auto& k) { return turned(k, d); })});
  static constexpr const char* kPads[2][3] = {{"pad_top", "pad_bottom", "dilation_h"},
                                              {"pad_left", "pad_right", "dilation_w"}};
  for (size_t i = 0; i < 2; ++i) {
    if (stride[i] < 1 || dilation[i] < 1 || stride[i] > kMostWindow || dilation[i] > kMostWindow || d[i] > kMostWindow)
      call.unsupported("such a window");
    const int64_t k = (d[i] - 1) * dilation[i] + 1, s = stride[i], spare = std::max<int64_t>(k - s, 0);
    const int64_t before = padding == "same" ? spare / 2 : 0, out = image[i + 1] * s + (padding == "same" ? 0 : spare);
    set_integer(node, kPads[i][0], int(k - 1 - before));
    set_integer(node, kPads[i][1], int(out + before - image[i + 1] * s));
    set_integer(node, kPads[i][2], int(dilation[i]));
    set_integer(node, i == 0 ? "stride_h" : "stride_w", 1);
  }
  set_integer(node, "groups", 1);
  node.inputs[0] = spread(call, x, stride);
  if (call.flag("use_bias", true)) node.inputs.push_back(call.variable(1, "bias"));
  call.outputs = {activated(call, from_image(call, call.emit(std::move(node)), kSpatial))};
}

constexpr Converter kTransposeRows[] = {
    {"Conv1DTranspose", &convert<1>},
    {"Conv2DTranspose", &convert<2>},
};

}  // namespace

std::span<const Converter> transpose_converters() { return kTransposeRows; }

}  // namespace nacre::tools::keras
