#include "tools/differentiate/integer/backward.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/ops/integer_conv_gradient.h"
#include "engine/ops/integer_update.h"
#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/differentiate/differentiate.h"
#include "tools/differentiate/integer/masters.h"
#include "tools/differentiate/integer/policy.h"
#include "tools/differentiate/integer/update.h"
#include "tools/differentiate/loss_output.h"
#include "tools/differentiate/parameters.h"
#include "tools/differentiate/trained_codes.h"
#include "tools/graph/matmul_operands.h"
#include "tools/graph/op_facts.h"
#include "tools/graph/operands.h"
#include "tools/passes/policy/quantize_multiplier.h"

namespace nacre::tools {
namespace {

constexpr double kLossErrorScale = 1.0 / 128;

// The ops of a matmul's backward pass: the gradients of w and of x.
struct IntegerGradients {
  Op of, w, x;
};
constexpr IntegerGradients kIntegerGradients[] = {
    {Op::kDense, Op::kDenseInt8GradientW, Op::kDenseInt8GradientX},
    {Op::kConv2d, Op::kConv2dInt8GradientW, Op::kConv2dInt8GradientX},
    {Op::kDepthwiseConv2d, Op::kDepthwiseConv2dInt8GradientW, Op::kDepthwiseConv2dInt8GradientX}};

struct CodedError {  // the error of one value (the gradient of the loss by it) as int8 codes
  ValueId value = kNone, range = kNone;
  double scale = kLossErrorScale;  // at exponent 0
};

class IntegerBackward {
 public:
  IntegerBackward(Graph& infer, const TrainingOptions& options) : infer_(infer), options_(options) {}

  IntegerTraining run(const std::vector<int>& full) {
    const std::vector<ValueId> stored = stored_values(infer_);
    const auto takes = [&](const Node& node) {
      return std::ranges::find(full, node.layer) != full.end() && runs_in_int8(infer_, node) &&
             !reads_frozen(infer_, node, stored);
    };
    trained_ = layers_to_train(infer_, options_.train, takes, "int8 codes of weights under int8/full");
    if (trained_.empty())
      throw Error(
          kUsage, infer_.source, "there is nothing to train: no layer with weights under int8/full runs in int8",
          "give ranges with " + option("calibrate", "FILE") + ", and such layers the policy int8/full_from_float32");
    bits_ = make_masters(infer_, [&](const Node& node) { return trains(node); }, options_);
    made_.gradients = infer_;
    make_sums();
    forward_ = graph().nodes;
    find_needs();
    const ValueId y = logits();
    errors_[y] = {loss(y)};
    for (size_t i = forward_.size(); i-- > 0;) backward(forward_[i]);
    made_.update = integer_update(graph(), commit_);
    return std::move(made_);
  }

 private:
  Graph& graph() { return made_.gradients; }
  Value& value(ValueId id) { return graph().values[size_t(id)]; }
  std::string name_of_value(ValueId id) { return id == kNone ? "" : value(id).name; }
  bool trains(const Node& node) const {
    return std::ranges::find(trained_, node.layer) != trained_.end() && runs_in_int8(infer_, node);
  }

  // Puts all gradients in one block, so that one step reads them all. Each starts at a multiple of 16 bytes.
  void make_sums() {
    constexpr auto kPart = int64_t(kAlignment);
    int64_t bytes = 0;
    std::vector<std::pair<ValueId, int64_t>> parts;
    for (ValueId id = 0; id < ValueId(graph().values.size()); ++id) {
      if (!value(id).trainable) continue;
      parts.emplace_back(id, bytes);
      bytes += (value(id).elements() * 4 + kPart - 1) / kPart * kPart;
    }
    const ValueId root = graph().add(named_value(kGradientsName, ElementType::kInt32, {bytes / 4}, Region::kStep));
    for (const auto& [id, offset] : parts) {
      Value sum = named_value(value(id).name + "/gradient", ElementType::kInt32, value(id).dims, Region::kStep);
      sum.alias_of = root;
      sum.offset = uint64_t(offset);
      sums_.emplace(value(id).name, graph().add(std::move(sum)));
    }
    loss_ = graph().add(named_value(kLossName, ElementType::kInt32, {1}, Region::kStep));
    count_ = graph().add(named_value(kCountName, ElementType::kInt32, {1}, Region::kStep));
  }

