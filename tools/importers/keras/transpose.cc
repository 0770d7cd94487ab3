// Converts transposed convolutions to convolutions (shared/transposed_conv.h).
//
//   x [n, h, w, in]   kernel of Keras [kh, kw, out, in]   y [n, h', w', out]
//
//   valid  h' = (h - 1) s + span + p      s is the stride; p is output_padding, else max(s - span, 0)
//   same   h' = h s; with output_padding (h - 1) s + span mod 2 + p. It is cut from the whole result at `before`.
//
// Over volumes [n, d, h, w, in], each of the k_d slices of the kernel makes a result from every slice of x. All are one
// convolution over images with k_d out channels. y_o is the sum of those with i s + m dilation - before = o, for slice
// i of x and slice m of the kernel.
#include <algorithm>

#include "tools/base/product.h"
#include "tools/importers/keras/window.h"
#include "tools/importers/shared/transposed_conv.h"

namespace nacre::tools::keras {
namespace {

// Returns one axis's sizes, by keras/src/backend/common/backend_utils.py for jax, which pads the input on both sides.
TransposedAxis axis_of(const Call& call, int64_t in, size_t i, const WindowSizes& s) {
  TransposedAxis axis = {.in = in, .kernel = s.kernel[i], .stride = s.stride[i], .dilation = s.dilation[i]};
  if (axis.stride < 1 || axis.dilation < 1 || axis.kernel < 1 || axis.stride > kMostWindow ||
      axis.dilation > kMostWindow || axis.kernel > kMostWindow || axis.span() > kMostWindow)
    call.unsupported("such a window");
  const int64_t span = axis.span();
  const bool given = call.given("output_padding");
  const int64_t more = given ? call.integers("output_padding", s.kernel.size(), 0)[i] : 0;
  int64_t left = span - 1, right = span - 1 + (given ? more : std::max(axis.stride - span, int64_t{0}));
  if (s.padding == "same") {
    const int64_t both = given ? span + span % 2 - 2 + more : axis.stride + span - 2;
    left = std::min((both + 1) / 2, span - 1);
    right = both - left;
  }
  axis.before = span - 1 - left;
  axis.out = (in - 1) * axis.stride + 1 + left + right - (span - 1);
  if (axis.out < 1 || axis.out > kMostSize || more < 0) call.bad("an output of size " + std::to_string(axis.out));
  return axis;
}

// Reads a transposed convolution over the last two spatial axes of x [n, d.., h, w, in], or over its only one.
TransposedConv read(const Call& call, const std::vector<int64_t>& dims, const WindowSizes& s) {
  const std::vector<int64_t>& kernel = call.weights[0].dims;
  const size_t spatial = s.kernel.size();
  if (kernel.back() != dims.back())
    call.bad("an input of " + dims_text(dims) + " for a kernel of " + dims_text(kernel));
  TransposedConv conv;
  conv.k = kernel[spatial] * (spatial == 3 ? kernel[0] : 1);
  conv.c = kernel.back();
  conv.w = axis_of(call, dims[spatial], spatial - 1, s);
  if (spatial > 1) conv.h = axis_of(call, dims[spatial - 1], spatial - 2, s);
  call.spend(product_of({{conv.h.taps(), conv.w.taps(), conv.phases(), conv.c, conv.k}}));
  return conv;
}

// Moves the depth behind the plane: [k_d, k_h, k_w, out, in] -> [k_h, k_w, k_d, out, in].
std::vector<float> depth_behind(const std::vector<float>& numbers, const std::vector<int64_t>& d) {
  const int64_t places = d[1] * d[2], row = d[3] * d[4];
  std::vector<float> made;
  for (int64_t place = 0; place < places; ++place)
    for (int64_t i = 0; i < d[0]; ++i) {
      const auto first = numbers.begin() + (i * places + place) * row;
      made.insert(made.end(), first, first + row);
    }
  return made;
}

ValueId constant_weights(const Call& call, const TransposedConv& conv) {
  const std::vector<int64_t> dims = call.weights[0].dims;
  const auto arrange = [&](const std::vector<float>& numbers) {
    Value w;
    w.dims = {int64_t(numbers.size())};
    set_reals(w, dims.size() == 5 ? depth_behind(numbers, dims) : numbers);
    const int64_t row = conv.k * conv.c;
    return reals(transposed_weights(w, conv, {.group = 0, .k = conv.c, .h = conv.w.kernel * row, .w = row, .c = 1}));
  };
  return call.variable(0, "kernel", "transposed", {conv.phases() * conv.k, conv.h.taps(), conv.w.taps(), conv.c},
                       arrange);
}

ValueId constant_bias(const Call& call, const TransposedConv& conv) {
  const auto arrange = [&](const std::vector<float>& numbers) {
    std::vector<float> all;
    for (int64_t phase = 0; phase < conv.phases(); ++phase) all.insert(all.end(), numbers.begin(), numbers.end());
    return all;
  };
  return call.variable(1, "bias", "transposed", {conv.phases() * conv.k}, arrange);
}

// Makes a parameter [in, k, h, w] of the kernel, and nodes, which are not folded, that compute the weights from it.
ValueId trained_weights(const Call& call, const TransposedConv& conv, const AppendStep& append) {
  if (!steps_make_weights(conv)) call.unsupported("is to be trained, with a stride and a dilation");
  const int64_t places = conv.h.kernel * conv.w.kernel;
  const auto arrange = [&](const std::vector<float>& numbers) {
    const std::vector<float> in_first = transposed(numbers, places * conv.k, conv.c);
    std::vector<float> all;
    for (int64_t c = 0; c < conv.c; ++c) {
      const auto first = in_first.begin() + c * places * conv.k;
      const std::vector<float> one = transposed({first, first + places * conv.k}, places, conv.k);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  };
  const ValueId w = call.variable(0, "kernel", "trained", {conv.c, conv.k, conv.h.kernel, conv.w.kernel}, arrange);
  call.value(w).keeps_steps = true;
  return append_transposed_weights(call.importer->graph(), conv, w, append);
}

AppendStep appending(const Call& call) {
  return [&call](Node made, const std::string&, ValueId) {
    Node step = call.step(made.op, std::move(made.inputs));
    step.words = std::move(made.words);
    return call.emit(std::move(step));
  };
}

WindowSizes given_window(const Call& call, const std::vector<int64_t>& dims, size_t spatial) {
  if (dims.size() != spatial + 2) call.bad("an input of shape " + dims_text(dims));
  if (call.weights[0].dims.size() != spatial + 2) call.bad("a kernel of shape " + dims_text(call.weights[0].dims));
  return sizes_of(call, spatial, call.weights[0].dims);
}

template <int kSpatial>
void convert(Call& call) {
  const bool biased = call.flag("use_bias", true), trains = call.importer->options().train;
  const ValueId given = call.input();
  const TransposedConv conv = read(call, call.dims(given), given_window(call, call.dims(given), kSpatial));
  if (biased) call.need_dims(1, {conv.k});
  const ValueId x = as_image(call, given, kSpatial);
  const AppendStep append = appending(call);
  Node node = call.step(Op::kConv2d, {x, trains ? trained_weights(call, conv, append) : constant_weights(call, conv)});
  if (biased && !trains) node.inputs.push_back(constant_bias(call, conv));
  ValueId y = append_transposed_conv(call.importer->graph(), conv, std::move(node), x, append);
  if (biased && trains) y = call.emit(Op::kAdd, {y, call.variable(1, "bias")});
  call.outputs = {activated(call, from_image(call, y, kSpatial))};
}

// Moves the product z [n, d, h' w', k] of kernel slice m to its places in y [n, d', h' w', k]. Returns kNone if all its
// places are outside.
ValueId in_places(const Call& call, ValueId z, const TransposedAxis& depth, int64_t m) {
  const std::vector<int64_t> d = call.dims(z);
  int64_t length = d[1];
  if (depth.stride > 1) {
    z = call.pad(call.reshape(z, {d[0], d[1], 1, d[2] * d[3]}), {0, 0, 0, 0}, {0, 0, depth.stride - 1, 0});
    length = d[1] * depth.stride;
    z = call.reshape(z, {d[0], length, d[2], d[3]});
  }
  const int64_t first = m * depth.dilation - depth.before, begin = std::max<int64_t>(-first, 0),
                end = std::min(length, depth.out - first);
  if (begin >= end) return kNone;
  z = call.slice(z, 1, begin, end - begin);
  return call.pad(z, {0, first + begin, 0, 0}, {0, depth.out - first - end, 0, 0});
}

void convert_volume(Call& call) {
  if (call.importer->options().train) call.unsupported("is to be trained, over volumes");
  const ValueId x = call.input();
  const std::vector<int64_t> d = call.dims(x);
  const WindowSizes sizes = given_window(call, d, 3);
  const TransposedConv conv = read(call, d, sizes);
  const TransposedAxis depth = axis_of(call, d[1], 0, sizes);
  const ValueId images = call.reshape(x, {d[0] * d[1], d[2], d[3], d[4]});
  Node node = call.step(Op::kConv2d, {images, constant_weights(call, conv)});
  const ValueId made = append_transposed_conv(call.importer->graph(), conv, std::move(node), images, appending(call));
  const std::vector<int64_t> of = call.dims(made);
  const int64_t filters = conv.k / depth.kernel;
  const ValueId slices = call.reshape(made, {d[0], d[1], of[1] * of[2], conv.k});
  ValueId y = kNone;
  for (int64_t m = 0; m < depth.kernel; ++m) {
    const ValueId part = in_places(call, call.slice(slices, 3, m * filters, filters), depth, m);
    if (part != kNone) y = y == kNone ? part : call.emit(Op::kAdd, {y, part});
  }
  if (y == kNone) call.bad("an output of no element");
  y = call.reshape(y, {d[0], depth.out, of[1], of[2], filters});
  if (call.flag("use_bias", true)) y = call.emit(Op::kAdd, {y, call.variable(1, "bias", "", {filters})});
  call.outputs = {activated(call, y)};
}

constexpr Converter kTransposeRows[] = {
    {"Conv1DTranspose", &convert<1>},        {"Conv2DTranspose", &convert<2>},
    {"Conv3DTranspose", &convert_volume},    {"Convolution1DTranspose", &convert<1>},
    {"Convolution2DTranspose", &convert<2>}, {"Convolution3DTranspose", &convert_volume},
};

}  // namespace

std::span<const Converter> transpose_converters() { return kTransposeRows; }

}  // namespace nacre::tools::keras
