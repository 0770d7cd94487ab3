// Converts CONV_3D and LOCAL_RESPONSE_NORMALIZATION to nodes over images.
//
//   CONV_3D   x [n, d, h, w, c], weights [k_d, k_h, k_w, c, out]: the k_d slices that an output slice reads become
//             channels, i c + j, of an image: n d_out images
#include <algorithm>

#include "tools/importers/tflite/steps.h"

namespace nacre::tools::tflite {
namespace {

using VolumeInts = Steps::Ints;

constexpr int64_t kMostOfVolume = 1 << 14;

// Padding along d before and after x, and the number of output slices.
struct Depth {
  int64_t kernel, stride, dilation, before = 0, after = 0, out = 0;
};

Depth depth_of(Importer& importer, const Operation& op, const Conv3DOptions& options, int64_t in, int64_t kernel) {
  Depth d{.kernel = kernel, .stride = options.stride_d(), .dilation = options.dilation_d()};
  for (const int64_t v : {d.kernel, d.stride, d.dilation})
    if (v < 1 || v > kMostOfVolume) importer.bad(op, "a stride, dilation or kernel size is out of range");
  const int64_t span = (kernel - 1) * d.dilation + 1;
  if (options.padding() == Padding::SAME) {
    const int64_t total = std::max<int64_t>(0, ((in + d.stride - 1) / d.stride - 1) * d.stride + span - in);
    d.before = total / 2;
    d.after = total - d.before;
  }
  const int64_t room = in + d.before + d.after - span;
  if (room < 0) importer.bad(op, "its window is larger than the padded input");
  d.out = room / d.stride + 1;
  return d;
}

// Returns the images [n d_out, h, w, k_d c] of x [n, d, h, w, c], padded along d.
ValueId images(Importer& importer, const Operation& op, Steps& s, ValueId x, const Depth& d) {
  const VolumeInts dims = s.dims(x);
  const auto zeros = [&](int64_t slices) {
    VolumeInts filled = dims;
    filled[1] = slices;
    if (double(slices) * double(product_of(dims, 2, 5)) * double(dims[0]) > double(kMaxSize))
      importer.unsupported(op, "so large a padding");
    return s.filled(filled, 0);
  };
  std::vector<ValueId> all;
  if (d.before > 0) all.push_back(zeros(d.before));
  all.push_back(x);
  if (d.after > 0) all.push_back(zeros(d.after));
  const ValueId padded = s.concat(all, 1);
  std::vector<ValueId> parts;
  for (int64_t i = 0; i < d.kernel; ++i) parts.push_back(s.slice(padded, 1, i * d.dilation, d.out, d.stride));
  return s.reshape(s.concat(parts, 4), {dims[0] * d.out, dims[2], dims[3], d.kernel * dims[4]});
}

void convert_conv_3d(Importer& importer, Operation& op) {
  const auto& options = importer.options<Conv3DOptions>(op);
  Steps s(importer, op);
  const ValueId x = importer.real_input(op, 0), w = importer.real_input(op, 1);
  const VolumeInts dims = s.dims(x), of_w = s.dims(w);
  if (dims.size() != 5 || of_w.size() != 5 || of_w[3] != dims[4])
    importer.bad(op, "an input of shape " + dims_text(dims) + " for weights of shape " + dims_text(of_w));
  if (!importer.value(w).constant() || importer.value(w).quantizer || importer.value(x).quantizer)
    importer.unsupported(op, "weights that are computed at run time, or codes");
  const Depth d = depth_of(importer, op, options, dims[1], of_w[0]);
  const ValueId image = images(importer, op, s, x, d);
  const ValueId filter = s.reshape(s.transpose(w, {4, 1, 2, 0, 3}), {of_w[4], of_w[1], of_w[2], d.kernel * of_w[3]});
  Node node{.op = Op::kConv2d, .name = "", .words = {}, .inputs = {image, filter}, .outputs = {}};
  if (op.has_input(2)) node.inputs.push_back(importer.real_input(op, 2));
  set_window(importer, op, node, importer.value(image),
             {of_w[1], of_w[2], options.stride_h(), options.stride_w(), options.dilation_h(), options.dilation_w()},
             options.padding());
  const ValueId y = importer.between(importer.output(op), "/images");
  importer.emit_activated(op, std::move(node), options.activation(), y);
  const VolumeInts made = s.dims(y);
  s.give(s.reshape(y, {dims[0], d.out, made[1], made[2], made[3]}));
}

// Converts LOCAL_RESPONSE_NORMALIZATION: y = x / (bias + alpha sum_j x_j^2)^beta over channels at most `radius` away.
// The sum is (2 radius + 1) times the mean over a window that counts channels outside as 0.
void convert_local_response(Importer& importer, Operation& op) {
  const auto& options = importer.options<LocalResponseNormalizationOptions>(op);
  Steps s(importer, op);
  const ValueId x = importer.real_input(op, 0);
  const VolumeInts dims = s.dims(x);
  if (dims.empty() || options.radius() < 0) importer.bad(op, "its input has no channels, or its radius is below 0");
  const int64_t channels = dims.back(), rows = product_of(dims, 0, dims.size() - 1),
                radius = std::min<int64_t>(options.radius(), channels - 1), size = 2 * radius + 1;
  if (size > kMostOfVolume) importer.unsupported(op, "a radius of " + std::to_string(options.radius()));
  const int pad = int(radius);
  const ValueId squares = s.reshape(s.unary(Unary::kSquare, x), {rows, channels, 1, 1});
  const ValueId means = s(Op::kAveragePool, {squares},
                          {{"kernel_h", int(size)},
                           {"kernel_w", 1},
                           {"pad_top", pad},
                           {"pad_bottom", pad},
                           {"stride_h", 1},
                           {"stride_w", 1},
                           {"dilation_h", 1},
                           {"dilation_w", 1},
                           {"count_include_pad", 1}});
  const ValueId mean = s.reshape(means, dims);
  const ValueId scaled = s(Op::kMul, {mean, s.number(mean, options.alpha() * float(size))});
  const ValueId sum = s(Op::kAdd, {scaled, s.number(mean, options.bias())});
  s.give(s(Op::kMul, {x, s.binary(Binary::kPow, sum, s.number(mean, -options.beta()))}, {}, ElementType::kFloat32));
}

}  // namespace

std::span<const Converter> volume_converters() {
  static constexpr Converter kRows[] = {
      {BuiltinOperator::CONV_3D, &convert_conv_3d},
      {BuiltinOperator::LOCAL_RESPONSE_NORMALIZATION, &convert_local_response},
  };
  return kRows;
}

}  // namespace nacre::tools::tflite
