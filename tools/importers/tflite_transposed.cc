// TRANSPOSE_CONV: inputs output_shape [4], weights [out, h, w, in], x, bias; as a convolution (transposed_conv.h). On
// codes its sums, their bias and rounding are those of LiteRT's reference kernel (reference/integer_ops/
// transpose_conv.h): filled-up taps are 0 and padded pixels the zero point, which add nothing. An output_shape that is
// given at run time has to be what the file declares of the output: memory is planned for that, and it is not read.
//
// SAME: of the convolution that this is the transpose of, from out to in, total / 2 is before:
//
//   total = max(0, (ceil(out / stride) - 1) stride + kernel - out)
#include <algorithm>

#include "tools/importers/tflite.h"
#include "tools/importers/transposed_conv.h"

namespace nacre::tools::tflite {
namespace {

enum TransposeConvInput { kOutputShape, kWeights, kImage, kTransposedBias };  // kWeights as in CONV_2D

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
  const std::vector<int64_t> shape = known ? importer.integers(op, kOutputShape) : importer.declared_dims(op);
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

}  // namespace

std::span<const Converter> transposed_converters() {
  static constexpr Converter kRows[] = {{BuiltinOperator::TRANSPOSE_CONV, &convert_transpose_conv}};
  return kRows;
}

}  // namespace nacre::tools::tflite
