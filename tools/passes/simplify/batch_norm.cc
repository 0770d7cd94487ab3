// Folds per-channel arithmetic behind a matmul into its weights and bias.
//
//   u_k = sum_i x_i w_ki + b_k                       conv2d, depthwise_conv2d, dense; k: output channel
//
//   batch_norm   y_k = (u_k - mean_k) s_k + bias_k,  s_k = scale_k / sqrt(variance_k + epsilon)
//                w'_ki = w_ki s_k,   b'_k = (b_k - mean_k) s_k + bias_k
//   mul          w'_ki = w_ki c_k,   b'_k = b_k c_k
//   add, sub     b'_k = b_k + c_k,   b_k - c_k
//
// It computes in float64, rounds once, and folds into real layers only. If a quantizer is involved, the codes stay.
//
// Kernels may begin a sum with the bias, and adding c to a bias changes the order, (u + b) + c = u + (b + c). Both
// round unlike the source's sum if b or c is far larger than u. So c is not folded if b or c is above kMostBias times
// the result for an input of size 1, max_k sum_i |w_ki|. A sum of n terms differs by
//
//   |difference| <= 2^-24 n (|b| + |c| + |u|)        to first order: half a unit in the last place of each sum
//
// Only convolutions add to a bias that they have already, as onnxruntime's ConvAddFusion does.
#include <algorithm>
#include <cmath>

#include "tools/passes/simplify/simplify.h"

