#include "tools/differentiate/differentiate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/differentiate/loss_output.h"
#include "tools/differentiate/loss_step.h"
#include "tools/differentiate/training_forward.h"
#include "tools/differentiate/update_program.h"
#include "tools/graph/operands.h"
#include "tools/graph/source_training.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

constexpr int64_t kGradientAlignment = int64_t(kAlignment);

class Differentiator {
 public:
  Differentiator(const Graph& graph, const TrainingOptions& options, const Commit& commit)
      : options_(options), commit_(commit) {
    result_.graph = graph;
  }

  Differentiated run() {
    const TrainingForward forward = prepare_forward(result_, options_);
    micro_batch_ = forward.micro_batch;
    make_sums();
    loss_ = add_loss(graph(), options_.loss, result_.sums);
    forward_count_ = graph().nodes.size();
    needs_ = depends_on_parameters(graph());
    count_readers();
    for (size_t i = forward_count_; i-- > 0;) {
      backward(i);
      if (options_.immediate) update_finished(graph().nodes[i]);
    }
    if (micro_batch_ != kNone)
      graph().nodes.push_back(make_step(Op::kCountStep, Node(), "count_micro_batch", {micro_batch_}, {}));
    for (const GradientOf& g : result_.gradients)
      if (!reached_[g.parameter]) refuse_unreached(g.parameter);
    if (options_.immediate) finish_update();
    return std::move(result_);
  }

 private:
  Graph& graph() { return result_.graph; }
  Value& value(ValueId id) { return graph().values[size_t(id)]; }
  const OpRule& rule(const Node& node) { return rule_of(graph(), node); }
  bool trains(ValueId id) { return id != kNone && value(id).trainable; }

  ValueId add_value(const std::string& name, ElementType type, std::vector<int64_t> dims, Region region) {
    Value v;
    v.name = name;
    v.type = type;
    v.dims = std::move(dims);
    v.region = region;
    return graph().add(std::move(v));
  }

  // Makes the loss scale and, unless updates are immediate, the sums of gradients: aligned parts of one value.
  void make_sums() {
    const auto size = int64_t(element_bits(result_.sums) / 8);
    int64_t bytes = 0;
    std::vector<std::pair<ValueId, int64_t>> parts;
    for (ValueId id = 0; id < ValueId(graph().values.size()); ++id) {
      if (!value(id).trainable) continue;
      parts.emplace_back(id, bytes);
      bytes += (value(id).elements() * size + kGradientAlignment - 1) / kGradientAlignment * kGradientAlignment;
    }
    const ValueId root =
        options_.immediate ? kNone : add_value(kGradientsName, result_.sums, {bytes / size}, Region::kStep);
    const std::map<ValueId, std::vector<Node>> readers = readers_of_parameters();
    for (const auto& [id, offset] : parts) {
      const std::string name = value(id).name + "/gradient";
      if (!options_.immediate) {
        const ValueId sum = add_value(name, result_.sums, value(id).dims, Region::kStep);
        value(sum).alias_of = root;
        value(sum).offset = uint64_t(offset);
        sums_[id] = sum;
      }
      GradientOf g = {value(id).name, name, {}, value(id).dims.size() > 1};
      for (const Node& reader : readers.at(id)) {
        if (reader.layer != kNone) g.layers.push_back(graph().layers[size_t(reader.layer)].name);
        if (reader.op == Op::kBatchNorm || reader.op == Op::kBatchNormTraining || reader.op == Op::kLayerNorm)
          g.decays = false;
      }
      result_.gradients.push_back(std::move(g));
    }
    const ValueId scale = add_value(kLossScaleName, ElementType::kFloat32, {1}, Region::kState);
    value(scale).kept = Kept::kNumerics;
    const SourceTraining* saved = graph().training.get();
    const bool resumes = saved != nullptr && saved->loss_scale > 0 && options_.loss_scale.kind == LossScale::kDynamic;
    const float start = resumes ? saved->loss_scale : options_.loss_scale.start().scale;
    std::vector<uint8_t> initial(sizeof start);
    std::copy_n(reinterpret_cast<const uint8_t*>(&start), sizeof start, initial.begin());
    value(scale).initial = std::make_shared<const std::vector<uint8_t>>(std::move(initial));
    seed_ = scale;
  }

