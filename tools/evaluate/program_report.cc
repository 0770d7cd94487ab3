#include "tools/evaluate/program_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>

#include "engine/ops/parameters.h"
#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/graph/graph.h"
#include "tools/model/program_cost.h"
#include "tools/model/step_kernels.h"

namespace nacre::tools {
namespace {

std::string slot_name(const OpRule* rule, const std::vector<Role>& roles, size_t i) {
  if (rule == nullptr) return fmt::format("operand{}", i);
  const size_t outputs = size_t(std::ranges::count(roles, Role::kOut));
  const size_t inputs = roles.size() - outputs;
  if (i >= inputs) {
    std::string name =
        i - inputs < rule->outputs.size() ? rule->outputs[i - inputs] : fmt::format("output{}", i - inputs);
    if (name.ends_with('?')) name.pop_back();
    return name;
  }
  const bool variadic = !rule->inputs.empty() && std::strcmp(rule->inputs.back(), "...") == 0;
  if (variadic) return fmt::format("{}{}", rule->inputs[0], i);
  if (i >= rule->inputs.size()) return fmt::format("input{}", i);
  std::string name = rule->inputs[i];
  if (name.ends_with('?')) name.pop_back();
  return name;
}

// Finds attributes by name, for summary().
class Attributes {
 public:
  explicit Attributes(const ReportStep& step) : step_(step) {}

  int integer(std::string_view name) const {
    const ReportAttribute* a = find(name);
    return a != nullptr && std::holds_alternative<int32_t>(a->values[0]) ? std::get<int32_t>(a->values[0]) : 0;
  }
  const ReportAttribute* find(std::string_view name) const {
    const auto found = std::ranges::find_if(step_.attributes, [&](const ReportAttribute& a) { return name == a.name; });
    return found == step_.attributes.end() ? nullptr : &*found;
  }

