// XNNPACK in Debian's version (of 2022-02, before it had kernels with VNNI). Operators are made once, with packed
// weights.
#include <xnnpack.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "bench/peers/layer_peer.h"

namespace nacre::bench {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

void require(xnn_status status) {
  if (status != xnn_status_success) throw std::runtime_error("xnnpack: status " + std::to_string(int(status)));
}

// An operator with its memory, which has XNN_EXTRA_BYTES after what the operator reads.
template <class T>
struct Held {
  xnn_operator_t op = nullptr;
  std::vector<T> x, y;
  float y_scale = 1;

  ~Held() { xnn_delete_operator(op); }
};

template <class T>
std::shared_ptr<Held<T>> held(std::vector<T> x, size_t outputs, float y_scale) {
  auto h = std::make_shared<Held<T>>();
  h->x = std::move(x);
  h->x.resize(h->x.size() + XNN_EXTRA_BYTES);
  h->y.resize(outputs);
  h->y_scale = y_scale;
  return h;
}

template <class T>
PeerLayer peer(std::shared_ptr<Held<T>> h) {
  PeerLayer layer{"xnnpack", "2022-02", {}, {}};
  layer.run = [h] { require(xnn_run_operator(h->op, nullptr)); };
  layer.output = [h] {
    std::vector<float> values;
    for (const T y : h->y) values.push_back(float(y) * h->y_scale);
    return values;
  };
  return layer;
}

std::vector<int32_t> sums_of(const std::vector<float>& bias, float x_scale, const std::vector<float>& w_scales) {
  std::vector<int32_t> sums;
  for (size_t k = 0; k < bias.size(); ++k)
    sums.push_back(int32_t(std::nearbyint(bias[k] / (x_scale * w_scales[w_scales.size() == 1 ? 0 : k]))));
  return sums;
}

PeerLayer dense_float(const LayerProblem& p) {
  const auto in = size_t(p.dims("w")[1]), out = size_t(p.dims("w")[0]), rows = p.x.size() / in;
  auto h = held(p.x, rows * out, 1);
  require(
      xnn_create_fully_connected_nc_f32(in, out, in, out, p.w.data(), p.bias.data(), -kInfinity, kInfinity, 0, &h->op));
  require(xnn_setup_fully_connected_nc_f32(h->op, rows, h->x.data(), h->y.data(), nullptr));
  return peer(h);
}

// Uses one scale for all weights, because the library of 2022 supports no more for fully connected layers.
PeerLayer dense_int8(const LayerProblem& p) {
  const auto in = size_t(p.dims("w")[1]), out = size_t(p.dims("w")[0]), rows = p.x.size() / in;
  const float x_scale = scale_of(p.x), w_scale = scale_of(p.w), y_scale = scale_of(p.y);
  auto h = held(codes(p.x, x_scale), rows * out, y_scale);
  const std::vector<int8_t> w = codes(p.w, w_scale);
  const std::vector<int32_t> bias = sums_of(p.bias, x_scale, {w_scale});
  require(xnn_create_fully_connected_nc_qs8(in, out, in, out, 0, x_scale, w_scale, w.data(), bias.data(), 0, y_scale,
                                            -128, 127, 0, &h->op));
  require(xnn_setup_fully_connected_nc_qs8(h->op, rows, h->x.data(), h->y.data(), nullptr));
  return peer(h);
}

// Calls create(pads, kernel, strides, dilations, groups, channels, strides of pixels).
template <class Create>
void with_window(const LayerProblem& p, Create create) {
  const auto size = [&](const char* name) { return uint32_t(p.attribute(name, 0)); };
  const std::vector<int64_t> x = p.dims("x"), w = p.dims("w");
  const bool d = p.depthwise();
  const auto c = size_t(x[3]), k = size_t(p.channels());
  create(size("pad_top"), size("pad_right"), size("pad_bottom"), size("pad_left"), uint32_t(w[d ? 0 : 1]),
         uint32_t(w[d ? 1 : 2]), size("stride_h"), size("stride_w"), 1u, 1u, d ? uint32_t(c) : 1u, d ? size_t{1} : c,
         d ? k / c : k, c, k);
}

PeerLayer convolution_float(const LayerProblem& p) {
  auto h = held(p.x, p.y.size(), 1);
  const uint32_t flags = p.depthwise() ? XNN_FLAG_DEPTHWISE_CONVOLUTION : 0;
  with_window(p, [&](auto... window) {
    require(
        xnn_create_convolution2d_nhwc_f32(window..., p.w.data(), p.bias.data(), -kInfinity, kInfinity, flags, &h->op));
  });
  const std::vector<int64_t> x = p.dims("x");
  require(xnn_setup_convolution2d_nhwc_f32(h->op, size_t(x[0]), size_t(x[1]), size_t(x[2]), h->x.data(), h->y.data(),
                                           nullptr));
  return peer(h);
}

PeerLayer convolution_int8(const LayerProblem& p) {
  const float x_scale = scale_of(p.x), y_scale = scale_of(p.y);
  const std::vector<float> w_scales = channel_scales(p);
  auto h = held(codes(p.x, x_scale), p.y.size(), y_scale);
  const std::vector<int8_t> w = weight_codes(p, w_scales);
  const std::vector<int32_t> bias = sums_of(p.bias, x_scale, w_scales);
  const uint32_t flags = p.depthwise() ? XNN_FLAG_DEPTHWISE_CONVOLUTION : 0;
  with_window(p, [&](auto... window) {
    require(xnn_create_convolution2d_nhwc_qc8(window..., int8_t{0}, x_scale, w_scales.data(), w.data(), bias.data(),
                                              int8_t{0}, y_scale, int8_t{-128}, int8_t{127}, flags, &h->op));
  });
  const std::vector<int64_t> x = p.dims("x");
  require(xnn_setup_convolution2d_nhwc_qc8(h->op, size_t(x[0]), size_t(x[1]), size_t(x[2]), h->x.data(), h->y.data(),
                                           nullptr));
  return peer(h);
}

}  // namespace

std::vector<PeerLayer> xnnpack_layers(const LayerProblem& p) {
  static const bool ready = xnn_initialize(nullptr) == xnn_status_success;
  if (!ready || p.type == "bfloat16") return {};
  const bool dense = p.shape.op == "dense", codes = p.type == "int8";
  if (dense) return {codes ? dense_int8(p) : dense_float(p)};
  return {codes ? convolution_int8(p) : convolution_float(p)};
}

}  // namespace nacre::bench
