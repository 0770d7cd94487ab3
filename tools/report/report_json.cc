#include "tools/report/report_json.h"

#include <fmt/format.h>

#include "tools/base/names.h"
#include "tools/model/program_cost.h"
#include "tools/model/step_kernels.h"
#include "tools/policies/policy_name.h"
#include "tools/report/kept_weights.h"

namespace nacre::tools {
namespace {

constexpr const char* kEntries[] = {"infer", "gradients", "update", "derive"};
static_assert(std::size(kEntries) == size_t(Entry::kCount));

constexpr const char* kRoles[] = {"in", "out", "update"};

Json shape_of(const TensorRecord& r) { return std::vector<int32_t>(r.dims, r.dims + r.rank); }

Json quantizer_json(const Scales& s) { return {{"scale", s.scale}, {"zero", s.zero}, {"axis", s.axis}}; }

Json policy_json(const Policy& p) {
  return {{"name", policy_name(p)},
          {"variable", name_of(p.variable)},
          {"compute", name_of(p.compute)},
          {"output", name_of(p.output)},
          {"quantization", name_of(p.quantization)},
          {"rounding", name_of(Rounding(p.rounding))},
          {"scale_form", name_of(p.scale_form)},
          {"block", p.block},
          {"activation_zero", p.activation_zero != 0},
          {"group_range", name_of(p.group_range)},
          {"operation_rounding", name_of(p.operation_rounding)},
          {"weight_fit", name_of(p.weight_fit)},
          {"weight_bits", p.weight_bits},
          {"activation_order", p.activation_order != 0},
          {"amax_history_length", p.amax_history_length},
          {"amax_rule", name_of(p.amax_rule)},
          {"margin", p.margin},
          {"update_order", name_of(p.update_order)},
          {"loss_scale", name_of(p.loss_scale)},
          {"loss_scale_value", p.loss_scale_value}};
}

Json attributes_json(const ReportStep& step) {
  Json attributes = Json::object();
  for (const ReportAttribute& attribute : step.attributes) {
    Json values = Json::array();
    for (const auto& value : attribute.values) std::visit([&](auto v) { values.push_back(v); }, value);
    attributes[attribute.name] = values.size() == 1 ? values[0] : values;
  }
  return attributes;
}

Json operand_json(const ProgramReport& report, const ReportOperand& operand) {
  Json json = {{"slot", operand.slot},
               {"role", size_t(operand.role) < std::size(kRoles) ? kRoles[size_t(operand.role)] : "unknown"}};
  if (operand.tensor == kNoIndex) {
    json["absent"] = true;
    return json;
  }
  const TensorRecord& r = report.tensor(operand.tensor);
  json.update({{"tensor", operand.tensor},
               {"name", report.loaded().tensor_name(operand.tensor)},
               {"type", name_of(r.element)},
               {"shape", shape_of(r)},
               {"region", name_of(r.region)}});
  return json;
}

Json step_json(const ProgramReport& report, const ReportStep& step) {
  Json operands = Json::array();
  for (const ReportOperand& operand : step.operands) operands.push_back(operand_json(report, operand));
  return {{"step", step.index},
          {"op", step.op_name},
          {"layer", step.layer == kNoIndex ? Json(nullptr) : Json(report.layers()[step.layer].name)},
          {"rounding", name_of(step.rounding)},
          {"place", step.place},
          {"guard", step.guard == kNoIndex ? Json(nullptr) : Json(step.guard)},
          {"kernel", step.kernel.empty() ? Json(nullptr) : Json(step.kernel)},
          {"reference", is_reference(step.kernel)},
          {"attributes", attributes_json(step)},
          {"operands", operands},
          {"multiply_accumulates", step.multiply_accumulates},
          {"weight_bytes", step.weight_bytes},
          {"activation_bytes", step.activation_bytes}};
}

Json layer_json(const ProgramReport& report, const ReportLayer& layer) {
  Json outputs = Json::array();
  for (const uint32_t index : layer.steps)
    if (const uint32_t y = report.steps()[index].output(); y != kNoIndex)
      outputs.push_back({{"tensor", y}, {"shape", shape_of(report.tensor(y))}});
  return {{"name", layer.name},
          {"source_op", layer.source_op},
          {"policy", policy_json(layer.policy)},
          {"steps", layer.steps},
          {"outputs", outputs},
          {"multiply_accumulates", layer.multiply_accumulates},
          {"weight_bytes", layer.weight_bytes},
          {"activation_bytes", layer.activation_bytes}};
}

Json binding_json(const ProgramReport& report, const std::string& name, const std::string& layout, uint32_t tensor) {
  Json json = {{"name", name},
               {"tensor", tensor},
               {"type", name_of(report.tensor(tensor).element)},
               {"shape", shape_of(report.tensor(tensor))}};
  if (!layout.empty()) json["layout"] = layout;
  if (const std::optional<Scales> scales = report.loaded().scales(tensor)) json["quantizer"] = quantizer_json(*scales);
  return json;
}

// Returns the tensors that the program uses: its own in the arena, and the operands of its steps.
Json tensors_json(const ProgramReport& report) {
  const ProgramView& view = report.view();
  std::vector<bool> used(report.loaded().model().tensors().size(), false);
  for (uint32_t i = 0; i < view.tensor_count; ++i) used[view.first_tensor + i] = true;
  for (const ReportStep& step : report.steps())
    for (const ReportOperand& operand : step.operands)
      if (operand.tensor != kNoIndex) used[operand.tensor] = true;
  for (const ReportStep& step : report.steps())
    if (step.guard != kNoIndex) used[step.guard] = true;
  Json tensors = Json::array();
  for (uint32_t id = 0; id < used.size(); ++id)
    if (used[id]) tensors.push_back(tensor_json(report, id));
  return tensors;
}

Json golden_json(const LoadedModel& model) {
  Json list = Json::array();
  for (const GoldenView& pair : model.golden())
    list.push_back({{"program", pair.program},
                    {"input_bytes", pair.inputs.size()},
                    {"output_bytes", pair.outputs.size()},
                    {"tolerance", pair.tolerance}});
  return list;
}

}  // namespace

Json tensor_json(const ProgramReport& report, uint32_t tensor) {
  const TensorRecord& r = report.tensor(tensor);
  Json json = {{"tensor", tensor},
               {"name", report.loaded().tensor_name(tensor)},
               {"type", name_of(r.element)},
               {"shape", shape_of(r)},
               {"bytes", r.bytes},
               {"region", name_of(r.region)},
               {"bank", r.bank},
               {"offset", report.location(tensor).offset},
               {"batched", (r.flags & kBatched) != 0},
               {"trainable", (r.flags & kTrainable) != 0}};
  if (r.region == Region::kArena) json.update({{"first_step", r.first_step}, {"last_step", r.last_step}});
  if (r.alias_of != kNoIndex) json["alias_of"] = r.alias_of;
  if (const std::optional<Scales> scales = report.loaded().scales(tensor)) json["quantizer"] = quantizer_json(*scales);
  return json;
}

Json program_json(const ProgramReport& report) {
  const Statistics s = statistics(report.loaded(), report.program());
  const ProgramNames& names = report.names();
  const ProgramView& view = report.view();
  Json banks = Json::array(), inputs = Json::array(), outputs = Json::array(), layers = Json::array(),
       steps = Json::array();
  for (const BankUse& bank : s.banks) banks.push_back({{"name", bank.name}, {"bytes", bank.bytes}});
  for (size_t i = 0; i < view.inputs.size(); ++i)
    inputs.push_back(binding_json(report, names.inputs[i], names.input_layouts[i], view.inputs[i]));
  for (size_t i = 0; i < view.outputs.size(); ++i)
    outputs.push_back(binding_json(report, names.outputs[i], names.output_layouts[i], view.outputs[i]));
  for (const ReportLayer& layer : report.layers()) layers.push_back(layer_json(report, layer));
  for (const ReportStep& step : report.steps()) steps.push_back(step_json(report, step));
  const std::map<std::string, uint32_t> left = report.reference_ops();
  uint32_t reference_steps = 0;
  for (const auto& [op, count] : left) reference_steps += count;
  return {{"entry", kEntries[size_t(view.entry)]},
          {"target", names.target},
          {"kernels", report.kernels()},
          {"reference_steps", reference_steps},
          {"reference_ops", left},
          {"batch", s.batch},
          {"multiply_accumulates", s.multiply_accumulates},
          {"arena_bytes", s.arena_bytes},
          {"liveness_bound", s.liveness_bound},
          {"banks", banks},
          {"inputs", inputs},
          {"outputs", outputs},
          {"layers", layers},
          {"steps", steps},
          {"tensors", tensors_json(report)}};
}

Json model_json(const LoadedModel& model, const std::string& target) {
  Json metadata = Json::object(), programs = Json::array();
  for (const auto& [key, value] : model.metadata()) metadata[key] = value;
  for (uint32_t i = 0; i < model.model().program_count(); ++i)
    programs.push_back(program_json(ProgramReport(model, i, target)));
  std::string hash;
  for (const uint8_t byte : model.model().header().hash) hash += fmt::format("{:02x}", byte);
  return {{"model", model.path()},
          {"hash", hash},
          {"version", model.model().header().version},
          {"file_bytes", model.model().bytes().size()},
          {"weight_bytes", model.weight_bytes()},
          {"metadata", metadata},
          {"golden", golden_json(model)},
          {"kept_weights", kept_weights(model, 0)},
          {"programs", programs}};
}

}  // namespace nacre::tools