 private:
  const ReportStep& step_;
};

std::string value_text(const std::variant<int32_t, float>& value) {
  return std::visit([](auto v) { return fmt::format("{}", v); }, value);
}

bool is_zero(const ReportAttribute& a) {
  return std::ranges::all_of(a.values, [](const auto& v) { return std::visit([](auto x) { return x == 0; }, v); });
}

std::string clamp_text(const Attributes& attributes) {
  if (attributes.find("clamp") == nullptr || attributes.integer("clamp") == 0) return "";
  constexpr const char* kFunctions[] = {"leaky_relu", "sigmoid", "tanh", "hard_swish", "silu", "gelu", "gelu (tanh)"};
  const int32_t function = attributes.integer("clamp") - int32_t{Clamp::kLeakyRelu};
  if (function >= 0) return function < int(std::size(kFunctions)) ? kFunctions[function] : "clamp of unknown kind";
  const std::variant<int32_t, float> low = attributes.find("low")->values[0], high = attributes.find("high")->values[0];
  const bool codes = std::holds_alternative<int32_t>(low);
  const bool from_zero = codes ? std::get<int32_t>(low) == attributes.integer("y_zero") : std::get<float>(low) == 0;
  const bool to_end = codes ? std::get<int32_t>(high) == 127 : std::get<float>(high) > 3e38f;
  if (from_zero && to_end) return "relu";
  if (from_zero && !codes && std::get<float>(high) == 6) return "relu6";
  return fmt::format("clamp {} to {}", value_text(low), value_text(high));
}

// Adds stride, dilation, padding and groups if they have an effect.
void add_window(const Attributes& a, std::vector<std::string>* parts) {
  const auto pair = [&](const char* what, int h, int w) {
    if (h > 1 || w > 1) parts->push_back(fmt::format("{} {}x{}", what, h, w));
  };
  pair("stride", a.integer("stride_h"), a.integer("stride_w"));
  pair("dilation", a.integer("dilation_h"), a.integer("dilation_w"));
  const int pads[] = {a.integer("pad_top"), a.integer("pad_left"), a.integer("pad_bottom"), a.integer("pad_right")};
  if (std::ranges::any_of(pads, [](int pad) { return pad != 0; }))
    parts->push_back(fmt::format("pad {}", fmt::join(pads, " ")));
  if (a.integer("groups") > 1) parts->push_back(fmt::format("groups {}", a.integer("groups")));
}

// Returns whether summary() does not list this attribute by name: it has other words for it, or leaves it out.
bool has_own_words(std::string_view name) {
  constexpr std::string_view kNames[] = {"clamp", "low",        "high",       "groups", "kernel_h", "kernel_w",
                                         "rank",  "left_shift", "multiplier", "shift",  "diff_min"};
  return std::ranges::find(kNames, name) != std::end(kNames) || name.starts_with("stride") ||
         name.starts_with("dilation") || name.starts_with("pad_") || name.ends_with("_zero");
}

}  // namespace

uint32_t ReportStep::output() const {
  for (const ReportOperand& operand : operands)
    if (operand.role != Role::kIn && operand.tensor != kNoIndex) return operand.tensor;
  return kNoIndex;
}

ProgramReport::ProgramReport(const LoadedModel& model, uint32_t program, const std::string& target)
    : loaded_(model), program_(program), view_(model.model().program(program)), names_(model.program_names(program)),
      kernels_(kernels_for(model, program, target)) {
  layers_.resize(loaded_.layer_count());
  for (uint32_t i = 0; i < layers_.size(); ++i) {
    const LayerName layer = loaded_.layer(i);
    layers_[i].name = layer.name;
    layers_[i].source_op = layer.source_op;
    layers_[i].policy = layer.policy;
  }
  std::vector<bool> seen(model.model().tensors().size(), false);
  for (uint32_t i = 0; i < view_.step_count; ++i) add_step(i, &seen);
  const std::vector<std::string> kernels = step_kernels(model, program, target);
  for (ReportStep& step : steps_) step.kernel = kernels[step.index];
}

std::map<std::string, uint32_t> ProgramReport::reference_ops() const {
  std::map<std::string, uint32_t> ops;
  for (const ReportStep& step : steps_)
    if (is_reference(step.kernel)) ++ops[step.op_name];
  return ops;
}

void ProgramReport::add_step(uint32_t index, std::vector<bool>* seen) {
  const Model& model = loaded_.model();
  const StepRecord& record = model.steps()[view_.first_step + index];
  const OpRule* rule = find_rule(record.op);
  ReportStep step = {.index = index,
                     .layer = record.layer,
                     .op = record.op,
                     .op_name = rule != nullptr ? rule->name : fmt::format("op{}", uint32_t(record.op)),
                     .rounding = record.rounding,
                     .place = record.place,
                     .guard = record.guard,
                     .kernel = {},
                     .operands = {},
                     .attributes = {},
                     .multiply_accumulates = nacre::tools::multiply_accumulates(model, record)};
  describe_operands(record, &step);
  describe_attributes(record, &step);
  for (const ReportOperand& operand : step.operands) {
    if (operand.tensor == kNoIndex) continue;
    if (operand.role != Role::kIn) step.activation_bytes += tensor(operand.tensor).bytes;
    const uint32_t root = location(operand.tensor).root;
    if (tensor(root).region == Region::kArena || (*seen)[root]) continue;
    (*seen)[root] = true;
    step.weight_bytes += tensor(root).bytes;
  }
  if (record.layer != kNoIndex) {
    ReportLayer& layer = layers_[record.layer];
    layer.steps.push_back(index);
    layer.multiply_accumulates += step.multiply_accumulates;
    layer.weight_bytes += step.weight_bytes;
    layer.activation_bytes += step.activation_bytes;
  }
  steps_.push_back(std::move(step));
}

void ProgramReport::describe_operands(const StepRecord& record, ReportStep* step) const {
  const uint32_t* operands = loaded_.model().operands(record);
  std::vector<Role> roles;
  for (uint32_t i = 0; i < record.operand_count; ++i) roles.push_back(Role(operands[i] >> 30));
  for (uint32_t i = 0; i < record.operand_count; ++i) {
    const uint32_t id = operands[i] & kOperandIdMask;
    step->operands.push_back({slot_name(find_rule(record.op), roles, i), roles[i], id == kNoOperand ? kNoIndex : id});
  }
}

void ProgramReport::describe_attributes(const StepRecord& record, ReportStep* step) const {
  const OpRule* rule = find_rule(record.op);
  if (rule == nullptr) return;
  const Words words = loaded_.model().words(record);
  const uint32_t y = step->output();
  const bool real_bounds = y == kNoIndex || is_float_type(tensor(y).element);
  int at = 0;
  for (const Attribute& attribute : rule->attributes) {
    ReportAttribute named = {attribute.name, {}};
    const bool real = attribute.coding == Coding::kReal || (attribute.coding == Coding::kBound && real_bounds);
    for (int i = 0; i < attribute.count; ++i, ++at) {
      const uint32_t less_one = attribute.coding == Coding::kLessOne ? 1 : 0;
      if (real) {
        named.values.emplace_back(words.real(at));
      } else {
        named.values.emplace_back(int32_t(words[at] + less_one));
      }
    }
    step->attributes.push_back(std::move(named));
  }
}

Location ProgramReport::location(uint32_t id) const {
  const TensorRecord& record = tensor(id);
  if (record.alias_of == kNoIndex) return {id, record.offset};
  return {record.alias_of, tensor(record.alias_of).offset + record.offset};
}

std::string ProgramReport::shape_text(uint32_t id) const {
  const TensorRecord& record = tensor(id);
  return dims_text(std::span(record.dims, record.rank));
}

std::string ProgramReport::types_text(const ReportStep& step) const {
  const auto type = [&](size_t i) -> std::string {
    return i < step.operands.size() && step.operands[i].tensor != kNoIndex
               ? name_of(tensor(step.operands[i].tensor).element)
               : "";
  };
  const OpRule* rule = find_rule(step.op);
  const bool matmul = rule != nullptr && rule->numerics == Numerics::kMatmul && step.operands.size() > 2;
  const std::string x = type(0), w = matmul ? type(1) : x;
  const std::string y = step.output() == kNoIndex ? "" : name_of(tensor(step.output()).element);
  if (x == w && x == y) return x;
  return fmt::format("{}{} -> {}", x, w == x ? "" : " x " + w, y);
}

std::string ProgramReport::summary(const ReportStep& step) const {
  const Attributes attributes(step);
  std::vector<std::string> parts;
  if ((step.op == Op::kConv2d || step.op == Op::kDepthwiseConv2d) && step.operands.size() > 1 &&
      step.operands[1].tensor != kNoIndex) {
    const int32_t* w = tensor(step.operands[1].tensor).dims + (step.op == Op::kConv2d ? 1 : 0);
    parts.push_back(fmt::format("{}x{}", w[0], w[1]));
  }
  if (attributes.find("kernel_h") != nullptr)
    parts.push_back(fmt::format("{}x{}", attributes.integer("kernel_h"), attributes.integer("kernel_w")));
  add_window(attributes, &parts);
  for (const ReportAttribute& a : step.attributes) {
    if (has_own_words(a.name) || is_zero(a)) continue;
    std::vector<std::string> values;
    for (const auto& value : a.values) values.push_back(value_text(value));
    parts.push_back(fmt::format("{} {}", a.name, fmt::join(values, " ")));
  }
  if (const std::string clamp = clamp_text(attributes); !clamp.empty()) parts.push_back(clamp);
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<ProgramReport::Edge> ProgramReport::edges() const {
  struct Written {
    int from;
    uint32_t tensor;
  };
  std::vector<std::vector<Written>> of_root(loaded_.model().tensors().size());
  const auto write = [&](int from, uint32_t id) { of_root[location(id).root].push_back({from, id}); };
  const auto overlap = [&](uint32_t a, uint32_t b) {
    const uint64_t at_a = location(a).offset, at_b = location(b).offset;
    return at_a < at_b + tensor(b).bytes && at_b < at_a + tensor(a).bytes;
  };
  std::vector<Edge> edges;
  const auto read = [&](uint32_t to, uint32_t id) {
    for (const Written& w : of_root[location(id).root])
      if (overlap(w.tensor, id)) edges.push_back({w.from, to, w.tensor, id});
  };
  for (size_t i = 0; i < view_.inputs.size(); ++i) write(-1 - int(i), view_.inputs[i]);
  for (const ReportStep& step : steps_) {
    for (const ReportOperand& operand : step.operands)
      if (operand.tensor != kNoIndex && operand.role != Role::kOut) read(step.index, operand.tensor);
    for (const ReportOperand& operand : step.operands)
      if (operand.tensor != kNoIndex && operand.role != Role::kIn) write(int(step.index), operand.tensor);
  }
  for (size_t i = 0; i < view_.outputs.size(); ++i) read(view_.step_count + uint32_t(i), view_.outputs[i]);
  return edges;
}

std::vector<uint64_t> ProgramReport::live_bytes() const {
  using Bytes = std::tuple<uint8_t, uint64_t, uint64_t, uint32_t>;  // bank, offset, bytes, last step
  std::set<Bytes> ending;
  std::vector<uint64_t> live(view_.step_count, 0);
  for (uint32_t id = view_.first_tensor; id < view_.first_tensor + view_.tensor_count; ++id) {
    const TensorRecord& t = tensor(id);  // sorted by first step
    if (t.alias_of != kNoIndex) continue;
    const bool takes_over = ending.contains({t.bank, t.offset, t.bytes, t.first_step});
    for (uint32_t step = t.first_step + (takes_over ? 1 : 0); step <= t.last_step; ++step) live[step] += t.bytes;
    ending.insert({t.bank, t.offset, t.bytes, t.last_step});
  }
  return live;
}

}  // namespace nacre::tools
