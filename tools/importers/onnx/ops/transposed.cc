// Imports ConvTranspose. 1-D and 2-D are a convolution as in shared/transposed_conv.h, 3-D is transposed_volume. Per
// axis, with the kernel's span:
//
//   out = stride (in - 1) + output_padding + span - before - after
//
// With output_shape or auto_pad SAME (out = in stride) the pads follow from this formula. If their sum is odd, `after`
// is the larger one for SAME_UPPER, else `before`. x [n, c, h, w], w [c, out / group, kh, kw], b [out].
#include <algorithm>
#include <cstdint>

#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/formula.h"
#include "tools/importers/shared/transposed_conv.h"

namespace nacre::tools::onnx_import {
namespace {

constexpr int64_t kMostOfTransposed = 1 << 14;  // kMaxWindow of engine/ops/parameters.h

int64_t in_range(const Source& source, const char* what, int64_t value, int64_t low) {
  if (value < low || value >= kMostOfTransposed)
    source.malformed(std::string(what) + " " + std::to_string(value) + " is out of range");
  return value;
}

std::vector<int64_t> list_of(const Source& source, const char* key, size_t count, int64_t otherwise) {
  const std::vector<int64_t> values = source.integers(key, std::vector<int64_t>(count, otherwise));
  if (values.size() != count) source.malformed(std::string(key) + " does not fit the rank of its input");
  return values;
}

void set_output(const Source& source, TransposedAxis& axis, int64_t padding, size_t i, size_t spatial) {
  const std::string automatic = source.text("auto_pad", "NOTSET");
  const int64_t full = axis.stride * (axis.in - 1) + padding + axis.span();
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  if (!same && automatic != "NOTSET" && automatic != "VALID")
    source.malformed("auto_pad '" + automatic + "' is unknown");
  if (same || source.has("output_shape")) {
    std::vector<int64_t> shape(spatial, axis.in * axis.stride);
    if (source.has("output_shape")) shape = source.integers("output_shape");
    if (shape.size() == spatial + 2) shape.erase(shape.begin(), shape.begin() + 2);
    if (shape.size() != spatial) source.malformed("output_shape does not fit the rank of its input");
    axis.out = shape[i];
    const int64_t total = std::max<int64_t>(0, full - axis.out);
    axis.before = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
  } else {
    const std::vector<int64_t> pads = list_of(source, "pads", 2 * spatial, 0);
    const bool given = automatic == "NOTSET";
    axis.before = given ? in_range(source, "pad", pads[i], 0) : 0;
    axis.out = full - axis.before - (given ? in_range(source, "pad", pads[i + spatial], 0) : 0);
  }
  if (axis.out < 1 || axis.out > std::min<int64_t>(full + kMostOfTransposed, 1 << 28))
    source.malformed("gives an axis of " + std::to_string(axis.out) + " elements");
}

std::vector<TransposedAxis> read_axes(const Source& source, const Operand& x, const Operand& w) {
  const size_t spatial = x.dims.size() - 2;
  const std::vector<int64_t> kernel(w.dims.begin() + 2, w.dims.end());
  if (source.integers("kernel_shape", kernel) != kernel)
    source.malformed("kernel_shape contradicts the shape of the weights");
  const std::vector<int64_t> strides = list_of(source, "strides", spatial, 1),
                             dilations = list_of(source, "dilations", spatial, 1),
                             paddings = list_of(source, "output_padding", spatial, 0);
  std::vector<TransposedAxis> axes;
  for (size_t i = 0; i < spatial; ++i) {
    axes.push_back({.in = x.dims[i + 2],
                    .kernel = in_range(source, "kernel size", kernel[i], 1),
                    .stride = in_range(source, "stride", strides[i], 1),
                    .dilation = in_range(source, "dilation", dilations[i], 1)});
    if (axes[i].span() > kMostOfTransposed) source.refuse("its dilated kernel is larger than 16384");
    set_output(source, axes[i], in_range(source, "output_padding", paddings[i], 0), i, spatial);
  }
  return axes;
}

int64_t read_groups(const Source& source, const Operand& x, const Operand& w) {
  const int64_t groups = source.integer("group", 1);
  if (groups < 1 || x.dims[1] % groups != 0 || w.dims[0] != x.dims[1])
    source.malformed("group and weights do not fit " + std::to_string(x.dims[1]) + " channels");
  return groups;
}

TransposedConv read_transposed(const Source& source, const Operand& x, const Operand& w) {
  TransposedConv conv;
  const std::vector<TransposedAxis> axes = read_axes(source, x, w);
  conv.w = axes.back();
  if (axes.size() > 1) conv.h = axes[0];
  conv.groups = read_groups(source, x, w);
  conv.c = x.dims[1] / conv.groups;
  conv.k = w.dims[1];
  return conv;
}

// Returns w with its codes if all zero points are 0 and scales differ only between output channels; else decoded.
Value with_plain_codes(const Value& w) {
  if (!w.quantizer) return w;
  const auto zero = [](int64_t z) { return z == 0; };
  const bool of_outputs = w.quantizer->scale.size() == 1 || w.quantizer->axis == 1;
  return of_outputs && std::all_of(w.quantizer->zero.begin(), w.quantizer->zero.end(), zero) ? w : decoded(w);
}

// Makes the weights a constant. The groups share their scales: axis 1 of w has the output channels of one group.
ValueId constant_weights(Import& import, const OperandPtr& of, const Value& w, const TransposedConv& conv) {
  const int64_t taps = conv.h.kernel * conv.w.kernel;
  Value made =
      transposed_weights(with_plain_codes(w), conv,
                         {.group = conv.c * conv.k * taps, .k = taps, .h = conv.w.kernel, .w = 1, .c = conv.k * taps});
  made.name = of->name;
  return import.parameters().parameter(of, {Move::other("transposed convolution")}, std::move(made));
}

ValueId trained_weights(Import& import, const Source& source, const OperandPtr& of, const TransposedConv& conv) {
  if (!steps_make_weights(conv)) source.refuse("is to be trained, with a stride and a dilation");
  const auto append = [&](Node made, const std::string& suffix, ValueId) {
    Node step = import.step(made.op);
    step.words = std::move(made.words);
    step.inputs = std::move(made.inputs);
    return import.append(std::move(step), of->name + suffix);
  };
  return append_transposed_weights(import.graph(), conv, import.plain(of), append);
}

ValueId constant_bias(Import& import, const Source& source, const TransposedConv& conv) {
  Value made = transposed_bias(source.constant(2, "its bias"), conv);
  made.name = source.operand(2)->name;
  return import.parameters().parameter(source.operand(2), {Move::other("transposed convolution")}, std::move(made));
}

// Returns x with stride - 1 zeros between its elements along `i`, padded or cut at both ends for a kernel of stride
// 1.
Term spread(Formula& f, Term x, std::vector<int64_t>& dims, size_t i, const TransposedAxis& axis) {
  std::vector<int64_t> apart = dims, pads(2 * (dims.size() + 1), 0);
  apart.insert(apart.begin() + ptrdiff_t(i) + 1, 1);
  pads[dims.size() + 1 + i + 1] = axis.stride - 1;
  if (axis.stride > 1) x = f("Pad", {f.reshape(x, apart), f.list(pads)});
  dims[i] *= axis.stride;
  if (axis.stride > 1) x = f.reshape(x, dims);
  const int64_t length = (axis.in - 1) * axis.stride + 1, before = axis.span() - 1 - axis.before;
  const int64_t after = axis.out + axis.span() - 1 - length - before;
  const int64_t begin = std::max<int64_t>(0, -before), end = length - std::max<int64_t>(0, -after);
  if (begin > 0 || end < dims[i]) x = f.slice(x, int64_t(i), begin, end);
  dims[i] = axis.out + axis.span() - 1;
  pads.assign(2 * dims.size(), 0);
  pads[i] = std::max<int64_t>(0, before), pads[dims.size() + i] = std::max<int64_t>(0, after);
  return before > 0 || after > 0 ? f("Pad", {x, f.list(pads)}) : x;
}

// Imports ConvTranspose over volumes as a convolution of x, with zeros between its elements, by the reversed weights.
// It multiplies the zeros too, which costs stride_d stride_h stride_w times what is needed.
void transposed_volume(Import& import, const Source& source) {
  const Operand &x = *source.operand(0), &w = *source.operand(1);
  if (w.rank() != 5) source.malformed("weights and input have other ranks");
  const std::vector<TransposedAxis> axes = read_axes(source, x, w);
  const int64_t groups = read_groups(source, x, w), c = x.dims[1] / groups, k = w.dims[1];
  Formula f(import, source);
  Term y = f.input(0), weights = f.input(1);
  std::vector<int64_t> dims = x.dims, kernel, dilations;
  for (size_t i = 0; i < axes.size(); ++i) {
    y = spread(f, y, dims, i + 2, axes[i]);
    weights = f.slice(weights, int64_t(i) + 2, -1, INT64_MIN, -1);
    kernel.push_back(axes[i].kernel);
    dilations.push_back(axes[i].dilation);
  }
  const auto with_kernel = [&](std::vector<int64_t> first) {
    first.insert(first.end(), kernel.begin(), kernel.end());
    return first;
  };
  weights = f.transpose(f.reshape(weights, with_kernel({groups, c, k})), {0, 2, 1, 3, 4, 5});
  std::vector<Term> inputs = {y, f.reshape(weights, with_kernel({groups * k, c}))};
  if (source.given(2)) inputs.push_back(f.input(2));
  f.give(f("Conv", inputs, {{"group", groups}, {"dilations", dilations}}));
  f.run();
}

void conv_transpose(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  if (x->rank() < 3 || x->rank() > 5)
    source.refuse("transposed convolution over an input of rank " + std::to_string(x->rank()) +
                  ": only 1-D, 2-D and 3-D are supported");
  if (x->rank() == 5) return transposed_volume(import, source);
  if (std::count(x->dims.begin(), x->dims.end(), 0) > 0) source.refuse("its input is empty: it has no elements");
  const Value& w = source.constant(1, "its weights");
  if (int(w.dims.size()) != x->rank() || w.elements() == 0) source.malformed("weights and input have other ranks");
  if (w.type != ElementType::kFloat32) source.refuse("weights of another type than float32");
  const TransposedConv conv = read_transposed(source, *x, *source.operand(1));
  if (source.given(2) && source.constant(2, "its bias").dims != std::vector<int64_t>{conv.groups * conv.k})
    source.malformed("its bias does not fit its weights");
  import.spend(uint64_t(conv.h.taps() * conv.w.taps()) * uint64_t(conv.phases()) * uint64_t(w.dims[0] * w.dims[1]) * 8);

  const ValueId last = import.channels_last(x);
  const std::vector<int64_t> d = import.value(last).dims;
  Node node = import.step(Op::kConv2d);
  node.inputs = {x->rank() == 4 ? last : import.reshaped(last, {d[0], 1, d[1], d[2]}, x->name + "/2d"), kNone, kNone};
  node.inputs[1] = import.options().train ? trained_weights(import, source, source.operand(1), conv)
                                          : constant_weights(import, source.operand(1), w, conv);
  if (source.given(2) && !import.options().train) node.inputs[2] = constant_bias(import, source, conv);
  const auto append = [&](Node made, const std::string& suffix, ValueId) {
    Node step = import.step(made.op);
    step.words = std::move(made.words);
    step.inputs = std::move(made.inputs);
    return import.append(std::move(step), import.output_name() + suffix);
  };
  ValueId y = append_transposed_conv(import.graph(), conv, std::move(node), kNone, append);
  if (source.given(2) && import.options().train) {
    Node add = import.step(Op::kAdd);
    add.inputs = {y, import.plain(source.operand(2))};
    y = import.append(std::move(add), import.output_name());
  }
  const std::vector<int64_t> out = import.value(y).dims;
  if (x->rank() == 3) y = import.reshaped(y, {out[0], out[2], out[3]}, import.output_name() + "/1d");
  import.give_channels_last(0, y);
}

constexpr OperatorImporter kTransposedImporters[] = {{"ConvTranspose", conv_transpose}};

}  // namespace

std::span<const OperatorImporter> transposed_importers() { return kTransposedImporters; }

}  // namespace nacre::tools::onnx_import
