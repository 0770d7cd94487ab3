#include "tools/report/report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/table.h"
#include "tools/model/program_cost.h"
#include "tools/model/step_kernels.h"
#include "tools/policies/policy_name.h"

namespace nacre::tools {
namespace {

// Returns "conv2d", "quantize, conv2d" or "3 x slice, concat": consecutive steps of one op are counted.
std::string ops_text(const ProgramReport& report, const ReportLayer& layer) {
  std::string text;
  for (size_t i = 0; i < layer.steps.size();) {
    const std::string& op = report.steps()[layer.steps[i]].op_name;
    size_t end = i;
    while (end < layer.steps.size() && report.steps()[layer.steps[end]].op_name == op) ++end;
    text += (text.empty() ? "" : ", ") + (end - i > 1 ? fmt::format("{} x ", end - i) : "") + op;
    i = end;
  }
  return text.empty() ? "-" : text;
}

std::string amount(uint64_t number) { return number == 0 ? "-" : grouped(number); }

// Returns the step whose types describe the layer best: the one with the most work, or the last of equal ones.
const ReportStep* main_step(const ProgramReport& report, const ReportLayer& layer) {
  const ReportStep* main = nullptr;
  for (const uint32_t index : layer.steps) {
    const ReportStep& step = report.steps()[index];
    if (main == nullptr || step.multiply_accumulates >= main->multiply_accumulates) main = &step;
  }
  return main;
}

void add_layer(const ProgramReport& report, const ReportLayer& layer, Table& table) {
  const ReportStep* last = layer.steps.empty() ? nullptr : &report.steps()[layer.steps.back()];
  const ReportStep* main = main_step(report, layer);
  const std::string shape = last == nullptr || last->output() == kNoIndex ? "-" : report.shape_text(last->output());
  table.add({layer.name, layer.source_op, ops_text(report, layer), shape,
             main == nullptr ? "-" : report.types_text(*main), policy_name(layer.policy),
             amount(layer.multiply_accumulates), amount(layer.weight_bytes), amount(layer.activation_bytes)});
}

std::string layers_text(const ProgramReport& report, size_t width) {
  Table table({{"layer", Align::kLeft, 22, true},
               {"source op", Align::kLeft, 10},
               {"steps", Align::kLeft, 12},
               {"output", Align::kLeft},
               {"types", Align::kLeft, 12},
               {"policy", Align::kLeft},
               {"MACs", Align::kRight},
               {"weights", Align::kRight},
               {"activations", Align::kRight}});
  uint64_t macs = 0, weights = 0, activations = 0;
  bool folded = false;
  for (const ReportLayer& layer : report.layers()) {
    add_layer(report, layer, table);
    folded |= layer.steps.empty();
  }
  for (const ReportStep& step : report.steps()) {
    macs += step.multiply_accumulates;
    weights += step.weight_bytes;
    activations += step.activation_bytes;
  }
  table.rule();
  table.add({"total", "", "", "", "", "", amount(macs), amount(weights), amount(activations)});
  return table.text(width) +
         (folded ? "-: folded into other layers' steps, or only another view of the same bytes\n" : "");
}

std::string binding_text(const ProgramReport& report, const char* what, const std::string& name,
                         const std::string& layout, uint32_t tensor) {
  const TensorRecord& r = report.tensor(tensor);
  std::string text = fmt::format("{:<8}{}  {} {}", what, name, name_of(r.element), report.shape_text(tensor));
  if (!layout.empty()) text += fmt::format("  {}", layout);
  if (const std::optional<Scales> s = report.loaded().scales(tensor))
    text += fmt::format("  real = {} * (code - {})", s->scale[0], s->zero[0]);
  return text + "\n";
}

std::string memory_text(const Statistics& s) {
  std::string text =
      fmt::format("arena   {} bytes, liveness lower bound {}", grouped(s.arena_bytes), grouped(s.liveness_bound));
  if (s.banks.size() > 1)
    for (const BankUse& bank : s.banks) text += fmt::format("\n        {} {} bytes", bank.name, grouped(bank.bytes));
  return text + "\n";
}

// Returns "kernels avx2; 3 of 12 steps run on reference kernels: softmax, 2 x sum".
std::string kernels_text(const ProgramReport& report) {
  const std::map<std::string, uint32_t> left = report.reference_ops();
  uint32_t sum = 0;
  std::string ops;
  for (const auto& [op, count] : left) {
    sum += count;
    ops += (ops.empty() ? "" : ", ") + (count > 1 ? fmt::format("{} x ", count) : "") + op;
  }
  const std::string set = fmt::format("kernels {}; ", report.kernels());
  if (left.empty()) return set + "no step runs on reference kernels\n";
  return set + fmt::format("{} of {} run on reference kernels: {}\n", sum, counted(report.steps().size(), "step"), ops);
}

// Returns "guards  4 of 6 steps have no effect while a number is 0: 3 x apply, loss/taken"; "" if no step has one.
std::string guards_text(const ProgramReport& report) {
  std::map<uint32_t, uint32_t> guards;  // steps of each guard, in the order of tensors
  uint32_t sum = 0;
  for (const ReportStep& step : report.steps())
    if (step.guard != kNoIndex) ++guards[step.guard], ++sum;
  std::string names;
  for (const auto& [tensor, count] : guards)
    names += (names.empty() ? "" : ", ") + (count > 1 ? fmt::format("{} x ", count) : "") +
             report.loaded().tensor_name(tensor);
  if (sum == 0) return "";
  return fmt::format("guards  {} of {} {} no effect while a number is 0: {}\n", sum,
                     counted(report.steps().size(), "step"), sum == 1 ? "has" : "have", names);
}

// Names the step's kernel. The set is named only if it is not the one in the column's title.
std::string kernel_text(const ProgramReport& report, const ReportStep& step) {
  const std::string set = report.kernels() + "/";
  if (step.kernel.empty()) return "none";
  return step.kernel.starts_with(set) ? step.kernel.substr(set.size()) : step.kernel;
}

}  // namespace

std::string report_text(const ProgramReport& report, size_t width) {
  const Statistics s = statistics(report.loaded(), report.program());
  const ProgramNames& names = report.names();
  std::string text = fmt::format("{}: program {} for {}, {} of {}{}\n\n", report.loaded().path(), report.program(),
                                 names.target, counted(s.steps, "step"), counted(s.layers, "layer"),
                                 s.batch > 1 ? fmt::format(", batch {}", s.batch) : "");
  text += layers_text(report, width) + "\n";
  for (size_t i = 0; i < names.inputs.size(); ++i)
    text += binding_text(report, "input", names.inputs[i], names.input_layouts[i], report.view().inputs[i]);
  for (size_t i = 0; i < names.outputs.size(); ++i)
    text += binding_text(report, "output", names.outputs[i], names.output_layouts[i], report.view().outputs[i]);
  return text + memory_text(s) + kernels_text(report) + guards_text(report);
}

std::string steps_text(const ProgramReport& report, size_t width) {
  Table table({{"step", Align::kRight},
               {"op", Align::kLeft},
               {"attributes", Align::kLeft, 20},
               {"rounding", Align::kLeft},
               {"output", Align::kLeft},
               {"types", Align::kLeft, 12},
               {"at", Align::kRight},
               {"lives", Align::kLeft},
               {"MACs", Align::kRight},
               {"layer", Align::kLeft, 16, true},
               {"kernel of " + report.kernels(), Align::kLeft, 24}});
  for (const ReportStep& step : report.steps()) {
    const uint32_t y = step.output();
    const bool arena = y != kNoIndex && report.tensor(y).region == Region::kArena;
    table.add({std::to_string(step.index), step.op_name, report.summary(step),
               step.rounding == Rounding::kNone ? "-" : name_of(step.rounding),
               y == kNoIndex ? "-" : report.shape_text(y), report.types_text(step),
               arena ? grouped(report.location(y).offset) : "-",
               arena ? fmt::format("{}-{}", report.tensor(y).first_step, report.tensor(y).last_step) : "-",
               amount(step.multiply_accumulates), step.layer == kNoIndex ? "-" : report.layers()[step.layer].name,
               kernel_text(report, step)});
  }
  return table.text(width);
}

}  // namespace nacre::tools