  std::map<ValueId, std::vector<Node>> readers_of_parameters() {
    std::map<ValueId, std::vector<Node>> readers;
    for (const Node& node : graph().nodes)
      for (const ValueId id : node.inputs)
        if (trains(id)) readers[id].push_back(node);
    return readers;
  }

  [[noreturn]] void refuse_unreached(const std::string& parameter) {
    if (graph().outputs.size() > 1 && options_.loss.output.empty())
      throw Error(kUnsupported, graph().source,
                  fmt::format("{} does not change the loss of its first output, {}: it cannot be trained", parameter,
                              graph().outputs[0].name),
                  fmt::format("name the output to train with {train_output}, and what it does not depend on stays: {}",
                              output_names(graph()), fmt::arg("train_output", option("train-output"))));
    throw Error(kUnsupported, graph().source, parameter + " does not change the loss: it cannot be trained",
                "leave its layer out of " + option("train-layers"));
  }

  // ---- Backward ----

  bool needs(ValueId id) const { return id != kNone && size_t(id) < needs_.size() && needs_[size_t(id)]; }

  // Returns the sum of the parts of a value's gradient. kNone if it has none.
  ValueId gradient(ValueId id) {
    const auto found = parts_.find(id);
    if (found == parts_.end()) return kNone;
    std::vector<ValueId>& parts = found->second;
    while (parts.size() > 1) {
      const ValueId sum = gradient_value(id);
      Node add = make_step(Op::kAdd, near_, value(sum).name, {parts[0], parts[1]}, {sum});
      graph().nodes.push_back(std::move(add));
      parts.erase(parts.begin());
      parts[0] = sum;
    }
    return parts[0];
  }

  ValueId gradient_value(ValueId of) {
    Value v;
    v.name = value(of).name + "/gradient";
    v.dims = value(of).dims;
    v.batched = value(of).batched;
    return graph().add(std::move(v));
  }

  // Records a part of the gradient of `id`. If `id` is a parameter with a sum, the part is added to the sum at once.
  void contribute(ValueId id, ValueId part) {
    if (trains(id)) reached_[value(id).name] = true;
    const auto sum = sums_.find(id);
    if (sum == sums_.end()) return parts_[id].push_back(part);
    Node add = make_step(Op::kAccumulate, near_, value(id).name + "/accumulate", {part, sum->second}, {});
    graph().nodes.push_back(std::move(add));
  }

  void backward(size_t index) {
    const Node node = graph().nodes[index];
    if (std::ranges::none_of(node.inputs, [&](ValueId id) { return needs(id); })) return;
    near_ = node;
    const bool loss = index == loss_;
    require_read_gradients(node);
    if (!loss && (node.outputs.empty() || gradient(node.outputs[0]) == kNone)) return;
    const OpRule& op = rule(node);
    if (op.gradients.empty())
      throw Error(kUnsupported, place_of(graph(), node), "has no gradient: nothing before it can be trained",
                  "name only layers behind it with " + option("train-layers") + ", or leave the op out");
    std::vector<bool> wanted = wanted_rows(node, op);
    std::map<size_t, ValueId> made;  // by input of this node
    for (size_t row = 0; row < op.gradients.size(); ++row)
      if (wanted[row]) write_row(node, op, op.gradients[row], made);
  }

  // Throws if an output after the first has a gradient that no row of the op's gradient table reads, because it would
  // be lost silently. Example: an LSTM's cells, if the network reads the last cells.
  void require_read_gradients(const Node& node) {
    const OpRule& op = rule(node);
    for (size_t i = 1; i < node.outputs.size(); ++i) {
      const auto reads = [&](const GradientRead& read) {
        return read.source == GradientRead::kGradient && read.index == i;
      };
      if (!parts_.contains(node.outputs[i]) ||
          std::ranges::any_of(op.gradients, [&](const Gradient& row) { return std::ranges::any_of(row.reads, reads); }))
        continue;
      throw Error(
          kUnsupported, place_of(graph(), node),
          fmt::format("has no gradient of its output {}, which the loss depends on: nothing before it can be trained",
                      value(node.outputs[i]).name),
          "name only layers behind it with " + option("train-layers") + ", or let the network read its other outputs");
    }
  }