  // Finds the values that depend on a trained parameter.
  void find_needs() {
    needs_.assign(graph().values.size(), false);
    for (const Node& node : forward_) {
      const bool reads =
          std::ranges::any_of(node.inputs, [&](ValueId id) { return id != kNone && needs_[size_t(id)]; });
      if (!reads && !trains(node)) continue;
      for (const ValueId id : node.outputs) needs_[size_t(id)] = true;
    }
  }

  const Node* writer_of(ValueId id) const {
    for (const Node& node : forward_)
      if (std::ranges::count(node.outputs, id) > 0) return &node;
    return nullptr;
  }

  // Returns the codes of the logits. Skips copies, dequantize and one softmax behind them; the loss has a softmax.
  ValueId logits() {
    ValueId y = loss_output(graph(), options_.loss.output);
    for (const Node* last = writer_of(y); last != nullptr; last = writer_of(y)) {
      if (last->op != Op::kCopy && last->op != Op::kDequantize && last->op != Op::kSoftmax) break;
      y = last->inputs[0];
      if (last->op == Op::kSoftmax) break;
    }
    const Value& v = value(y);
    if (v.type != ElementType::kInt8 || !v.quantizer || v.quantizer->scale.size() != 1 || v.dims.empty())
      throw Error(kUnsupported, graph().source, v.name + ", which the loss reads, is not int8",
                  "give the layers before it the policy int8/full_from_float32 or int8/static_from_float32");
    return y;
  }

  // Adds the loss, with TFLite's softmax constants as apply_policy computes them.
  CodedError loss(ValueId y) {
    const Value logits = value(y);
    Value labels = named_value("labels", ElementType::kInt32, logits.dims, Region::kArena);
    labels.dims.pop_back();
    labels.batched = logits.batched && !labels.dims.empty();
    if (labels.dims.empty()) labels.dims = {1};
    const ValueId label = graph().add(std::move(labels));
    graph().inputs.push_back({"labels", label, ""});
    const ValueId error = error_of(y);
    Node step = make_step(Op::kInt8CrossEntropy, Node(), "int8_cross_entropy", {y, label, loss_, count_}, {error});
    const double real = std::min(double(logits.quantizer->scale[0]) * double(1 << 26), double(INT32_MAX));
    const FixedPoint m = quantize_multiplier(real);
    if (m.shift < 0 || m.shift > 31 || logits.dims.back() > 4095)
      throw Error(kUnsupported, graph().source, logits.name + ": its scale or its number of classes is too large",
                  "train under int8/static_from_float32 instead of int8/full");
    set_integer(step, "multiplier", m.multiplier);
    set_integer(step, "shift", m.shift);
    set_integer(step, "diff_min", -int(std::floor(31 * double(1 << 26) / std::ldexp(1.0, m.shift))));
    graph().nodes.push_back(std::move(step));
    return {.value = error};
  }

  // Adds a value for the error of `of`: int8, in the shape of `of`.
  ValueId error_of(ValueId of) {
    Value error = named_value(value(of).name + "/error", ElementType::kInt8, value(of).dims, Region::kArena);
    error.batched = value(of).batched;
    return graph().add(std::move(error));
  }

  // ---- Backward ----

