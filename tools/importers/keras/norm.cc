// Converts normalizations, and layers that scale by stored or fixed numbers.
#include <algorithm>
#include <cmath>

#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/unary.h"
#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {
namespace {

// Returns the axis of the configuration, a number or a list of one. Throws for a longer list.
int single_axis(const Call& call, int rank) {
  const std::vector<int64_t> axes = call.integers("axis", 1, -1);
  return call.axis(axes[0], rank);
}

// Refuses a batch norm that would train otherwise than in Keras. Training here takes moments over the whole batch.
// Keras leaves masked steps out, and in TimeDistributed Keras 3 takes the moments of each step.
void check_moments(const Call& call) {
  Importer& file = *call.importer;
  if (!file.trains() || file.options().settled || call.frozen) return;
  if (mask_left(call, call.raw_input()) != kNone || call.keyword.contains("mask"))
    call.refuse("BatchNormalization.mask",
                "its input carries a mask, by which Keras leaves steps out of its moments, which has no form here, "
                "where it is to be trained");
  if (file.stepped() > 0 && !file.keras2())
    call.refuse("TimeDistributed.BatchNormalization",
                "is in TimeDistributed, where Keras takes its moments of each step, which has no form here, where it "
                "is to be trained");
}

// Converts BatchNormalization: y = scale (x - mean) / sqrt(variance + epsilon) + bias, per index of `axis`.
void convert_batch_norm(Call& call) {
  check_moments(call);
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
                         std::vector<float>(size_t(channels), number));  // the number is fixed, Keras does not train it
  };
  Node node =
      call.step(Op::kBatchNorm, {x, has_scale ? call.variable(0, "gamma") : all("gamma", 1),
                                 has_bias ? call.variable(size_t(has_scale), "beta") : all("beta", 0),
                                 call.variable(moments, "moving_mean"), call.variable(moments + 1, "moving_variance")});
  set_real(node, "epsilon", call.real("epsilon", 1e-3f));
  for (const size_t statistic : {3, 4})
    call.importer->keep_momentum(node.inputs[statistic], call.real("momentum", 0.99f));
  call.outputs = {call.transpose(call.emit(std::move(node)), perm)};
}

// A permutation that moves the given axes of x to the end, in order, and one that moves them back.
struct Turned {
  std::vector<int> to, back;
};
Turned to_end(int rank, const std::vector<int>& axes) {
  Turned turned;
  for (int i = 0; i < rank; ++i)
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) turned.to.push_back(i);
  turned.to.insert(turned.to.end(), axes.begin(), axes.end());
  turned.back.resize(size_t(rank));
  for (size_t i = 0; i < turned.to.size(); ++i) turned.back[size_t(turned.to[i])] = int(i);
  return turned;
}

// Returns the axes that "axis" of the configuration names, sorted. Throws if one is named twice.
std::vector<int> axes_of(const Call& call, int rank) {
  std::vector<int64_t> given = call.list("axis");
  if (given.empty()) given = {-1};
  std::vector<int> axes;
  for (const int64_t a : given) axes.push_back(call.axis(a, rank));
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) call.bad("names an axis twice");
  return axes;
}

// Normalizes over the configuration's axes, which are moved to the end and joined. Scale and bias have their shape.
void convert_layer_norm(Call& call) {
  const int rank = call.rank(call.input());
  const std::vector<int> axes = axes_of(call, rank);
  const Turned turned = to_end(rank, axes);
  const ValueId x = call.transpose(call.input(), turned.to);
  if (call.flag("rms_scaling", false)) call.unsupported("rms_scaling");
  const std::vector<int64_t> dims = call.dims(x);
  std::vector<int64_t> rows(dims.begin(), dims.end() - std::ptrdiff_t(axes.size()));
  int64_t width = 1;
  for (size_t i = rows.size(); i < dims.size(); ++i) width *= dims[i];
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
  call.outputs = {call.transpose(call.reshape(call.emit(std::move(node)), dims), turned.back)};
}

// Returns a variable over one axis of y in a shape that broadcasts.
ValueId along(const Call& call, size_t i, const char* label, ValueId y, int axis) {
  std::vector<int64_t> shape(call.dims(y).size() - size_t(axis), 1);
  shape[0] = call.dims(y)[size_t(axis)];
  if (call.weights[i].elements() != shape[0]) call.bad("variables that do not fit its input");
  return call.variable(i, label, "broadcast", shape);
}

// Normalizes groups of channels: [batch, places, groups, c] -> [batch, groups, places c], layer_norm without a scale,
// and back.
void convert_group_norm(Call& call) {
  const int rank = call.rank(call.input()), axis = rank - 1;
  if (rank < 2 || single_axis(call, rank) == 0) call.bad("channels on the axis of the batch");
  const Turned turned = to_end(rank, {single_axis(call, rank)});
  const ValueId x = call.transpose(call.input(), turned.to);
  const std::vector<int64_t> dims = call.dims(x);
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
  call.outputs = {call.transpose(y, turned.back)};
}

