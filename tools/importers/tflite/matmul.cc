// Converts CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, BATCH_MATMUL, and the pools (REDUCE_MAX is one), which share
// the window of the first two. The file has conv filters [out, h, w, in / groups], and depthwise filters [1, h, w, out]
// with output channel = input channel * multiplier + m. Dense weights are [out, in], activations NHWC.
#include <algorithm>
#include <bit>

#include "engine/model/model.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/unary.h"
#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {
namespace {

enum Input { kX, kW, kBias };

constexpr int64_t kMost = 1 << 14;  // the engine's limit on windows

// One axis of a window. SAME: out = ceil(in / stride), with half of the missing elements before and the rest after.
//
//   total = max(0, (out - 1) stride + (kernel - 1) dilation + 1 - in),   before = total / 2
struct WindowAxis {
  const char *stride_name, *dilation_name, *before_name, *after_name;
  int64_t in, kernel, stride, dilation;
};

void set_axis(Importer& importer, const Operation& op, Node& node, const WindowAxis& a, Padding padding) {
  if (a.stride < 1 || a.dilation < 1 || a.kernel < 1)
    importer.bad(op, "a stride, dilation or kernel size is not positive");
  if (a.stride > kMost || a.dilation > kMost || a.kernel > kMost) importer.unsupported(op, "a window over 2^14");
  set_integer(node, a.stride_name, int(a.stride));
  set_integer(node, a.dilation_name, int(a.dilation));
  if (padding == Padding::VALID) return;
  const int64_t out = (a.in + a.stride - 1) / a.stride;
  const int64_t total = std::max<int64_t>(0, (out - 1) * a.stride + (a.kernel - 1) * a.dilation + 1 - a.in);
  set_integer(node, a.before_name, int(total / 2));
  set_integer(node, a.after_name, int(total - total / 2));
}

bool is_coded(const Value& v) { return v.quantizer.has_value(); }

}  // namespace

void set_window(Importer& importer, const Operation& op, Node& node, const Value& x, const WindowSizes& s,
                Padding padding) {
  if (x.dims.size() != 4) importer.bad(op, "its input has " + std::to_string(x.dims.size()) + " axes, not 4");
  if (padding != Padding::SAME && padding != Padding::VALID) importer.bad(op, "padding is neither SAME nor VALID");
  set_axis(importer, op, node,
           {"stride_h", "dilation_h", "pad_top", "pad_bottom", x.dims[1], s.kernel_h, s.stride_h, s.dilation_h},
           padding);
  set_axis(importer, op, node,
           {"stride_w", "dilation_w", "pad_left", "pad_right", x.dims[2], s.kernel_w, s.stride_w, s.dilation_w},
           padding);
}

ValueId matmul_weights(Importer& importer, const Operation& op, ValueId x, size_t rank) {
  const ValueId id = importer.input(op, kW);
  const Value& w = importer.value(id);
  if (!w.constant()) importer.unsupported(op, "weights that are computed at run time");
  if (w.dims.size() != rank) importer.bad(op, "weights of shape " + dims_text(w.dims));
  if (w.type != ElementType::kFloat32) importer.unsupported(op, "weights that are neither float32 nor quantized");
  if (!is_coded(w)) return id;
  if (w.stored == ElementType::kUint8) return uint8_weights(importer, op, id, !is_coded(importer.value(x)));
  if (w.stored != ElementType::kInt8) importer.unsupported(op, "weights quantized to another type than int8 and uint8");
  if (std::any_of(w.quantizer->zero.begin(), w.quantizer->zero.end(), [](int64_t zero) { return zero != 0; }))
    importer.unsupported(op, "weights with a zero point");
  return id;
}