  void backward(const Node& node) {
    const ValueId y = node.outputs.empty() ? kNone : node.outputs[0];
    if (!errors_.contains(y) || !needs_[size_t(y)]) return;
    const CodedError error = whole_error(y);
    if (runs_in_int8(graph(), node)) {
      if (trains(node)) add_sums(node, error);
      const ValueId x = node.inputs[kX];
      if (needs_[size_t(x)]) errors_[x].push_back(through(node, error));
      return;
    }
    const OpFacts& facts = facts_of(node.op);
    if (!facts.passes_error) refuse(node);
    if (facts.rows == Rows::kBroadcast) pass(node, {node.inputs[0], node.inputs[1]}, error);
    else pass(node, {node.inputs[0]}, error);
  }

  [[noreturn]] void refuse(const Node& node) {
    throw Error(
        kUnsupported, place_of(graph(), node),
        fmt::format("{} has no backward pass in integers, which dense layers, convolutions, pools whose windows "
                    "do not overlap and sums have",
                    find_rule(node.op)->name),
        "name only layers behind it: " + option("train-last", "N") + " or " + option("train-layers", "PATTERN"));
  }

  // Adds up the errors that all readers of the value give it.
  CodedError whole_error(ValueId y) {
    std::vector<CodedError>& parts = errors_.at(y);
    while (parts.size() > 1) {
      const CodedError sum = added(y, parts[parts.size() - 2], parts.back());
      parts.pop_back();
      parts.back() = sum;
    }
    return parts[0];
  }

  CodedError added(ValueId y, CodedError a, CodedError b) {
    if (b.range == kNone) std::swap(a, b);
    const ValueId error = error_of(y);
    const double largest = std::max(a.scale, b.scale), one = double(1 << AddErrors::kFactorBits);
    const auto [range, amax] = new_range(error, a.range, b.range);
    Node step = make_step(Op::kAddErrors, Node(), value(error).name, {a.value, b.value, a.range, b.range, range, amax},
                          {error});
    set_integer(step, "factor_a", int(std::lround(a.scale / largest * one)));
    set_integer(step, "factor_b", int(std::lround(b.scale / largest * one)));
    graph().nodes.push_back(std::move(step));
    return {.value = error, .range = range, .scale = largest / one};
  }

  std::pair<ValueId, ValueId> new_range(ValueId error, ValueId of_error, ValueId of_other = kNone) {
    const std::string name = value(error).name;
    Value range = named_value(name + "/range", ElementType::kInt32, {2}, Region::kState);
    range.kept = Kept::kNumerics;
    range.initial = as_little_endian(std::vector<int32_t>{kUnknownRange, kUnknownLevel});
    const ValueId made = graph().add(std::move(range));
    const ValueId amax = graph().add(named_value(name + "/amax", ElementType::kUint32, {1}, Region::kStep));
    commit_.ranges.push_back({value(amax).name, value(made).name, name_of_value(of_error), name_of_value(of_other)});
    return {made, amax};
  }

  std::vector<double> weight_scales(const Node& node) {
    const Value& w = value(node.inputs[kW]);
    std::vector<double> scales(size_t(w.dims[channel_axis(node.op)]), double(w.quantizer->scale[0]));
    if (w.quantizer->scale.size() > 1) std::ranges::copy(w.quantizer->scale, scales.begin());
    return scales;
  }

  static const IntegerGradients& steps_of(const Node& node) {
    return *std::ranges::find(kIntegerGradients, node.op, &IntegerGradients::of);
  }

  // Copies the strides, dilations and padding of a convolution or pool.
  static void copy_window(const Node& from, Node& to) {
    for (const char* word :
         {"stride_h", "stride_w", "dilation_h", "dilation_w", "pad_top", "pad_left", "pad_bottom", "pad_right"})
      set_integer(to, word, get_integer(from, word));
  }