// Converts RMSNormalization: y = scale x / sqrt(mean x^2 + epsilon).
void convert_rms_norm(Call& call) {
  const ValueId x = call.input();
  const std::vector<int> axes = axes_of(call, call.rank(x));
  const ValueId squares = call.mean(call.unary(Unary::kSquare, x), axes, true);
  const ValueId inverse = call.unary(Unary::kRsqrt, call.shifted(squares, call.real("epsilon", 1e-6f)));
  std::vector<int64_t> shape(call.dims(x).size() - size_t(axes[0]), 1);
  int64_t elements = 1;
  for (const int axis : axes) elements *= shape[size_t(axis - axes[0])] = call.dims(x)[size_t(axis)];
  if (call.weights[0].elements() != elements) call.bad("variables that do not fit its input");
  call.outputs = {
      call.emit(Op::kMul, {call.emit(Op::kMul, {x, inverse}), call.variable(0, "scale", "broadcast", shape)})};
}

// Converts UnitNormalization: y = x min(1 / sqrt(sum x^2), 10^12).
void convert_unit_norm(Call& call) {
  const ValueId x = call.input();
  std::vector<int64_t> axes = call.list("axis");
  if (axes.empty()) axes = {-1};
  std::vector<int> over;
  for (const int64_t a : axes) over.push_back(call.axis(a, call.rank(x)));
  const ValueId sum = call.reduce(Reduce::kSum, call.unary(Unary::kSquare, x), over, true);
  call.outputs = {call.emit(Op::kMul, {x, call.clamp(call.unary(Unary::kRsqrt, sum), 0, 1e12f)})};
}

// Returns the numbers under `key` as a constant: one, or one per index of the last axis.
ValueId numbers_of(const Call& call, const char* key, float otherwise) {
  const Json* found = call.find(key);
  std::vector<float> numbers;
  if (found != nullptr && found->is_array())
    for (const Json& n : *found) numbers.push_back(n.get<float>());
  else numbers = {call.real(key, otherwise)};
  if (numbers.empty() || numbers.size() > (1u << 20)) call.bad(std::string(key) + " has no number");
  return call.constant(key, {int64_t(numbers.size())}, numbers);
}

// Converts Rescaling: y = x scale + offset.
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

// Converts Normalization: y = (x - mean) / max(sqrt(variance), 10^-7), or the inverse with `invert`. Mean and variance
// are in the configuration, or variables.
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
  std::vector<int64_t> axes = call.list("axis"), shape(call.dims(x).size(), 1);
  int64_t elements = 1;
  if (!call.given("axis") && mean.size() > 1) axes = {-1};
  for (const int64_t a : axes) {
    const auto at = size_t(call.axis(a, call.rank(x)));
    if (mean.size() > 1) elements *= shape[at] = call.dims(x)[at];
  }
  if (mean.size() != variance.size() || int64_t(mean.size()) != elements) call.bad("numbers that do not fit its input");
  for (float& v : variance) v = std::max(std::sqrt(v), 1e-7f);
  const ValueId middle = call.constant("mean", shape, mean), deviation = call.constant("deviation", shape, variance);
  if (call.flag("invert", false)) call.outputs = {call.emit(Op::kAdd, {call.emit(Op::kMul, {x, deviation}), middle})};
  else call.outputs = {call.binary(Binary::kDiv, call.emit(Op::kSub, {x, middle}), deviation)};
}

// Converts the layer inside. The stored kernel is already divided by its norm, by Keras's training.
void convert_spectral_norm(Call& call) {
  const Json& entry = call.config.at("layer");
  Call inner = call;
  inner.class_name = entry.at("class_name").text();
  inner.config = entry.at("config");
  inner.weights = call.weights.part({"layer"}, 0, call.weights.count() - std::min<size_t>(call.weights.count(), 1));
  call.importer->convert_inner(inner);
  call.outputs = inner.outputs;
}

constexpr Converter kNormRows[] = {
    {"BatchNormalization", &convert_batch_norm},
    {"BatchNormalizationV1", &convert_batch_norm},
    {"LayerNormalization", &convert_layer_norm},
    {"GroupNormalization", &convert_group_norm},
    {"RMSNormalization", &convert_rms_norm},
    {"UnitNormalization", &convert_unit_norm},
    {"Rescaling", &convert_rescaling},
    {"Normalization", &convert_normalization},
    {"SpectralNormalization", &convert_spectral_norm},
};

}  // namespace

std::span<const Converter> norm_converters() { return kNormRows; }

}  // namespace nacre::tools::keras
