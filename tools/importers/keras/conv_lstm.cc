// Converts ConvLSTM over 1, 2 or 3 axes: an LSTM whose products are convolutions (Shi et al. 2015, arXiv:1506.04214,
// without peepholes).
//
//   x [batch, time, spatial.., in]   a = x * W + b + h * R   i, f, u, o = parts of a, along the channels; * convolves
//   c' = s(f) c + s(i) g(u)   h' = s(o) g(c')                s is recurrent_activation, g is activation
//
// x * W is one convolution over all steps. h * R has no stride, and enough padding to keep the size.
#include "tools/base/product.h"
#include "tools/importers/keras/window.h"

namespace nacre::tools::keras {
Sequence conv_lstm(const Call& layer, ValueId x, const Recurrence& given) {
  Call call = layer;
  if (call.weights.count() == 0) call.weights = layer.weights.part({"cell"}, 0, 3);
  const std::vector<int64_t> dims = call.dims(x), kernel = call.weights[0].dims;
  if (dims.size() < 4 || kernel.size() + 1 != dims.size())
    call.bad("an input of shape " + dims_text(dims) + " for a kernel of " + dims_text(kernel));
  const size_t spatial = dims.size() - 3;
  const int64_t filters = kernel.back() / 4;
  std::vector<int64_t> flat(dims.begin() + 1, dims.end());
  flat[0] *= dims[0];
  const ValueId bias = call.flag("use_bias", true) ? call.variable(2, "bias") : kNone;
  const ValueId all = convolved(call, call.reshape(x, flat), {}, bias, sizes_of(call, spatial, kernel));
  std::vector<int64_t> apart = call.dims(all), image = apart, zeros = apart;
  apart[0] = dims[1];
  apart.insert(apart.begin(), dims[0]);
  image[0] = dims[0];
  zeros[0] = 1, zeros.back() = filters;
  std::vector<int64_t> state = image;
  state.back() = filters;
  if (!given.states.empty() && given.states.size() != 2) call.bad("begins with other than two states");
  for (const ValueId each : given.states)
    if (call.dims(each) != state)
      call.bad("a state of shape " + dims_text(call.dims(each)) + ", " + dims_text(state) + " is needed");
  const ValueId projected = call.reshape(all, apart);
  const std::vector<int64_t> ones(spatial, 1);
  const WindowSizes kept = {{kernel.begin(), kernel.begin() + std::ptrdiff_t(spatial)}, ones, ones, "same"};
  const int last = int(spatial) + 1;
  const Step step = [&](int64_t t, const std::vector<ValueId>& states) -> std::vector<ValueId> {
    ValueId a = call.reshape(call.slice(projected, 1, t, 1), image);
    const bool begins = states.empty() || (given.states.empty() && t == 0);
    if (!begins) a = call.emit(Op::kAdd, {a, convolved(call, states[0], {1, "recurrent_kernel"}, kNone, kept)});
    const auto part = [&](int64_t k) { return call.slice(a, last, k * filters, filters); };
    const auto times = [&](ValueId p, ValueId q) { return call.emit(Op::kMul, {p, q}); };
    const auto gate = [&](int64_t k) { return activated(call, part(k), "recurrent_activation"); };
    ValueId cell = times(gate(0), activated(call, part(2)));
    if (!begins) cell = call.emit(Op::kAdd, {times(gate(1), states[1]), cell});
    return {times(gate(3), activated(call, cell)), cell};
  };
  Recurrence r = given;
  if (r.mask != kNone && r.states.empty()) {
    const int64_t elements = product_of(zeros);
    call.spend(elements);
    r.states.assign(2, call.constant("zeros", zeros, std::vector<float>(size_t(elements), 0)));
  }
  return unrolled(call, dims[1], r, step);
}

}  // namespace nacre::tools::keras