  void add_sums(const Node& node, const CodedError& error) {
    if (writes_shares(options_)) commit_.partial.push_back(partial_layer(graph(), node, bits_, options_));
    const double x_scale = double(value(node.inputs[kX]).quantizer->scale[0]);
    const auto add = [&](ValueId codes, bool last, auto change) {
      const std::string master = value(codes).name + kMaster;
      IntegerParameter p = {.master = master,
                            .gradient = master + "/gradient",
                            .range = name_of_value(error.range),
                            .change = {},
                            .channels_last = last};
      for (const double w_scale : weight_scales(node))
        p.change.push_back(std::ldexp(change(w_scale), bits_.at(value(codes).name)));
      commit_.parameters.push_back(std::move(p));
      return sums_.at(master);
    };
    if (!options_.train.biases_only) {
      const ValueId sum =
          add(node.inputs[kW], node.op == Op::kDepthwiseConv2d, [&](double w) { return error.scale * x_scale / w; });
      Node step = make_step(steps_of(node).w, node, node.name + "/gradient", {error.value, node.inputs[kX], sum}, {});
      set_integer(step, "x_zero", get_integer(node, "x_zero"));
      if (node.op != Op::kDense) copy_window(node, step);
      if (node.op == Op::kConv2d) set_integer(step, "groups", get_integer(node, "groups"));
      graph().nodes.push_back(std::move(step));
    }
    if (node.inputs[kBias] == kNone) return;
    const ValueId sum = add(node.inputs[kBias], false, [&](double w) { return error.scale / (x_scale * w); });
    graph().nodes.push_back(make_step(Op::kBiasInt8Gradient, node, node.name + "/gradient", {error.value, sum}, {}));
  }

  // Sets `low` and `high` to the codes at which the step that makes `x` clamps, or to -128 and 127. Skips reshapes.
  void set_bounds(Node& step, ValueId x) const {
    const Node* before = writer_of(x);
    while (before != nullptr && before->op == Op::kReshape) before = writer_of(before->inputs[0]);
    const bool clamps = before != nullptr && before->op != Op::kSoftmax &&
                        std::ranges::any_of(find_rule(before->op)->attributes,
                                            [](const Attribute& a) { return std::string_view(a.name) == "clamp"; }) &&
                        get_integer(*before, "clamp") == int{Clamp::kBounds};
    set_integer(step, "low", clamps ? get_integer(*before, "low") : -128);
    set_integer(step, "high", clamps ? get_integer(*before, "high") : 127);
  }

  // Returns the error of a matmul's input. Channel scales become integers of at most 14 bits that int32 sums can take.
  CodedError through(const Node& node, const CodedError& error) {
    const std::vector<double> scales = weight_scales(node);
    const Value& w = value(node.inputs[kW]);
    const double largest = *std::ranges::max_element(scales);
    const double reads =
        node.op == Op::kDepthwiseConv2d ? double(value(node.inputs[kX]).dims[3]) : double(w.dims.back());
    const double terms = double(w.elements()) / reads * 127 * 127;  // the most for one element of x
    const int bits = std::clamp(int(std::floor(std::log2(double(INT32_MAX) / terms))), 0, 14);
    std::vector<int32_t> factors;
    for (const double s : scales) factors.push_back(int32_t(std::lround(std::ldexp(s / largest, bits))));
    const ValueId factor = graph().constant(node.name + "/channel_factor", {int64_t(factors.size())}, factors);
    const ValueId x = node.inputs[kX], dx = error_of(x);
    const auto [range, amax] = new_range(dx, error.range);
    Node step = make_step(steps_of(node).x, node, node.name + "/gradient",
                          {error.value, node.inputs[kW], factor, x, error.range, range, amax}, {dx});
    if (node.op != Op::kDense) {
      copy_window(node, step);
      set_integer(step, "clamp", int{Clamp::kBounds});
    }
    if (node.op == Op::kConv2d) set_integer(step, "groups", get_integer(node, "groups"));
    set_bounds(step, x);
    graph().nodes.push_back(std::move(step));
    return {.value = dx, .range = range, .scale = std::ldexp(error.scale * largest, -bits)};
  }