namespace {

// Returns the bias's quantizer in a layer between codes: a code of the bias is worth s_x s_w, the scales of x and w.
Quantizer units_of_bias(Importer& importer, const Operation& op, const Value& x, const Value& w, ElementType stored) {
  Quantizer q{.codes = stored, .scale = {}, .zero = {}, .axis = 0};
  if (!is_coded(w)) importer.unsupported(op, "float32 weights under quantized activations");
  for (const float s : w.quantizer->scale) {
    q.scale.push_back(x.quantizer->scale[0] * s);
    if (!is_scale(std::bit_cast<uint32_t>(q.scale.back())))
      importer.unsupported(op, "an input and weights whose scales multiply to no normal, finite number");
  }
  q.zero.assign(q.scale.size(), 0);
  return q;
}

bool has_int16_codes(const Value& v) { return is_coded(v) && v.quantizer->codes == ElementType::kInt16; }

// Makes a bias of int64 zeros for an int16 layer that has no bias. LiteRT's kernels sum int16 products in 64 bits
// unless the bias has 32, and the type of the bias says which.
ValueId zero_bias(Importer& importer, const Operation& op, ValueId x, ValueId w_id) {
  const Value& w = importer.value(w_id);
  const int64_t channels = op.code == BuiltinOperator::DEPTHWISE_CONV_2D ? w.dims.back() : w.dims[0];
  Value b;
  b.name = w.name + "/zero_bias";
  b.type = ElementType::kFloat32;
  b.stored = ElementType::kInt64;
  b.quantizer = units_of_bias(importer, op, importer.value(x), w, b.stored);
  if (b.quantizer->scale.size() > 1 && int64_t(b.quantizer->scale.size()) != channels)
    importer.bad(op, "weights with scales along another axis than channels");
  b.dims = {channels};
  b.data = std::make_shared<const std::vector<uint8_t>>(size_t(channels) * sizeof(int64_t));
  b.region = Region::kWeights;
  return importer.graph().add(std::move(b));
}

}  // namespace

// Returns a layer's bias. LiteRT's kernels read a bias as a list of numbers, whatever its shape is. In a layer between
// codes they read it in units of s_x s_w, whatever its own quantization is.
ValueId matmul_bias(Importer& importer, const Operation& op, size_t slot, ValueId x_id, ValueId w_id) {
  const bool int16 = has_int16_codes(importer.value(x_id));
  if (!op.has_input(slot)) return int16 ? zero_bias(importer, op, x_id, w_id) : kNone;
  const size_t values = importer.graph().values.size();
  const ValueId id = importer.input(op, slot);
  const bool first_use = importer.graph().values.size() > values;
  Value b = importer.value(id);
  const Value &x = importer.value(x_id), &w = importer.value(w_id);
  if (!b.constant()) importer.unsupported(op, "a bias that is computed at run time");
  const std::vector<int64_t> list = {b.elements()};
  if (is_coded(x)) {
    if (b.stored != ElementType::kInt32 && !(int16 && b.stored == ElementType::kInt64))
      importer.unsupported(op, int16 ? "a bias that is neither int32 nor int64, of an int16 layer"
                                     : "a bias that is not int32, of an int8 layer");
    Quantizer units = units_of_bias(importer, op, x, w, b.stored);
    if (units.scale.size() > 1 && list[0] != int64_t(units.scale.size()))
      importer.bad(op, "bias of shape " + dims_text(b.dims));
    if (b.dims == list && b.quantizer && b.quantizer->scale == units.scale) return id;
    b.quantizer = std::move(units);
    b.type = ElementType::kFloat32;
  } else {
    if (b.stored != ElementType::kFloat32) importer.unsupported(op, "a bias that is not float32, of a float32 layer");
    if (b.dims == list) return id;
  }
  b.dims = list;
  if (!first_use) return importer.graph().add(std::move(b));  // another operator reads it in another form
  importer.value(id) = std::move(b);
  return id;
}

// Sets how the layer is quantized, by the types of its operands.
void set_matmul_policy(Importer& importer, Operation& op, ValueId x, ValueId w, bool activation_zero) {
  const bool x_coded = is_coded(importer.value(x)), w_coded = is_coded(importer.value(w));
  if (x_coded && !w_coded) importer.unsupported(op, "float32 weights under quantized activations");
  Policy& policy = importer.policy(op);
  if (x_coded) {
    policy.quantization = Quantization::kInt8Static;
    policy.rounding = uint8_t(Rounding::kDouble);
  } else if (w_coded) {
    policy.quantization = Quantization::kInt8Dynamic;
    policy.activation_zero = activation_zero ? 1 : 0;
  }
}

