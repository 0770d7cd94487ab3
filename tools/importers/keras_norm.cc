// Normalizations, and what scales with stored or fixed numbers.
#include <algorithm>
#include <cmath>

#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/unary.h"
#include "tools/importers/keras.h"

namespace nacre::tools::keras {
namespace {

// Axis by configuration, of one or a list of one; the others may stand at the end only.
int single_axis(const Call& call, int rank) {
  const std::vector<int64_t> axes = call.integers("axis", 1, -1);
  return call.axis(axes[0], rank);
}

// y = scale (x - mean) / sqrt(variance + epsilon) + bias, per channel: the last axis.
void convert_batch_norm(Call& call) {
  ValueId x = call.input();
  const int axis = single_axis(call, call.rank(x)), last = call.rank(x) - 1;
  const bool has_scale = call.flag("scale", true), has_bias = call.flag("center", true);
  const size_t moments = size_t(has_scale) + size_t(has_bias);
  const int64_t channels = call.dims(x)[size_t(axis)];
  std::vector<int> perm;
  for (int i = 0; i <= last; ++i) perm.push_back(i);
  std::swap(perm[size_t(axis)], perm[size_t(last)]);
  x = call.transpose(x, perm);
  for (size_t i = 0; i < moments + 2; ++i) call.need_dims(i, {channels});
  const auto all = [&](const char* label, float number) {
    return call.constant(label, {channels},
                         std::vector<float>(size_t(channels), number));  // which Keras does not train
  };
  Node node =
      call.step(Op::kBatchNorm, {x, has_scale ? call.variable(0, "gamma") : all("gamma", 1),
                                 has_bias ? call.variable(size_t(has_scale), "beta") : all("beta", 0),
                                 call.variable(moments, "moving_mean"), call.variable(moments + 1, "moving_variance")});
  set_real(node, "epsilon", call.real("epsilon", 1e-3f));
  call.outputs = {call.transpose(call.emit(std::move(node)), perm)};
}

// Over the last axes as one. A scale and a bias are variables of their shape.
void convert_layer_norm(Call& call) {
  const ValueId x = call.input();
  const int rank = call.rank(x);
  std::vector<int64_t> axes = call.list("axis");
  if (axes.empty()) axes = {-1};
  std::vector<int> sorted;
  for (const int64_t a : axes) sorted.push_back(call.axis(a, rank));
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != rank - int(sorted.size() - i)) call.unsupported("normalizes other axes than the last");
  if (call.flag("rms_scaling", false)) call.unsupported("rms_scaling");
  const std::vector<int64_t> dims = call.dims(x);
  std::vector<int64_t> rows(dims.begin(), dims.end() - std::ptrdiff_t(sorted.size()));
  int64_t width = 1;
  for (const int a : sorted) width *= dims[size_t(a)];
  rows.push_back(width);
  size_t next = 0;
  ValueId scale = kNone, bias = kNone;
  for (const auto& [key, label, to] : {std::tuple{"scale", "gamma", &scale}, std::tuple{"center", "beta", &bias}}) {
    if (!call.flag(key, true)) continue;
    if (call.weights[next].elements() != width) call.bad("variables that do not fit its input");
    *to = call.variable(next++, label, "flat", {width});
  }
  Node node = call.step(Op::kLayerNorm, {call.reshape(x, rows), scale, bias});
  set_real(node, "epsilon", call.real("epsilon", 1e-3f));
  call.outputs = {call.reshape(call.emit(std::move(node)), dims)};
}

// A variable over one axis of y, as what broadcasts.
ValueId along(const Call& call, size_t i, const char* label, ValueId y, int axis) {
  std::vector<int64_t> shape(call.dims(y).size() - size_t(axis), 1);
  shape[0] = call.dims(y)[size_t(axis)];
  if (call.weights[i].elements() != shape[0]) call.bad("variables that do not fit its input");
  return call.variable(i, label, "broadcast", shape);
}

// Groups of channels: [batch, places, groups, c] -> [batch, groups, places c], layer_norm without a scale, and back.
void convert_group_norm(Call& call) {
  const ValueId x = call.input();
  const std::vector<int64_t> dims = call.dims(x);
  const int rank = call.rank(x), axis = single_axis(call, rank);
  if (axis != rank - 1 || rank < 2) call.unsupported("channels on another axis than the last");
  const int64_t channels = dims.back(), given = call.integer("groups", 32), groups = given == -1 ? channels : given;
  if (groups < 1 || channels % groups != 0) call.bad("groups that do not divide its channels");
  int64_t places = 1;
  for (int i = 1; i + 1 < rank; ++i) places *= dims[size_t(i)];
  const int64_t each = channels / groups;
  ValueId y = call.transpose(call.reshape(x, {dims[0], places, groups, each}), {0, 2, 1, 3});
  Node node = call.step(Op::kLayerNorm, {call.reshape(y, {dims[0], groups, places * each}), kNone, kNone});
  set_real(node, "epsilon", call.real("epsilon", 1e-3f));
  y = call.reshape(call.emit(std::move(node)), {dims[0], groups, places, each});
  y = call.reshape(call.transpose(y, {0, 2, 1, 3}), dims);
  size_t next = 0;
  if (call.flag("scale", true)) y = call.emit(Op::kMul, {y, along(call, next++, "gamma", y, axis)});
  if (call.flag("center", true)) y = call.emit(Op::kAdd, {y, along(call, next, "beta", y, axis)});
  call.outputs = {y};
}

// y = scale x / sqrt(mean x^2 + epsilon)
void convert_rms_norm(Call& call) {
  const ValueId x = call.input();
  const int axis = single_axis(call, call.rank(x));
  const ValueId squares = call.mean(call.unary(Unary::kSquare, x), {axis}, true);
  const ValueId inverse = call.unary(Unary::kRsqrt, call.shifted(squares, call.real("epsilon", 1e-6f)));
  const ValueId y = call.emit(Op::kMul, {x, inverse});
  call.outputs = {call.emit(Op::kMul, {y, along(call, 0, "scale", y, axis)})};
}

// y = x min(1 / sqrt(sum x^2), 10^12)
void convert_unit_norm(Call& call) {
  const ValueId x = call.input();
  std::vector<int64_t> axes = call.list("axis");
  if (axes.empty()) axes = {-1};
  std::vector<int> over;
  for (const int64_t a : axes) over.push_back(call.axis(a, call.rank(x)));
  const ValueId sum = call.reduce(Reduce::kSum, call.unary(Unary::kSquare, x), over, true);
  call.outputs = {call.emit(Op::kMul, {x, call.clamp(call.unary(Unary::kRsqrt, sum), 0, 1e12f)})};
}

// One number, or one per index of the last axis.
ValueId numbers_of(const Call& call, const char* key, float otherwise) {
  const Json* found = call.find(key);
  std::vector<float> numbers;
  if (found != nullptr && found->is_array())
    for (const Json& n : *found) numbers.push_back(n.get<float>());
  else numbers = {call.real(key, otherwise)};
  if (numbers.empty() || numbers.size() > (1u << 20)) call.bad(std::string(key) + " has no number");
  return call.constant(key, {int64_t(numbers.size())}, numbers);
}

// y = x scale + offset
void convert_rescaling(Call& call) {
  const ValueId x = call.emit(Op::kMul, {call.input(), numbers_of(call, "scale", 1)});
  call.outputs = {call.emit(Op::kAdd, {x, numbers_of(call, "offset", 0)})};
}

void flatten(const Json& json, std::vector<float>& numbers, int depth = 0) {
  if (depth > 8) return;
  if (json.is_number()) numbers.push_back(json.get<float>());
  else
    for (const Json& element : json) flatten(element, numbers, depth + 1);
}

// y = (x - mean) / max(sqrt(variance), epsilon), of the configuration or of data that Keras was shown
void convert_normalization(Call& call) {
  const ValueId x = call.input();
  std::vector<float> mean, variance;
  if (call.given("mean")) {
    flatten(*call.find("mean"), mean);
    if (call.given("variance")) flatten(*call.find("variance"), variance);
  } else {
    mean = call.weights[0].reals();
    variance = call.weights[1].reals();
  }
  if (call.flag("invert", false)) call.unsupported("invert");
  std::vector<int64_t> axes = call.list("axis"), shape(call.dims(x).size(), 1);
  int64_t elements = 1;
  if (!call.given("axis") && mean.size() > 1) axes = {-1};
  for (const int64_t a : axes) {
    const auto at = size_t(call.axis(a, call.rank(x)));
    if (mean.size() > 1) elements *= shape[at] = call.dims(x)[at];
  }
  if (mean.size() != variance.size() || int64_t(mean.size()) != elements) call.bad("numbers that do not fit its input");
  for (float& v : variance) v = std::max(std::sqrt(v), 1e-7f);
  const ValueId centered = call.emit(Op::kSub, {x, call.constant("mean", shape, mean)});
  call.outputs = {call.binary(Binary::kDiv, centered, call.constant("deviation", shape, variance))};
}

constexpr Converter kNormRows[] = {
    {"BatchNormalization", &convert_batch_norm}, {"BatchNormalizationV1", &convert_batch_norm},
    {"LayerNormalization", &convert_layer_norm}, {"GroupNormalization", &convert_group_norm},
    {"RMSNormalization", &convert_rms_norm},     {"UnitNormalization", &convert_unit_norm},
    {"Rescaling", &convert_rescaling},           {"Normalization", &convert_normalization},
};

}  // namespace

std::span<const Converter> norm_converters() { return kNormRows; }

}  // namespace nacre::tools::keras
