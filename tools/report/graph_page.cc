#include "tools/report/graph_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/option_id.h"
#include "tools/base/table.h"
#include "tools/model/program_cost.h"
#include "tools/report/html.h"
#include "tools/report/picture/picture.h"
#include "tools/report/picture/style.h"
#include "tools/report/picture/svg.h"
#include "tools/report/step_sections.h"

namespace nacre::tools {
namespace {

const char* entry_name(Entry entry) {
  constexpr const char* kNames[] = {"infer", "gradients", "update", "derive"};
  return size_t(entry) < std::size(kNames) ? kNames[size_t(entry)] : "unknown";
}

// Returns "gradients", or if there are several programs of this kind, "gradients for arm/m4".
std::string program_name(const LoadedModel& model, uint32_t index) {
  const Entry entry = model.model().program(index).entry;
  uint32_t alike = 0;
  for (uint32_t i = 0; i < model.model().program_count(); ++i) alike += model.model().program(i).entry == entry ? 1 : 0;
  const std::string name = entry_name(entry);
  return alike == 1 ? name : fmt::format("{} for {}", name, shorten(model.program_names(index).target, 40));
}

void add_facts(Html& page, const LoadedModel& model, const ProgramReport& report) {
  const Statistics s = statistics(model, report.program());
  page.facts({{"steps", grouped(s.steps)},
              {"layers", grouped(s.layers)},
              {"MACs", grouped(s.multiply_accumulates)},
              {"arena", grouped(s.arena_bytes) + " bytes"},
              {"liveness lower bound", grouped(s.liveness_bound) + " bytes"},
              {"batch", grouped(s.batch)}});
}

void add_graph(Html& page, const ProgramReport& report, const std::string& name, const std::string& id) {
  const std::string label = "Graph of " + name;
  page.raw(fmt::format(
      "<div class=\"graph\">\n<div class=\"graph-view\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">\n",
      xml_escape(label)));
  page.raw(
      picture(report, name,
              {.arrow = id + "-arrow", .link = id + "-step", .label = label + " and its memory plan", .style = false}));
  page.raw("</div>\n</div>\n");
  page.paragraph(
      "Each box is a step, a kernel call, coloured by its layer's policy. Click it, or press Enter, for its details. "
      "Arrow keys move between steps. The memory plan beside the graph shows each tensor's bytes in the arena and the "
      "steps in which it is live. The keys + and - zoom, 0 fits the width, Ctrl and the wheel zoom, dragging pans.",
      "page-note");
}

void add_program(Html& page, const LoadedModel& model, const GraphPageOptions& options, uint32_t index, size_t& left) {
  const ProgramReport report(model, index, options.kernels);
  const std::string id = fmt::format("p{}", index), name = program_name(model, index);
  add_facts(page, model, report);
  page.paragraph(
      "No run was timed for this page. nacre report with " + option("profile") + " measures the latency of each layer.",
      "page-note");
  const size_t all = report.steps().size();
  const StepSections steps = {.report = report, .id = id + "-step", .count = std::min(all, left)};
  left -= steps.count;
  if (all == 0) return page.paragraph("This program has no steps.");
  try {
    if (steps.count < all)
      throw Error(kUnsupported, name,
                  fmt::format("a page shows {} steps, this program has {} of {}", kMostPageSteps, all,
                              counted(model.model().steps().size(), "step")));
    add_graph(page, report, name, id);
  } catch (const Error& error) {
    if (error.code != kUnsupported) throw;
    page.paragraph(std::string("There is no graph: ") + error.what());
  }
  if (steps.count > 0) {
    add_step_table(page, steps);
    add_step_sections(page, steps);
  }
  if (steps.count < all)
    page.paragraph(fmt::format("{} more are left out. nacre inspect lists them all, as text or JSON.",
                               counted(all - steps.count, "step")));
}

void add_file(Html& page, const LoadedModel& model) {
  page.open_section("Model file");
  page.facts({{"file", grouped(model.model().bytes().size()) + " bytes"},
              {"weights", grouped(model.weight_bytes()) + " bytes"},
              {"programs", grouped(model.model().program_count())},
              {"golden pairs", grouped(model.golden().size())}});
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, value] : model.metadata())
    if (!value.empty() && key != "fallbacks") rows.push_back({shown_name(key), shorten(value, 2000)});
  if (!rows.empty()) page.table({"key", "value"}, rows, 2);
  const std::vector<std::string> fallbacks = fallbacks_of(model);
  page.paragraph(fallbacks.empty() ? "No precision fallbacks: every step runs in the types of its layer's policy."
                                   : "Precision fallbacks, steps that run in other types than those of their layer's "
                                     "policy:");
  page.list(fallbacks);
  page.close_section();
}

}  // namespace

std::string graph_page(const LoadedModel& model, const GraphPageOptions& options) {
  Html page(options.name, true);
  page.add_style(picture_style());
  size_t left = kMostPageSteps;
  page.open_section("Graph and memory plan");
  page.open_tabs("Programs");
  for (uint32_t i = 0; i < model.model().program_count(); ++i) {
    page.open_tab(program_name(model, i));
    add_program(page, model, options, i, left);
    page.close_tab();
  }
  page.close_tabs();
  page.close_section();
  add_file(page, model);
  return page.finish();
}

}  // namespace nacre::tools