  std::vector<bool> wanted_rows(const Node& node, const OpRule& op) {
    const auto wants = [&](const Gradient& row) {
      if (is_variadic(op)) return true;
      return std::ranges::any_of(row.of, [&](uint8_t i) {
        return i < node.inputs.size() && needs(node.inputs[i]) && fits(op, row, node.inputs[i]);
      });
    };
    std::vector<bool> wanted(op.gradients.size());
    for (size_t row = op.gradients.size(); row-- > 0;) {
      wanted[row] = wanted[row] || wants(op.gradients[row]);
      if (!wanted[row]) continue;
      for (const GradientRead& read : op.gradients[row].reads)  // an earlier row must make this
        for (size_t earlier = 0; read.source == GradientRead::kInputGradient && earlier < row; ++earlier)
          if (std::ranges::count(op.gradients[earlier].of, read.index) > 0) wanted[earlier] = true;
    }
    return wanted;
  }

  // Returns whether this row of the gradient table suits x. An input may have two rows: one adds to a sum, the other
  // makes a value. A parameter with a sum takes the row that adds, any other input the other row.
  bool fits(const OpRule& op, const Gradient& row, ValueId x) const {
    const bool both = std::ranges::any_of(op.gradients, [&](const Gradient& other) {
      return other.adds != row.adds && std::ranges::equal(other.of, row.of);
    });
    return !both || row.adds == sums_.contains(x);
  }

  void write_row(const Node& node, const OpRule& op, const Gradient& row, std::map<size_t, ValueId>& made) {
    if (!is_variadic(op)) return write_step(node, row, std::vector<size_t>(row.of.begin(), row.of.end()), made);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (needs(node.inputs[i])) write_step(node, row, {i}, made);
  }

  ValueId read(const Node& node, const GradientRead& source, size_t input, const std::map<size_t, ValueId>& made) {
    const size_t i = is_variadic(rule(node)) && source.source == GradientRead::kForwardInput ? input : source.index;
    switch (source.source) {
      case GradientRead::kForwardInput: return i < node.inputs.size() ? node.inputs[i] : kNone;
      case GradientRead::kForwardOutput: return i < node.outputs.size() ? node.outputs[i] : kNone;
      case GradientRead::kGradient: return i < node.outputs.size() ? gradient(node.outputs[i]) : kNone;
      case GradientRead::kInputGradient: return made.contains(i) ? made.at(i) : kNone;
      case GradientRead::kSeed: return seed_;
    }
    return kNone;
  }

  void write_step(const Node& node, const Gradient& row, const std::vector<size_t>& of,
                  std::map<size_t, ValueId>& made) {
    std::vector<ValueId> inputs;
    for (const GradientRead& source : row.reads) inputs.push_back(read(node, source, of[0], made));
    if (row.by == Op::kNone) return contribute(node.inputs[of[0]], inputs[0]);  // the gradient is this value
    Node step = make_step(row.by, node, node.name + "/gradient", inputs, {});
    step.words = words_of(node, row, int(of[0]));
    if (row.adds) return write_sum(std::move(step), node.inputs[of[0]]);
    const ValueId x0 = node.inputs[of[0]];
    if (step.op == Op::kSumTo && get_integer(step, "negative") == 0 && value(x0).dims == value(inputs[0]).dims)
      return contribute(x0, inputs[0]);  // nothing to sum: dy itself
    std::vector<std::pair<ValueId, ValueId>> parts;
    for (const size_t i : of) {
      const ValueId x = i < node.inputs.size() ? node.inputs[i] : kNone;
      if (x == kNone) continue;  // an absent input gets no output; such inputs come last in `of`
      const ValueId part = gradient_value(x);
      step.outputs.push_back(part);
      made[i] = part;
      parts.emplace_back(x, part);
    }
    graph().nodes.push_back(std::move(step));
    for (const auto& [x, part] : parts)
      if (needs(x)) contribute(x, part);
  }

