#include "tools/commands/convert/place_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/base/format.h"
#include "tools/base/table.h"
#include "tools/commands/place_option.h"

namespace nacre::tools {
namespace {

std::string layer_of(const Graph& graph, const Node& node) {
  return node.layer == kNone ? "" : graph.layers[size_t(node.layer)].name;
}

std::string op_of(const Node& node) { return find_rule(node.op)->name; }

size_t moved_steps(const TriedPlaces& tried) {
  return size_t(std::ranges::count_if(tried.places, [](uint8_t place) { return place != 0; }));
}

Json json_of(const Quartiles& q) { return {{"lower", q.lower}, {"median", q.median}, {"upper", q.upper}}; }

std::string text_of(const Quartiles& q) { return fmt::format("{:.3f} {:.3f} {:.3f}", q.lower, q.median, q.upper); }

std::string result_text(const TriedPlaces& tried) {
  if (tried.taken == 0)
    return "XNNPACK, which takes float32, and int8 products with --rounding float_even, takes no step: all stay with " +
           tried.own + "\n";
  if (tried.whole_rounds == 0)
    return fmt::format("no step is faster on XNNPACK beyond doubt: all stay with {}\n", tried.own);
  const std::string times =
      fmt::format("a whole run takes {:.2f} us with the faster of both, {:.2f} us with {} alone, ratio {}, {} rounds",
                  tried.moved_us, tried.own_us, tried.own, text_of(tried.ratio), tried.whole_rounds);
  if (!tried.moved())
    return times + fmt::format("\nas a whole that is not faster beyond doubt: all stay with {}\n", tried.own);
  return times + fmt::format("\n{} of {} on XNNPACK; the same file again: --place {}\n", moved_steps(tried),
                             counted(tried.steps.size(), "step"), places_text(tried.places));
}

}  // namespace

std::string places_table(const Graph& graph, const TriedPlaces& tried, size_t width) {
  Table table({{"step", Align::kRight},
               {"layer", Align::kLeft, 12, true},
               {"op"},
               {tried.own, Align::kLeft, 16},
               {"us", Align::kRight},
               {"XNNPACK", Align::kLeft, 16},
               {"us", Align::kRight},
               {"ratio: quartiles"},
               {"runs on"}});
  const auto after_set = [](const std::string& kernel) { return kernel.substr(kernel.find('/') + 1); };
  for (size_t i = 0; i < tried.steps.size(); ++i) {
    const TriedStep& step = tried.steps[i];
    const Node& node = graph.nodes[i];
    const bool taken = !step.xnnpack.empty();
    table.add({fmt::format("{}", i), layer_of(graph, node), op_of(node),
               step.own.starts_with(tried.own + "/") ? after_set(step.own) : step.own,
               fmt::format("{:.2f}", step.own_us), taken ? after_set(step.xnnpack) : "-",
               taken ? fmt::format("{:.2f}", step.xnnpack_us) : "", taken ? text_of(step.ratio) : "",
               tried.places[i] != 0 ? "xnnpack" : tried.own});
  }
  return table.text(width) + "\n" + result_text(tried);
}

Json places_json(const Graph& graph, const TriedPlaces& tried) {
  Json steps = Json::array();
  for (size_t i = 0; i < tried.steps.size(); ++i) {
    const TriedStep& step = tried.steps[i];
    Json row = {{"step", i},
                {"layer", layer_of(graph, graph.nodes[i])},
                {"op", op_of(graph.nodes[i])},
                {"kernel", step.own},
                {"us", step.own_us},
                {"place", tried.places[i]}};
    if (!step.xnnpack.empty())
      row.update({{"xnnpack_kernel", step.xnnpack}, {"xnnpack_us", step.xnnpack_us}, {"ratio", json_of(step.ratio)}});
    steps.push_back(std::move(row));
  }
  Json report = {{"kernels", tried.own},
                 {"rounds", tried.rounds},
                 {"steps", steps},
                 {"moved", moved_steps(tried)},
                 {"place", places_text(tried.places)},
                 {"whole_rounds", tried.whole_rounds}};
  if (tried.whole_rounds > 0)
    report.update({{"us", tried.own_us}, {"moved_us", tried.moved_us}, {"ratio", json_of(tried.ratio)}});
  return report;
}

}  // namespace nacre::tools