namespace nacre::tools {
namespace {

bool plain_real(const Value& v) {
  return v.type == ElementType::kFloat32 && !v.quantizer && (!v.constant() || v.stored == ElementType::kFloat32);
}

bool matmul(const Node* node) { return node != nullptr && is_matmul(node->op); }

// Returns whether the value is a constant that may be changed.
bool of_its_own(const Rewriter& r, ValueId id) { return r.value(id).constant() && !r.shared(id); }

int64_t channels_of(const Node& layer, const Value& w) {
  return layer.op == Op::kDepthwiseConv2d ? w.dims.back() : w.dims.front();
}

// Returns whether the value is a constant, or is made of a constant by transposes and reshapes.
bool is_stored(Rewriter& r, ValueId id) {
  while (const Node* writer = r.writer(id)) {
    if (writer->op != Op::kTranspose && writer->op != Op::kReshape) return false;
    id = writer->inputs[0];
  }
  return r.value(id).constant();
}

// Returns the float layer that writes `x` for `reader` alone. It must have stored weights, at most a bias, and no
// clamp. Returns null if there is none.
Node* layer_before(Rewriter& r, ValueId x, const Node& reader) {
  Node* layer = r.writer(x);
  if (!matmul(layer) || !r.only_reader(x, reader) || get_integer(*layer, "clamp") != 0) return nullptr;
  for (size_t slot = 0; slot < layer->inputs.size(); ++slot) {
    const ValueId id = layer->inputs[slot];
    if (id == kNone) continue;
    if (slot > 2 || !plain_real(r.value(id)) || (slot > 0 && !is_stored(r, id))) return nullptr;
    if (slot == 2 && (r.shared(id) || !r.value(id).constant())) return nullptr;
  }
  return plain_real(r.value(x)) && plain_real(r.value(reader.outputs[0])) ? layer : nullptr;
}

std::vector<double> bias_of(const Rewriter& r, const Node& layer, int64_t channels) {
  if (layer.inputs.size() < 3 || layer.inputs[2] == kNone) return std::vector<double>(size_t(channels), 0.0);
  const std::vector<float> bias = reals(r.value(layer.inputs[2]));
  return {bias.begin(), bias.end()};
}

// Sets the layer's bias. `added` is the constant that was added to the bias, or became the bias.
void set_bias(Rewriter& r, Node& layer, const std::vector<double>& bias, ValueId added) {
  const bool has = layer.inputs.size() > 2 && layer.inputs[2] != kNone;
  Graph scratch;
  const std::vector<float> rounded(bias.begin(), bias.end());
  const std::string name = r.value(has ? layer.inputs[2] : layer.outputs[0]).name + (has ? "" : "/bias");
  scratch.constant(name, {int64_t(bias.size())}, rounded);
  std::vector<const Value*> sources = {&r.value(added)};
  if (has) sources.push_back(&r.value(layer.inputs[2]));
  take_training_flags(scratch.values[0], sources);
  r.set_input(layer, 2, r.add_value(std::move(scratch.values[0]), has ? layer.inputs[2] : kNone));
}

// Multiplies the weights: w'_ki = w_ki s_k.
void scale_weights_by(Rewriter& r, Node& layer, const std::vector<double>& s) {
  const ValueId id = layer.inputs[1];
  const Value& w = r.value(id);
  std::vector<float> scaled = reals(w);
  const size_t inner = scaled.size() / s.size();
  const bool channels_last = layer.op == Op::kDepthwiseConv2d;
  for (size_t i = 0; i < scaled.size(); ++i)
    scaled[i] = float(double(scaled[i]) * s[channels_last ? i % s.size() : i / inner]);
  Graph scratch;
  scratch.constant(w.name, w.dims, scaled);
  scratch.values[0].frozen = w.frozen;
  r.set_input(layer, 1, r.add_value(std::move(scratch.values[0]), id));
}

// Makes the layer write the output of `node`. A clamp of `node` becomes the layer's.
void take_over(Rewriter& r, Node& layer, Node& node) {
  r.log("folded " + title(r, node) + " into " + title(r, layer));
  if (node.op != Op::kBatchNorm && get_integer(node, "clamp") != 0) {
    set_integer(layer, "clamp", get_integer(node, "clamp"));
    for (const char* bound : {"low", "high"}) set_real(layer, bound, get_real(node, bound));
  }
  const ValueId y = node.outputs[0];
  r.remove(node);
  r.set_output(layer, 0, y);
}

// Returns whether a constant has one element, or one per channel of the last axis.
bool per_channel(const Value& c, const Value& y, int64_t channels) {
  if (!c.constant() || !plain_real(c) || c.dims.size() > y.dims.size()) return false;
  return c.elements() == 1 || (c.elements() == channels && c.dims.back() == channels);
}

std::vector<double> channel_values(const Value& c, int64_t channels) {
  const std::vector<float> values = reals(c);
  if (values.size() == 1) return std::vector<double>(size_t(channels), double(values[0]));
  return {values.begin(), values.end()};
}

}  // namespace

bool fold_batch_norm(Rewriter& r, Node& node) {
  if (node.op != Op::kBatchNorm) return false;
  Node* layer = layer_before(r, node.inputs[0], node);
  if (layer == nullptr) return false;
  for (size_t slot = 1; slot <= 4; ++slot)
    if (const Value& v = r.value(node.inputs[slot]); !v.constant() || !plain_real(v)) return false;
  if (!of_its_own(r, layer->inputs[1])) return false;
  const int64_t channels = channels_of(*layer, r.value(layer->inputs[1]));
  std::vector<double> bias = bias_of(r, *layer, channels), s(bias.size());
  const std::vector<float> scale = reals(r.value(node.inputs[1])), shift = reals(r.value(node.inputs[2]));
  const std::vector<float> mean = reals(r.value(node.inputs[3])), variance = reals(r.value(node.inputs[4]));
  const double epsilon = double(get_real(node, "epsilon"));
  for (size_t k = 0; k < s.size(); ++k) {
    s[k] = double(scale[k]) / std::sqrt(double(variance[k]) + epsilon);
    bias[k] = (bias[k] - double(mean[k])) * s[k] + double(shift[k]);
    // If a variance is below -epsilon, or the result overflows, the source's own step stays.
    if (!std::isfinite(float(s[k])) || !std::isfinite(float(bias[k]))) return false;
  }
  scale_weights_by(r, *layer, s);
  set_bias(r, *layer, bias, node.inputs[2]);
  take_over(r, *layer, node);
  return true;
}

constexpr double kMostBias = 1024;  // 2^-24 times this is 6e-5 of the layer's result

double largest(const std::vector<double>& numbers) {
  double most = 0;
  for (const double number : numbers) most = std::max(most, std::abs(number));
  return most;
}

// Returns max_k sum_i |w_ki|, the most that an input of size 1 gives. For transposed weights it is an upper bound.
double gain_of(Rewriter& r, const Node& layer, int64_t channels) {
  ValueId id = layer.inputs[1];
  while (const Node* writer = r.writer(id)) id = writer->inputs[0];
  const std::vector<float> w = reals(r.value(id));
  const size_t inner = w.size() / size_t(channels);
  if (id != layer.inputs[1]) return largest({w.begin(), w.end()}) * double(inner);
  std::vector<double> gain(size_t(channels), 0.0);
  for (size_t i = 0; i < w.size(); ++i)
    gain[layer.op == Op::kDepthwiseConv2d ? i % gain.size() : i / inner] += std::abs(double(w[i]));
  return largest(gain);
}

// Returns whether the constant may become the layer's bias, or be added to the bias that it has.
bool may_be_bias(Rewriter& r, const Node& node, const Node& layer, const Value& c, int64_t channels, bool had_bias) {
  if (had_bias && (node.op != Op::kAdd || layer.op == Op::kDense)) return false;
  const double most = std::max(largest(bias_of(r, layer, channels)), largest(channel_values(c, channels)));
  const double gain = gain_of(r, layer, channels);
  return gain == 0 || most <= kMostBias * gain;
}

// Makes a constant the layer's bias without a copy, because other steps read it too. If it is not [channels], a reshape
// of it becomes the bias.
void share_bias(Rewriter& r, Node& layer, ValueId id, int64_t channels) {
  if (r.value(id).dims.size() != 1) {
    Value row = r.value(id);
    row.name += "/reshaped";
    row.dims = {channels};
    row.data = nullptr;
    row.stored = ElementType::kNone;
    row.region = Region::kArena;
    const ValueId y = r.add_value(std::move(row));
    r.insert_after_writer(id, reshape_node(id, {channels}, y, layer.layer));
    id = y;
  }
  r.set_input(layer, 2, id);
}

bool fold_channel_arithmetic(Rewriter& r, Node& node, const SimplifyOptions& options) {
  if (node.op != Op::kAdd && node.op != Op::kSub && !(node.op == Op::kMul && options.fold_batch_norm)) return false;
  if (node.inputs.size() > 2 && node.inputs[2] != kNone) return false;
  const Value& y = r.value(node.outputs[0]);
  for (const size_t slot : {size_t{0}, size_t{1}}) {
    if (slot == 1 && node.op == Op::kSub) return false;
    const ValueId x = node.inputs[slot];
    Node* layer = layer_before(r, x, node);
    if (layer == nullptr || r.value(x).dims != y.dims) continue;
    const int64_t channels = channels_of(*layer, r.value(layer->inputs[1]));
    const Value& constant = r.value(node.inputs[1 - slot]);
    if (!per_channel(constant, y, channels)) continue;
    const ValueId id = node.inputs[1 - slot];
    const bool had_bias = layer->inputs.size() > 2 && layer->inputs[2] != kNone;
    if (had_bias && node.op != Op::kMul && !options.fold_bias) continue;
    if (had_bias && options.keep_shared && r.value(id).variable) continue;  // these are two parameters
    if (node.op != Op::kMul && !may_be_bias(r, node, *layer, constant, channels, had_bias)) continue;
    if (r.shared(id)) {
      if (node.op != Op::kAdd || had_bias || constant.elements() != channels) continue;
      share_bias(r, *layer, id, channels);
      take_over(r, *layer, node);
      return true;
    }
    if (node.op == Op::kMul && !of_its_own(r, layer->inputs[1])) continue;
    const std::vector<double> c = channel_values(constant, channels);
    std::vector<double> bias = bias_of(r, *layer, channels);
    for (size_t k = 0; k < c.size(); ++k)
      bias[k] = node.op == Op::kMul ? bias[k] * c[k] : node.op == Op::kAdd ? bias[k] + c[k] : bias[k] - c[k];
    if (node.op == Op::kMul) scale_weights_by(r, *layer, c);
    if (node.op != Op::kMul || had_bias) set_bias(r, *layer, bias, id);
    take_over(r, *layer, node);
    return true;
  }
  return false;
}

}  // namespace nacre::tools