  // Writes a row that adds: to the sum of x if x is a parameter with a sum, else to zeros.
  void write_sum(Node step, ValueId x) {
    const auto sum = sums_.find(x);
    if (sum != sums_.end()) {
      reached_[value(x).name] = true;
      step.inputs.push_back(sum->second);
      graph().nodes.push_back(std::move(step));
      return;
    }
    const ValueId part = gradient_value(x);
    value(part).batched = false;
    Node zeros = make_step(Op::kZeros, Node(), value(part).name + "/zeros", {}, {part});
    zeros.layer = loss_layer(graph());
    set_integer(zeros, "rank", int(value(x).dims.size()));
    for (size_t i = 0; i < value(x).dims.size(); ++i) set_integer(zeros, "dims", int(value(x).dims[i]), int(i));
    graph().nodes.push_back(std::move(zeros));
    step.inputs.push_back(part);
    graph().nodes.push_back(std::move(step));
    contribute(x, part);
  }

  // ---- Immediate updates: a verdict step and the optimizer follow once a parameter's readers are differentiated ----

  void count_readers() {
    for (size_t i = 0; i < forward_count_; ++i)
      for (const ValueId id : graph().nodes[i].inputs)
        if (trains(id)) ++readers_[id];
  }

  UpdateSteps& updates() {
    if (!updates_) updates_.emplace(graph(), graph(), options_, result_.sums);
    return *updates_;
  }

  void update_finished(const Node& node) {
    const std::vector<ValueId> inputs = node.inputs;
    for (const ValueId id : inputs) {
      if (!trains(id) || --readers_[id] > 0) continue;
      const ValueId sum = gradient(id);
      if (sum == kNone) continue;
      const auto of = std::ranges::find(result_.gradients, value(id).name, &GradientOf::parameter);
      updates().optimize(*of, sum, updates().verdict(sum, "/" + value(id).name));
    }
  }

  // Removes the program's outputs, and the steps that only these outputs needed.
  // Steps that update a value stay.
  void drop_outputs() {
    graph().outputs.clear();
    std::vector<bool> used(graph().values.size(), false);
    std::vector<Node>& nodes = graph().nodes;
    for (size_t i = nodes.size(); i-- > 0;) {
      const OpRule& op = rule(nodes[i]);
      bool needed = false;
      for (const ValueId y : nodes[i].outputs) needed = needed || (y != kNone && used[size_t(y)]);
      for (size_t slot = 0; slot < nodes[i].inputs.size(); ++slot) needed = needed || is_updated(op, slot);
      if (!needed) {
        nodes.erase(nodes.begin() + ptrdiff_t(i));
        continue;
      }
      for (const ValueId x : nodes[i].inputs)
        if (x != kNone) used[size_t(x)] = true;
      if (nodes[i].guard != kNone) used[size_t(nodes[i].guard)] = true;
    }
  }

  // Ends an immediate update. The last verdict step checks the loss alone, because each parameter had its own verdict.
  void finish_update() {
    drop_outputs();
    const UpdateSteps::Verdict verdict = updates().verdict(updates().shared(kLossName));
    for (const StatisticsOf& s : result_.statistics) updates().statistics(s, verdict);
    updates().commit(commit_, verdict);
    updates().finish(verdict);
  }

  std::vector<uint32_t> words_of(const Node& node, const Gradient& row, int input) {
    if (row.words == nullptr) return node.words;
    const NodeOperands operands(graph(), node, rule(node));
    std::vector<uint32_t> words(4 * kMaxRank);  // room for the op with the most words, slice_gradient
    const Operands all = {operands.tensors.data(), int(operands.tensors.size()), 0};
    words.resize(size_t(row.words({node.words.data(), int(node.words.size())}, all, input, words.data())));
    return words;
  }

  const TrainingOptions& options_;
  const Commit& commit_;
  Differentiated result_;
  size_t loss_ = 0, forward_count_ = 0;
  Node near_;  // the node that is being differentiated
  ValueId seed_ = kNone, micro_batch_ = kNone;
  std::vector<bool> needs_;                        // per value
  std::map<ValueId, ValueId> sums_;                // per parameter
  std::map<ValueId, std::vector<ValueId>> parts_;  // per value: parts of its gradient
  std::map<std::string, bool> reached_;            // per parameter
  std::map<ValueId, int> readers_;                 // per parameter: its nodes that are not yet differentiated
  std::optional<UpdateSteps> updates_;             // for --update immediate
};

}  // namespace

Differentiated differentiate(const Graph& graph, const TrainingOptions& options, const Commit& commit) {
  return Differentiator(graph, options, commit).run();
}

}  // namespace nacre::tools