  // Passes the error to each input that needs one, through a pool or as it is. Except behind a reshape, it becomes 0
  // where the input was clamped.
  void pass(const Node& node, const std::vector<ValueId>& inputs, const CodedError& error) {
    for (const ValueId x : inputs) {
      if (x == kNone || !needs_[size_t(x)]) continue;
      if (value(x).type != ElementType::kInt8) refuse(node);
      CodedError passed = error;
      if (node.op == Op::kAveragePool || node.op == Op::kMaxPool || node.op == Op::kMean)
        passed = through_pool(node, error);
      if (node.op == Op::kReshape) {
        passed.value = reshaped(node, error, x, value(x).dims);
      } else {
        const ValueId dx = error_of(x);
        Node mask = make_step(Op::kMaskError, node, node.name + "/gradient", {passed.value, x}, {dx});
        set_bounds(mask, x);
        graph().nodes.push_back(std::move(mask));
        passed.value = dx;
      }
      errors_[x].push_back(passed);
    }
  }

  // Returns the error in the shape `dims`, for a value like `of`.
  ValueId reshaped(const Node& node, const CodedError& error, ValueId of, const std::vector<int64_t>& dims) {
    const ValueId dx = error_of(of);
    value(dx).dims = dims;
    Node step = make_step(Op::kReshape, node, node.name + "/gradient", {error.value}, {dx});
    set_integer(step, "rank", int(dims.size()));
    for (size_t i = 0; i < dims.size(); ++i) set_integer(step, "dims", int(dims[i]), int(i));
    graph().nodes.push_back(std::move(step));
    return dx;
  }

  // Passes the error through a pool. A mean over the map is an average pool whose window is the whole map.
  CodedError through_pool(const Node& node, CodedError error) {
    const ValueId x = node.inputs[0];
    const std::vector<int64_t> dims = value(x).dims;
    const bool mean = node.op == Op::kMean;
    if (mean && (dims.size() != 4 || get_integer(node, "axes") != 0b0110)) refuse(node);
    if (mean) error.value = reshaped(node, error, node.outputs[0], {dims[0], 1, 1, dims[3]});
    const ValueId dx = error_of(x);
    Node step = make_step(node.op == Op::kMaxPool ? Op::kMaxPoolInt8Gradient : Op::kAveragePoolInt8Gradient, node,
                          node.name + "/gradient", {error.value, x}, {dx});
    if (!mean) copy_window(node, step);
    const int h = mean ? int(dims[1]) : get_integer(node, "kernel_h"),
              w = mean ? int(dims[2]) : get_integer(node, "kernel_w");
    if (mean) set_integer(step, "stride_h", h), set_integer(step, "stride_w", w);
    set_integer(step, "kernel_h", h);
    set_integer(step, "kernel_w", w);
    if ((!mean && get_integer(node, "clamp") != 0) ||
        check_apart({step.words.data(), int(step.words.size())}) != Code::kOk)
      refuse(node);
    graph().nodes.push_back(std::move(step));
    return {.value = dx, .range = error.range, .scale = node.op == Op::kMaxPool ? error.scale : error.scale / (h * w)};
  }

  Graph& infer_;
  const TrainingOptions& options_;
  IntegerTraining made_;
  std::vector<int> trained_;             // indices of layers
  std::map<std::string, int> bits_;      // bits of a master below its code, by the name of the codes
  std::map<std::string, ValueId> sums_;  // by the name of the master
  ValueId loss_ = kNone, count_ = kNone;
  std::vector<Node> forward_;
  std::vector<bool> needs_;  // per value of the forward pass
  std::map<ValueId, std::vector<CodedError>> errors_;
  IntegerCommit commit_;  // its ranges are in the order of the backward pass
};

}  // namespace

IntegerTraining train_in_integers(Graph& infer, const std::vector<int>& layers, const TrainingOptions& options) {
  refuse_floats(infer, options);
  return IntegerBackward(infer, options).run(layers);
}

}  // namespace nacre::tools
