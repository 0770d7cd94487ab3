// Converts convolutions and pools over volumes [n, d, h, w, c] to those over images.
//
//   conv   the k_d slices that an output slice reads become channels, i c + channel, of an image: n d_out images
//   pool   d first, as an image [d, h w] under a window (k_d, 1), then h and w: a maximum of maxima, a mean of means.
//          This is exact, because a window's elements inside x are the product of those along each axis.
#include <algorithm>

#include "tools/importers/keras/window.h"

namespace nacre::tools::keras {
namespace {

// Reorders the kernel [k_d, k_h, k_w, in, out] -> [out, k_h, k_w, k_d in].
std::vector<float> volume_weights(const std::vector<float>& numbers, const std::vector<int64_t>& d) {
  std::vector<float> made(numbers.size());
  size_t from = 0;
  for (int64_t i = 0; i < d[0]; ++i)
    for (int64_t place = 0; place < d[1] * d[2]; ++place)
      for (int64_t c = 0; c < d[3]; ++c)
        for (int64_t o = 0; o < d[4]; ++o)
          made[size_t(((o * d[1] * d[2] + place) * d[0] + i) * d[3] + c)] = numbers[from++];
  return made;
}

// Returns, from x padded along d, the slices that each of the d_out output slices reads, joined as one image each.
ValueId gathered(const Call& call, ValueId x, const WindowSizes& s, int64_t in_of_group) {
  const std::vector<int64_t> d = call.dims(x);
  const int64_t span = (s.kernel[0] - 1) * s.dilation[0] + 1, d_out = (d[1] - span) / s.stride[0] + 1;
  if (d[1] < span) call.bad("a window larger than its input of shape " + dims_text(d));
  std::vector<ValueId> slices;
  for (int64_t i = 0; i < s.kernel[0]; ++i) slices.push_back(call.slice(x, 1, i * s.dilation[0], d_out, s.stride[0]));
  ValueId y = call.concat(slices, 4);
  const int64_t groups = d[4] / in_of_group, places = d[0] * d_out * d[2] * d[3];
  if (groups > 1 && s.kernel[0] > 1)  // puts a group's slices side by side
    y = call.transpose(call.reshape(y, {places, s.kernel[0], groups, in_of_group}), {0, 2, 1, 3});
  return call.reshape(y, {d[0] * d_out, d[2], d[3], s.kernel[0] * d[4]});
}

}  // namespace

ValueId convolved_volume(const Call& call, ValueId x, StoredKernel kernel, ValueId bias, const WindowSizes& s) {
  const std::vector<int64_t> k = call.weights[kernel.variable].dims, dims = call.dims(x);
  if (k.size() != 5 || dims.size() != 5 || k[3] < 1 || dims[4] % k[3] != 0)
    call.bad("an input of shape " + dims_text(dims) + " for a kernel of " + dims_text(k));
  check_window(call, s);
  const Pads pads = pads_of(call, dims[1], s, 0);
  x = call.pad(x, {0, pads.before, 0, 0, 0}, {0, pads.after, 0, 0, 0});
  const ValueId images = gathered(call, x, s, k[3]);
  const ValueId w = call.variable(kernel.variable, kernel.label, "volume", {k[4], k[1], k[2], k[0] * k[3]},
                                  [&](const auto& numbers) { return volume_weights(numbers, k); });
  const WindowSizes plane = {{k[1], k[2]}, {s.stride[1], s.stride[2]}, {s.dilation[1], s.dilation[2]}, s.padding};
  const ValueId y = convolved_image(call, images, w, bias, plane);
  const std::vector<int64_t> made = call.dims(y);
  return call.reshape(y, {dims[0], made[0] / dims[0], made[1], made[2], made[3]});
}

namespace {

ValueId pooled(const Call& call, Op op, ValueId image, const WindowSizes& sizes) {
  Node node = call.step(op, {image});
  set_window(call, node, call.dims(image), sizes);
  set_integer(node, "kernel_h", int(sizes.kernel[0]));
  set_integer(node, "kernel_w", int(sizes.kernel[1]));
  return call.emit(std::move(node));
}

template <Op kOp>
void convert_volume_pool(Call& call) {
  const ValueId x = call.input();
  const std::vector<int64_t> d = call.dims(x), k = call.integers("pool_size", 3, 2),
                             stride = call.given("strides") ? call.integers("strides", 3, 2) : k;
  if (d.size() != 5) call.bad("an input of shape " + dims_text(d));
  const std::string padding = call.text("padding", "valid");
  ValueId y =
      pooled(call, kOp, call.reshape(x, {d[0], d[1], d[2] * d[3], d[4]}), {{k[0], 1}, {stride[0], 1}, {1, 1}, padding});
  const int64_t d_out = call.dims(y)[1];
  y = pooled(call, kOp, call.reshape(y, {d[0] * d_out, d[2], d[3], d[4]}),
             {{k[1], k[2]}, {stride[1], stride[2]}, {1, 1}, padding});
  const std::vector<int64_t> made = call.dims(y);
  call.outputs = {call.reshape(y, {d[0], d_out, made[1], made[2], made[3]})};
}

constexpr Converter kVolumeRows[] = {
    {"AveragePooling3D", &convert_volume_pool<Op::kAveragePool>},
    {"MaxPooling3D", &convert_volume_pool<Op::kMaxPool>},
};

}  // namespace

std::span<const Converter> volume_converters() { return kVolumeRows; }

}  // namespace nacre::tools::keras
