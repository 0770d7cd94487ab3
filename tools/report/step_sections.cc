#include "tools/report/step_sections.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/policies/policy_name.h"
#include "tools/report/graph_page.h"
#include "tools/report/picture/style.h"
#include "tools/report/picture/svg.h"

namespace nacre::tools {
namespace {

std::string layer_name(const ProgramReport& report, const ReportStep& step) {
  return step.layer == kNoIndex ? "" : report.layers()[step.layer].name;
}

std::string attribute_text(const ReportAttribute& attribute) {
  constexpr size_t kMost = 24;
  std::string text;
  for (size_t i = 0; i < attribute.values.size() && i < kMost; ++i) {
    if (i > 0) text += ", ";
    std::visit([&](auto value) { text += fmt::format("{}", value); }, attribute.values[i]);
  }
  return attribute.values.size() > kMost ? text + fmt::format(" and {} more", attribute.values.size() - kMost) : text;
}

// Returns "arena bytes 0 to 4,096, live in steps 0 to 1", or for a tensor outside the arena its region.
std::string place_text(const ProgramReport& report, uint32_t tensor) {
  const TensorRecord& r = report.tensor(tensor);
  if (r.region != Region::kArena) return name_of(r.region);
  const Location at = report.location(tensor);
  return fmt::format("arena bytes {} to {}, live in steps {} to {}", grouped(at.offset), grouped(at.offset + r.bytes),
                     r.first_step, r.last_step);
}

std::string scales_text(const ProgramReport& report, uint32_t tensor) {
  const std::optional<Scales> scales = report.loaded().scales(tensor);
  if (!scales || scales->scale.empty()) return "-";
  const auto [least, most] = std::ranges::minmax_element(scales->scale);
  if (scales->scale.size() == 1) return quantizer_text(scales->scale[0], scales->zero.empty() ? 0 : scales->zero[0]);
  return fmt::format("{} scales along axis {}, {:.4g} to {:.4g}", scales->scale.size(), scales->axis, *least, *most);
}

void add_operands(Html& page, const ProgramReport& report, const ReportStep& step) {
  std::vector<std::string> names;
  std::vector<const ReportOperand*> operands;
  for (const ReportOperand& operand : step.operands) {
    if (operand.tensor == kNoIndex) continue;
    operands.push_back(&operand);
    names.push_back(shown_name(report.loaded().tensor_name(operand.tensor)));
  }
  if (operands.empty()) return;
  const std::vector<Cell> cells = name_cells(names, 28);
  std::vector<CellRow> rows;
  for (size_t i = 0; i < operands.size(); ++i) {
    const ReportOperand& operand = *operands[i];
    const TensorRecord& r = report.tensor(operand.tensor);
    const char* role = operand.role == Role::kIn ? "input" : operand.role == Role::kOut ? "output" : "in place";
    rows.push_back({{.text = fmt::format("{} {}", role, operand.slot)},
                    {.text = fmt::format("{} {}", name_of(r.element), report.shape_text(operand.tensor))},
                    {.text = grouped(r.bytes)},
                    {.text = place_text(report, operand.tensor)},
                    {.text = scales_text(report, operand.tensor)},
                    cells[i]});
  }
  page.table({"operand", "type and shape", "bytes", "memory", "quantization", "tensor"}, rows,
             {.numbers_from = SIZE_MAX, .label = fmt::format("Operands of step {}", step.index), .sorts = false});
}

void add_histograms(Html& page, const ProgramReport& report, const ReportStep& step) {
  for (const ReportOperand& operand : step.operands) {
    if (operand.tensor == kNoIndex || operand.role == Role::kOut) continue;
    const std::optional<WeightHistogram> histogram = weight_histogram(report, operand.tensor);
    if (!histogram) continue;
    const bool initial = report.tensor(operand.tensor).region == Region::kState;
    const std::string text = (initial ? "initial values: " : "") + histogram_text(*histogram);
    page.figure(histogram_svg(*histogram, fmt::format("Histogram of {}: {}", operand.slot, text)),
                fmt::format("{}: {}", operand.slot, text));
  }
}

void add_section(Html& page, const StepSections& steps, const ReportStep& step) {
  const ProgramReport& report = steps.report;
  page.raw(fmt::format("<section class=\"graph-step\" id=\"{}{}\">\n", steps.id, step.index));
  page.heading(4, fmt::format("Step {}: {}", step.index, step.op_name));
  std::vector<std::pair<std::string, std::string>> terms;
  if (step.layer != kNoIndex) {
    const ReportLayer& layer = report.layers()[step.layer];
    terms.emplace_back("layer", fmt::format("{} ({})", shown_name(layer.name), shown_name(layer.source_op)));
    terms.emplace_back("policy", policy_name(layer.policy));
  }
  terms.emplace_back("kernel", step.kernel.empty() ? "none on this target" : step.kernel);
  if (step.rounding != Rounding::kNone) terms.emplace_back("rounding", name_of(step.rounding));
  if (step.multiply_accumulates > 0) terms.emplace_back("MACs", grouped(step.multiply_accumulates));
  page.definitions(terms);
  add_histograms(page, report, step);
  add_operands(page, report, step);
  terms.clear();
  for (const ReportAttribute& attribute : step.attributes)
    terms.emplace_back(attribute.name, attribute_text(attribute));
  if (!terms.empty()) page.definitions(terms);
  page.raw("</section>\n");
}

}  // namespace

void add_step_table(Html& page, const StepSections& steps) {
  const ProgramReport& report = steps.report;
  const std::vector<uint64_t> live = report.live_bytes();
  uint64_t arena = 1;
  for (const uint64_t bytes : report.view().banks) arena += bytes;
  std::vector<std::string> names;
  for (size_t i = 0; i < steps.count; ++i) names.push_back(shown_name(layer_name(report, report.steps()[i])));
  const std::vector<Cell> cells = name_cells(names, 30);
  std::vector<CellRow> rows;
  for (size_t i = 0; i < steps.count; ++i) {
    const ReportStep& step = report.steps()[i];
    rows.push_back({{.text = fmt::format("{} {}", i, step.op_name), .link = fmt::format("{}{}", steps.id, i)},
                    cells[i],
                    {.text = step.layer == kNoIndex ? "-" : short_policy(report.layers()[step.layer].policy)},
                    {.text = step.output() == kNoIndex ? "-" : short_shape(report, step.output())},
                    {.text = grouped(step.multiply_accumulates)},
                    {.text = grouped(step.weight_bytes)},
                    {.text = grouped(step.activation_bytes)},
                    {.text = grouped(live[i]), .bar = double(live[i]) / double(arena)}});
  }
  page.table(
      {"step", "layer", "policy", "output", "MACs", "weight bytes", "output bytes", "live arena bytes"}, rows,
      {.numbers_from = 4,
       .caption = "Steps, in execution order. Live arena bytes hold tensors that are needed while the step runs"});
}

void add_step_sections(Html& page, const StepSections& steps) {
  page.open_details(fmt::format("Details of {}", counted(steps.count, "step")));
  for (size_t i = 0; i < steps.count; ++i) add_section(page, steps, steps.report.steps()[i]);
  page.close_details();
}

}  // namespace nacre::tools
