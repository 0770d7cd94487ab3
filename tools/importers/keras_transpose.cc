// Transposed convolutions, as convolutions (transposed_conv.h).
//
//   x [n, h, w, in]   kernel of Keras [kh, kw, out, in]   y [n, h', w', out]
//
//   valid  h' = h s + max(span - s, 0)     same  h' = h s, of the whole result from (span - s) / 2 on (span > s)
#include <algorithm>

#include "tools/importers/keras_window.h"
#include "tools/importers/transposed_conv.h"

namespace nacre::tools::keras {
namespace {

TransposedConv read(const Call& call, const std::vector<int64_t>& image, size_t spatial) {
  const std::vector<int64_t> strides = call.integers("strides", spatial, 1), kernel = call.weights[0].dims,
                             dilations = call.integers("dilation_rate", spatial, 1);
  if (kernel.size() != spatial + 2) call.bad("a kernel of shape " + dims_text(kernel));
  if (kernel.back() != image[3]) call.bad("an input of " + dims_text(image) + " for a kernel of " + dims_text(kernel));
  if (call.given("output_padding")) call.unsupported("output_padding");
  const bool same = call.text("padding", "valid") == "same";
  TransposedConv conv;
  conv.k = kernel[spatial];
  conv.c = kernel.back();
  for (size_t i = 0; i < spatial; ++i) {
    const bool last = i + 1 == spatial;
    TransposedAxis& axis = last ? conv.w : conv.h;
    axis = {.in = image[last ? 2 : 1], .kernel = kernel[i], .stride = strides[i], .dilation = dilations[i]};
    if (axis.stride < 1 || axis.dilation < 1 || axis.kernel < 1 || axis.stride > kMostWindow ||
        axis.dilation > kMostWindow || axis.kernel > kMostWindow || axis.span() > kMostWindow)
      call.unsupported("such a window");
    const int64_t spare = std::max<int64_t>(axis.span() - axis.stride, 0);
    axis.before = same ? spare / 2 : 0;
    axis.out = axis.in * axis.stride + (same ? 0 : spare);
  }
  return conv;
}

ValueId constant_weights(const Call& call, const TransposedConv& conv) {
  const auto arrange = [&](const std::vector<float>& numbers) {
    Value w;
    w.dims = {int64_t(numbers.size())};
    set_reals(w, numbers);
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

// [h w, k, in] -> [in, k, h, w], which stays one parameter: the steps behind it are not folded.
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

template <int kSpatial>
void convert(Call& call) {
  need_channels_last(call);
  const bool biased = call.flag("use_bias", true), trains = call.importer->options().train;
  const ValueId x = as_image(call, call.input(), kSpatial);
  const TransposedConv conv = read(call, call.dims(x), kSpatial);
  if (biased) call.need_dims(1, {conv.k});
  call.spend(conv.h.taps() * conv.w.taps() * conv.phases() * conv.c * conv.k);
  const auto append = [&](Node made, const std::string&, ValueId) {
    Node step = call.step(made.op, std::move(made.inputs));
    step.words = std::move(made.words);
    return call.emit(std::move(step));
  };
  Node node = call.step(Op::kConv2d, {x, trains ? trained_weights(call, conv, append) : constant_weights(call, conv)});
  if (biased && !trains) node.inputs.push_back(constant_bias(call, conv));
  ValueId y = append_transposed_conv(call.importer->graph(), conv, std::move(node), x, append);
  if (biased && trains) y = call.emit(Op::kAdd, {y, call.variable(1, "bias")});
  call.outputs = {activated(call, from_image(call, y, kSpatial))};
}

constexpr Converter kTransposeRows[] = {
    {"Conv1DTranspose", &convert<1>},
    {"Conv2DTranspose", &convert<2>},
};

}  // namespace

std::span<const Converter> transpose_converters() { return kTransposeRows; }

}  // namespace nacre::tools::keras
