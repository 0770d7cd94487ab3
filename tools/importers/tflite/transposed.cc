// Converts TRANSPOSE_CONV, inputs output_shape [4], weights [out, h, w, in], x, bias, and CONV_3D_TRANSPOSE to
// convolutions (shared/transposed_conv.h). For codes its sums, bias and rounding are those of LiteRT's reference kernel
// (reference/integer_ops/transpose_conv.h). Added taps are 0 and padded pixels are the zero point, so they add nothing.
// An output_shape that is given at run time is not read. It must be the output's shape in the file, because memory is
// planned for that.
//
// SAME pads as the convolution from out to in, whose transpose this is. total / 2 comes before:
//
//   total = max(0, (ceil(out / stride) - 1) stride + kernel - out)
#include <algorithm>

#include "tools/importers/shared/transposed_conv.h"
#include "tools/importers/tflite/steps.h"

namespace nacre::tools::tflite {
namespace {

enum TransposeConvInput { kOutputShape, kWeights, kImage, kTransposedBias };  // kWeights is also CONV_2D's

TransposedAxis axis_of(Importer& importer, const Operation& op, const TransposedAxis& sizes, Padding padding) {
  constexpr int64_t kWidest = 1 << 14;
  TransposedAxis axis = sizes;
  if (axis.stride < 1 || axis.stride > kWidest || axis.kernel > kWidest) importer.bad(op, "a window is out of range");
  const int64_t full = axis.stride * (axis.in - 1) + axis.kernel;
  if (axis.out < 1 || axis.out > std::min(full + kWidest, kMaxSize))
    importer.bad(op, "an output of " + std::to_string(axis.out) + " pixels");
  if (padding != Padding::SAME && padding != Padding::VALID) importer.bad(op, "padding is neither SAME nor VALID");
  if (padding == Padding::VALID) return axis;
  const int64_t windows = (axis.out + axis.stride - 1) / axis.stride;
  axis.before = std::max<int64_t>(0, (windows - 1) * axis.stride + axis.kernel - axis.out) / 2;
  return axis;
}

TransposedConv read_transposed(Importer& importer, const Operation& op, const Value& x, const Value& w) {
  const auto& options = importer.options<TransposeConvOptions>(op);
  const bool known = importer.value(importer.input(op, kOutputShape)).constant();
  const std::vector<int64_t> shape =
      known ? importer.integers(op, kOutputShape) : importer.tensors().dims(op.outputs[0]);
  if (!known) importer.graph().log.push_back("import: " + op.name + ": has the shape that the file declares");
  if (x.dims.size() != 4 || shape.size() != 4) importer.bad(op, "input and output have not 4 axes");
  if (w.dims[3] != x.dims[3] || w.dims[0] != shape[3]) importer.bad(op, "weights of shape " + dims_text(w.dims));
  const auto axis = [&](size_t i, int64_t stride) {
    return axis_of(importer, op, {.in = x.dims[i], .kernel = w.dims[i], .stride = stride, .out = shape[i]},
                   options.padding());
  };
  return {
      .h = axis(1, options.stride_h()), .w = axis(2, options.stride_w()), .groups = 1, .c = w.dims[3], .k = w.dims[0]};
}

void convert_transpose_conv(Importer& importer, Operation& op) {
  ValueId x = importer.real_input(op, kImage), w_id = matmul_weights(importer, op, x, 4);
  const ValueId b_id = matmul_bias(importer, op, kTransposedBias, x, w_id), y = importer.output(op);
  split_channels(importer, op, x, w_id);
  const Value w = importer.value(w_id), image = importer.value(x);
  if (w.quantizer && w.quantizer->scale.size() > 1 && w.quantizer->axis != 0)
    importer.unsupported(op, "weights with scales along another axis than channels");
  const TransposedConv conv = read_transposed(importer, op, image, w);
  importer.graph().budget.take(uint64_t(conv.h.taps() * conv.w.taps() * conv.phases()) * uint64_t(conv.c * conv.k) * 4,
                               op.name, "the weights of a transposed convolution", "use a smaller kernel or stride");
  Value made = transposed_weights(
      w, conv, {.group = 0, .k = w.dims[1] * w.dims[2] * conv.c, .h = w.dims[2] * conv.c, .w = conv.c, .c = 1});
  Node node{
      .op = Op::kConv2d, .name = "", .words = {}, .inputs = {x, importer.graph().add(std::move(made))}, .outputs = {}};
  if (b_id != kNone) {
    if (importer.value(b_id).elements() != conv.k) importer.bad(op, "a bias that does not fit its weights");
    node.inputs.push_back(importer.graph().add(transposed_bias(importer.value(b_id), conv)));
  }
  set_matmul_policy(importer, op, x, w_id, true);
  const Activation activation = importer.options<TransposeConvOptions>(op).activation();
  const auto append = [&](Node step, const std::string& suffix, ValueId like) {
    const ValueId z = importer.between(like, suffix);
    step.outputs = {z};
    if (step.op == Op::kConv2d) importer.emit_activated(op, std::move(step), activation, z);
    else importer.emit(op, std::move(step));
    return z;
  };
  const ValueId z = append_transposed_conv(importer.graph(), conv, std::move(node), y, append);
  importer.emit_reshape(op, z, importer.value(z).dims, y);
}

// A transposed convolution over volumes. Each slice of x makes k_d products for output slices, as channels of one
// image. y_o is the sum of the products of slice i and tap m with i s + m - p = o (s stride, p padding along d).
struct Volume {
  Steps::Ints x, w, y;  // [n, d, h, w, c], [k_d, k_h, k_w, k, c], [n, d, h, w, k]
};

ValueId products_of_slices(Importer& importer, Operation& op, Steps& s, const Volume& v, ValueId x, ValueId w) {
  const auto& options = importer.options<Conv3DOptions>(op);
  const auto axis = [&](size_t i, int64_t stride) {
    return axis_of(importer, op, {.in = v.x[i], .kernel = v.w[i - 1], .stride = stride, .out = v.y[i]},
                   options.padding());
  };
  const TransposedConv conv = {.h = axis(2, options.stride_h()),
                               .w = axis(3, options.stride_w()),
                               .groups = 1,
                               .c = v.x[4],
                               .k = v.w[0] * v.w[3]};
  importer.graph().budget.take(uint64_t(conv.h.taps() * conv.w.taps() * conv.phases()) * uint64_t(conv.c * conv.k) * 4,
                               op.name, "the weights of a transposed convolution", "use a smaller kernel or stride");
  const Value turned = importer.value(s.transpose(w, {0, 3, 1, 2, 4}));
  if (!turned.constant()) importer.unsupported(op, "weights that are computed at run time, or trained");
  const int64_t row = v.w[2] * v.w[4];
  Value made = transposed_weights(turned, conv, {.group = 0, .k = v.w[1] * row, .h = row, .w = v.w[4], .c = 1});
  const ValueId image = s.reshape(x, {v.x[0] * v.x[1], v.x[2], v.x[3], v.x[4]});
  Node node{.op = Op::kConv2d,
            .name = "",
            .words = {},
            .inputs = {image, importer.graph().add(std::move(made))},
            .outputs = {}};
  const auto append = [&](Node step, const std::string& suffix, ValueId like) {
    const ValueId z = importer.between(like, suffix);
    step.outputs = {z};
    importer.emit(op, std::move(step));
    return z;
  };
  return append_transposed_conv(importer.graph(), conv, std::move(node), x, append);
}

ValueId sum_of_slices(Steps& s, const Volume& v, ValueId products, const TransposedAxis& d) {
  const int64_t n = v.x[0], k = v.w[3], pixels = v.y[2] * v.y[3];
  const ValueId all = s.reshape(products, {n, d.in, pixels, d.kernel * k});
  const auto zeros = [&](const Steps::Ints& dims) { return s.filled(dims, 0); };
  ValueId sum = kNone;
  for (int64_t m = 0; m < d.kernel; ++m) {
    ValueId part = s.reshape(s.slice(all, 3, m * k, k), {n, d.in, 1, pixels * k});
    if (d.stride > 1) part = s.concat({part, zeros({n, d.in, d.stride - 1, pixels * k})}, 2);
    part = s.reshape(part, {n, d.in * d.stride, pixels * k});
    std::vector<ValueId> placed;
    if (m > 0) placed.push_back(zeros({n, m, pixels * k}));
    placed.push_back(part);
    if (m + 1 < d.kernel) placed.push_back(zeros({n, d.kernel - 1 - m, pixels * k}));
    part = s.concat(placed, 1);
    sum = sum == kNone ? part : s(Op::kAdd, {sum, part});
  }
  return s.reshape(s.slice(sum, 1, d.before, d.out), v.y);
}

void convert_conv_3d_transpose(Importer& importer, Operation& op) {
  const auto& options = importer.options<Conv3DOptions>(op);
  Steps s(importer, op);
  const ValueId x = importer.real_input(op, kImage), w = importer.real_input(op, kWeights);
  const Volume v = {.x = s.dims(x), .w = s.dims(w), .y = importer.integers(op, kOutputShape)};
  if (v.x.size() != 5 || v.w.size() != 5 || v.y.size() != 5 || v.w[4] != v.x[4] || v.w[3] != v.y[4] || v.x[0] != v.y[0])
    importer.bad(op, "an input of shape " + dims_text(v.x) + " for weights of shape " + dims_text(v.w));
  if (importer.value(x).quantizer || importer.value(w).quantizer) importer.unsupported(op, "codes");
  if (options.dilation_d() != 1 || options.dilation_h() != 1 || options.dilation_w() != 1)
    importer.unsupported(op, "a dilation");
  const TransposedAxis d = axis_of(
      importer, op, {.in = v.x[1], .kernel = v.w[0], .stride = options.stride_d(), .out = v.y[1]}, options.padding());
  const double added = double(v.y[0] * d.kernel) * double(v.y[2]) * double(v.y[3]) * double(v.y[4]);
  if (!(added * double(d.stride) < double(kMaxSize))) importer.unsupported(op, "so large an output");
  if (d.before + d.out > d.in * d.stride + d.kernel - 1) importer.unsupported(op, "an output beyond its last slice");
  const ValueId y = sum_of_slices(s, v, products_of_slices(importer, op, s, v, x, w), d);
  Node last{.op = Op::kClamp, .name = "", .words = {}, .inputs = {y}, .outputs = {}};
  if (op.has_input(kTransposedBias))
    last = {.op = Op::kAdd,
            .name = "",
            .words = {},
            .inputs = {y, importer.real_input(op, kTransposedBias)},
            .outputs = {}};
  importer.emit_activated(op, std::move(last), options.activation());
}

}  // namespace

std::span<const Converter> transposed_converters() {
  static constexpr Converter kRows[] = {{BuiltinOperator::TRANSPOSE_CONV, &convert_transpose_conv},
                                        {BuiltinOperator::CONV_3D_TRANSPOSE, &convert_conv_3d_transpose}};
  return kRows;
}

}  // namespace nacre::tools::tflite