namespace {

// Returns whether the weights' scales differ by channel. Hybrid convolutions then quantize activations with a zero
// point, and also if they have groups (LiteRT conv.cc: is_hybrid_per_channel, EvalImpl).
bool scales_differ(const Value& w) {
  if (!is_coded(w)) return false;
  const std::vector<float>& s = w.quantizer->scale;
  return std::any_of(s.begin(), s.end(), [&](float v) { return v != s[0]; });
}

void convert_conv(Importer& importer, Operation& op) {
  const auto& options = importer.options<Conv2DOptions>(op);
  ValueId x_id = importer.real_input(op, kX), w_id = matmul_weights(importer, op, x_id, 4);
  const ValueId b = matmul_bias(importer, op, kBias, x_id, w_id);
  split_channels(importer, op, x_id, w_id);
  const Value &x = importer.value(x_id), &w = importer.value(w_id);
  Node node{.op = Op::kConv2d, .name = "", .words = {}, .inputs = {x_id, w_id}, .outputs = {}};
  if (b != kNone) node.inputs.push_back(b);
  set_window(importer, op, node, x,
             {w.dims[1], w.dims[2], options.stride_h(), options.stride_w(), options.dilation_h(), options.dilation_w()},
             options.padding());
  const int64_t groups = w.dims[3] > 0 ? x.dims[3] / w.dims[3] : 0;
  if (groups < 1 || groups * w.dims[3] != x.dims[3])
    importer.bad(op, std::to_string(x.dims[3]) + " channels for weights of shape " + dims_text(w.dims));
  set_integer(node, "groups", importer.integer(op, groups, "groups"));
  set_matmul_policy(importer, op, x_id, w_id, scales_differ(w) || groups > 1);
  importer.emit_activated(op, std::move(node), options.activation());
}

// Drops the filter's first axis, of size 1. The bytes stay the same.
ValueId drop_first_axis(Importer& importer, const Operation& op, ValueId id) {
  Value w = importer.value(id);
  if (w.dims[0] != 1) importer.bad(op, "weights of shape " + dims_text(w.dims));
  if (w.quantizer && w.quantizer->scale.size() > 1 && --w.quantizer->axis != 2)
    importer.unsupported(op, "weights with scales along another axis than channels");
  w.dims.erase(w.dims.begin());
  w.name = importer.value(id).name + "/hwc";
  return importer.graph().add(std::move(w));
}

void convert_depthwise(Importer& importer, Operation& op) {
  const auto& options = importer.options<DepthwiseConv2DOptions>(op);
  const ValueId x_id = importer.real_input(op, kX), file_w = matmul_weights(importer, op, x_id, 4),
                b = matmul_bias(importer, op, kBias, x_id, file_w);
  ValueId w_id = drop_first_axis(importer, op, file_w);
  const Value &x = importer.value(x_id), &w = importer.value(w_id);
  Node node{.op = Op::kDepthwiseConv2d, .name = "", .words = {}, .inputs = {x_id, w_id}, .outputs = {}};
  if (b != kNone) node.inputs.push_back(b);
  set_window(importer, op, node, x,
             {w.dims[0], w.dims[1], options.stride_h(), options.stride_w(), options.dilation_h(), options.dilation_w()},
             options.padding());
  if (options.depth_multiplier() != 0 && int64_t{options.depth_multiplier()} * x.dims[3] != w.dims[2])
    importer.bad(op, "a depth multiplier of " + std::to_string(options.depth_multiplier()) + " for " +
                         std::to_string(x.dims[3]) + " channels and weights of shape " + dims_text(w.dims));
  set_matmul_policy(importer, op, x_id, w_id, true);
  split_rows(importer, op, w_id, node);
  importer.emit_activated(op, std::move(node), options.activation());
}

// Converts a FULLY_CONNECTED whose weights are computed at run time: y = x w^T + b for x as [rows, in].
void convert_product(Importer& importer, Operation& op) {
  const auto& options = importer.options<FullyConnectedOptions>(op);
  const ValueId x = importer.real_input(op, kX), w = importer.real_input(op, kW), y = importer.output(op);
  const std::vector<int64_t> dims = importer.value(x).dims, of_w = importer.value(w).dims;
  for (const ValueId id : {x, w})
    if (importer.value(id).quantizer) importer.unsupported(op, "weights of codes that are computed at run time");
  if (of_w.size() != 2 || dims.empty() || importer.value(x).elements() % of_w[1] != 0)
    importer.bad(op, "an input of shape " + dims_text(dims) + " for weights of shape " + dims_text(of_w));
  const auto step = [&](Node node, const char* suffix) {
    node.outputs = {importer.between(y, suffix)};
    importer.emit(op, node);
    return node.outputs[0];
  };
  ValueId rows = x;
  if (dims.size() != 2 || dims[1] != of_w[1]) {
    rows = importer.between(x, "/rows");
    importer.emit_reshape(op, x, {importer.value(x).elements() / of_w[1], of_w[1]}, rows);
  }
  Node node{.op = Op::kBatchedMatmul, .name = "", .words = {}, .inputs = {rows, w}, .outputs = {}};
  set_integer(node, "transpose_b", 1);
  if (op.has_input(kBias)) {
    const ValueId product = step(std::move(node), "/product");
    const ValueId bias = importer.real_input(op, kBias);
    node = {.op = Op::kAdd, .name = "", .words = {}, .inputs = {product, bias}, .outputs = {}};
  }
  if (!options.keep_num_dims() || dims.size() == 2)
    return importer.emit_activated(op, std::move(node), options.activation());
  const ValueId flat = importer.between(y, "/flat");
  importer.emit_activated(op, std::move(node), options.activation(), flat);
  std::vector<int64_t> restored = dims;
  restored.back() = of_w[0];
  importer.emit_reshape(op, flat, restored, y);
}

// Converts FULLY_CONNECTED, which reads x of any rank as [rows, in]. dense takes the last axis as features, so reshapes
// are added only if the file's shapes need them. Hybrid layers (float32 x, int8 weights) quantize each row, but dense
// each index of axis 0. So hybrid layers get x as [rows, in].
void convert_dense(Importer& importer, Operation& op) {
  const auto& options = importer.options<FullyConnectedOptions>(op);
  if (options.weights_format() != WeightsFormat::DEFAULT) importer.unsupported(op, "shuffled weights");
  if (!importer.value(importer.input(op, kW)).constant()) return convert_product(importer, op);
  ValueId x = importer.real_input(op, kX);
  ValueId w_id = matmul_weights(importer, op, x, 2);
  const ValueId b = matmul_bias(importer, op, kBias, x, w_id);
  const std::vector<int64_t> dims = importer.value(x).dims, w = importer.value(w_id).dims;
  const int64_t in = w[1], elements = importer.value(x).elements();
  if (in < 1 || dims.empty() || elements % in != 0)
    importer.bad(op, "an input of shape " + dims_text(dims) + " for weights of shape " + dims_text(w));
  const bool hybrid = !is_coded(importer.value(x)) && is_coded(importer.value(w_id));
  set_matmul_policy(importer, op, x, w_id, options.asymmetric_quantize_inputs());
  const bool keeps = options.keep_num_dims() && dims.size() != 2;
  if (keeps && dims.back() != in)
    importer.bad(op, "an input of shape " + dims_text(dims) + " for weights of shape " + dims_text(w));
  const bool flat = dims.size() == 2 && dims[1] == in, restores = keeps && hybrid;
  if (!flat && (!keeps || hybrid)) {
    const ValueId rows = importer.between(x, "/rows");
    importer.emit_reshape(op, x, {elements / in, in}, rows);
    x = rows;
  }
  split_channels(importer, op, x, w_id);
  Node node{.op = Op::kDense, .name = "", .words = {}, .inputs = {x, w_id}, .outputs = {}};
  if (b != kNone) node.inputs.push_back(b);
  if (!restores) return importer.emit_activated(op, std::move(node), options.activation());
  const ValueId rows = importer.between(importer.output(op), "/rows");
  importer.emit_activated(op, std::move(node), options.activation(), rows);
  std::vector<int64_t> restored = dims;
  restored.back() = w[0];
  importer.emit_reshape(op, rows, restored, importer.output(op));
}

void convert_batch_matmul(Importer& importer, Operation& op) {
  const auto& options = importer.options<BatchMatMulOptions>(op);
  Node node{.op = Op::kBatchedMatmul,
            .name = "",
            .words = {},
            .inputs = {importer.real_input(op, 0), importer.real_input(op, 1)},
            .outputs = {}};
  set_integer(node, "transpose_a", options.adj_x() ? 1 : 0);
  set_integer(node, "transpose_b", options.adj_y() ? 1 : 0);
  importer.emit_activated(op, std::move(node), Activation::NONE);
}

// Adds a node for the square, or for the root, of L2_POOL_2D's root mean square.
ValueId root_or_square(Importer& importer, Operation& op, ValueId x, Unary::Function function) {
  const ValueId y = importer.between(x, function == Unary::kSquare ? "/squares" : "/root");
  Node node{.op = Op::kUnary, .name = "", .words = {}, .inputs = {x}, .outputs = {y}};
  set_integer(node, "function", int(function));
  importer.emit(op, std::move(node));
  return y;
}

void convert_l2_pool(Importer& importer, Operation& op) {
  const auto& options = importer.options<Pool2DOptions>(op);
  if (importer.value(importer.real_input(op, kX)).quantizer) importer.unsupported(op, "a root of codes");
  const ValueId x = root_or_square(importer, op, importer.real_input(op, kX), Unary::kSquare);
  Node node{.op = Op::kAveragePool, .name = "", .words = {}, .inputs = {x}, .outputs = {}};
  set_window(importer, op, node, importer.value(x),
             {options.filter_h(), options.filter_w(), options.stride_h(), options.stride_w(), 1, 1}, options.padding());
  set_integer(node, "kernel_h", options.filter_h());
  set_integer(node, "kernel_w", options.filter_w());
  node.outputs = {importer.between(x, "/means")};
  const ValueId means = node.outputs[0];
  importer.emit(op, std::move(node));
  const ValueId root = root_or_square(importer, op, means, Unary::kSqrt);
  importer.emit_activated(op, {.op = Op::kClamp, .name = "", .words = {}, .inputs = {root}, .outputs = {}},
                          options.activation());
}

template <Op kOp>
void convert_pool(Importer& importer, Operation& op) {
  const auto& options = importer.options<Pool2DOptions>(op);
  const ValueId x = importer.real_input(op, kX);
  Node node{.op = kOp, .name = "", .words = {}, .inputs = {x}, .outputs = {}};
  set_window(importer, op, node, importer.value(x),
             {options.filter_h(), options.filter_w(), options.stride_h(), options.stride_w(), 1, 1}, options.padding());
  set_integer(node, "kernel_h", options.filter_h());
  set_integer(node, "kernel_w", options.filter_w());
  importer.emit_activated(op, std::move(node), options.activation());
}

// Converts a maximum over neighbouring axes first .. last (Keras: GlobalMaxPooling) to a pool over all of them, because
// a pool has an int8 form: [batch, d.., r.., e..] as [batch, d, r, e], window (1, r). Other axes become a reduction.
void convert_reduce_max(Importer& importer, Operation& op) {
  const ValueId x = importer.real_input(op, 0);
  const std::vector<int64_t> dims = importer.value(x).dims;
  const auto* options = op.record->builtin_options_as<ReducerOptions>();
  const bool keep = options != nullptr && options->keep_dims();
  std::vector<bool> reduced(dims.size());
  for (const int64_t axis : importer.integers(op, 1)) reduced[size_t(importer.axis(op, axis, dims.size()))] = true;
  std::vector<int64_t> image = {dims.empty() ? 1 : dims[0], 1, 1, 1}, left;
  for (size_t i = 0, part = 1; i < dims.size(); ++i) {
    if (reduced[i] && (i == 0 || part == 3)) return reduce_over_axes(importer, op, Reduce::kMax);
    part = reduced[i] ? 2 : part == 2 ? 3 : part;
    if (i > 0) image[part] *= dims[i];
    if (!reduced[i] || keep) left.push_back(reduced[i] ? 1 : dims[i]);
  }
  if (image[2] > kMost) return reduce_over_axes(importer, op, Reduce::kMax);
  const ValueId y = importer.output(op), in = importer.between(x, "/image"), out = importer.between(y, "/image");
  importer.emit_reshape(op, x, image, in);
  Node node{.op = Op::kMaxPool, .name = "", .words = {}, .inputs = {in}, .outputs = {out}};
  set_integer(node, "kernel_w", int(image[2]));
  importer.emit(op, std::move(node));
  importer.emit_reshape(op, out, left, y);
}

}  // namespace

std::span<const Converter> matmul_converters() {
  static constexpr Converter kRows[] = {
      {BuiltinOperator::CONV_2D, &convert_conv},
      {BuiltinOperator::DEPTHWISE_CONV_2D, &convert_depthwise},
      {BuiltinOperator::FULLY_CONNECTED, &convert_dense},
      {BuiltinOperator::BATCH_MATMUL, &convert_batch_matmul},
      {BuiltinOperator::AVERAGE_POOL_2D, &convert_pool<Op::kAveragePool>},
      {BuiltinOperator::MAX_POOL_2D, &convert_pool<Op::kMaxPool>},
      {BuiltinOperator::L2_POOL_2D, &convert_l2_pool},
      {BuiltinOperator::REDUCE_MAX, &convert_reduce_max},
  };
  return kRows;
}

}  // namespace nacre::tools::tflite
