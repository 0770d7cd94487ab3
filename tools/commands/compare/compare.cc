#include "tools/commands/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/print.h"
#include "tools/base/table.h"
#include "tools/evaluate/comparison.h"
#include "tools/evaluate/evaluation.h"
#include "tools/files/atomic_file.h"
#include "tools/report/comparison_json.h"

namespace nacre::tools {
namespace {

struct Models {
  const ProgramReport &a, &b;
};

std::string decibels(const ErrorMeasure& e) {
  if (e.equal()) return "equal";
  return e.not_finite() > 0 ? "not finite" : fmt::format("{:.1f}", e.sqnr_db());
}

std::string types_text(const TensorRecord& a, const TensorRecord& b) {
  return a.element == b.element ? name_of(a.element) : fmt::format("{} | {}", name_of(a.element), name_of(b.element));
}

void sort_by_error(Comparison& comparison) {
  std::ranges::stable_sort(comparison.tensors, std::ranges::greater(),
                           [](const ComparedTensor& t) { return t.error.relative(); });
}

std::string percent(uint64_t part, uint64_t whole) {
  return part == 0 ? "-" : fmt::format("{:.2f} %", 100 * double(part) / double(whole));
}

std::vector<std::string> error_cells(const ErrorMeasure& e, uint64_t saturated) {
  return {decibels(e), fmt::format("{:.4g}", e.largest()), fmt::format("{:.4g}", e.relative()),
          fmt::format("{:.6f}", e.cosine()), percent(saturated, e.elements())};
}

std::vector<Column> error_columns(std::vector<Column> first) {
  for (const char* title : {"SQNR dB", "largest", "relative", "cosine", "saturated"})
    first.push_back({title, Align::kRight});
  return first;
}

void add_row(Table& table, std::vector<std::string> cells, const ErrorMeasure& error, uint64_t saturated) {
  for (std::string& cell : error_cells(error, saturated)) cells.push_back(std::move(cell));
  table.add(std::move(cells));
}

void print_tensors(const Models& models, const Comparison& comparison) {
  Table table(error_columns({{"step", Align::kRight},
                             {"layer", Align::kLeft, 12, true},
                             {"op", Align::kLeft, 8},
                             {"policy of B", Align::kLeft, 12},
                             {"types", Align::kLeft, 8}}));
  for (const ComparedTensor& t : comparison.tensors) {
    const std::string layer = layer_name_of(models.a, t.step);
    add_row(table,
            {std::to_string(t.step), layer.empty() ? models.a.loaded().tensor_name(t.a) : layer,
             models.a.steps()[t.step].op_name, policy_name_of(models.b, t.step_b),
             types_text(models.a.tensor(t.a), models.b.tensor(t.b))},
            t.error, t.saturated);
  }
  print(table.text(terminal_width()));
}

void print_outputs(const Models& models, const Comparison& comparison) {
  Table table(error_columns({{"output", Align::kLeft, 12, true},
                             {"shape", Align::kLeft},
                             {"types", Align::kLeft},
                             {"same largest", Align::kRight}}));
  for (const ComparedOutput& o : comparison.outputs) {
    const uint32_t a = models.a.view().outputs[o.a], b = models.b.view().outputs[o.b];
    add_row(table,
            {models.a.names().outputs[o.a], models.a.shape_text(a), types_text(models.a.tensor(a), models.b.tensor(b)),
             o.rows == 0 ? "-" : fmt::format("{} of {}", o.same_best, o.rows)},
            o.error, o.saturated);
  }
  print(table.text(terminal_width()));
}

// Prints one line per step that makes tensors without a partner in the other model.
void print_unmatched(const Models& models, const Comparison& comparison) {
  if (comparison.unmatched.empty()) return;
  print("\nmade by one of the two only:\n");
  Table table({{"", Align::kLeft},
               {"step", Align::kRight},
               {"op", Align::kLeft},
               {"tensor", Align::kLeft, 16, true},
               {"shape", Align::kLeft},
               {"type", Align::kLeft},
               {"", Align::kLeft}});
  const std::vector<Unmatched>& all = comparison.unmatched;
  for (size_t first = 0; first < all.size();) {
    const Unmatched& u = all[first];
    size_t end = first + 1;
    while (end < all.size() && all[end].in_a == u.in_a && all[end].step == u.step) ++end;
    const ProgramReport& report = u.in_a ? models.a : models.b;
    const std::string more = end - first > 1 ? fmt::format("and {} more", end - first - 1) : u.why;
    table.add({u.in_a ? "A" : "B", std::to_string(u.step), report.steps()[u.step].op_name,
               report.loaded().tensor_name(u.tensor), report.shape_text(u.tensor),
               name_of(report.tensor(u.tensor).element), more});
    first = end;
  }
  print(table.text(terminal_width()));
}

void print_text(const Models& models, const Comparison& comparison) {
  print(fmt::format(
      "A {} (reference), kernels {}\nB {}, kernels {}\n{}; real = scale * (code - zero) where a tensor holds codes; "
      "saturated: share of B's elements at the ends of their type\n",
      models.a.loaded().path(), comparison.by_a.text(), models.b.loaded().path(), comparison.by_b.text(),
      counted(comparison.samples, "sample")));
  for (const std::string& note : comparison.notes) print(note + "\n");
  print("\n");
  print_tensors(models, comparison);
  print("\n");
  print_outputs(models, comparison);
  print_unmatched(models, comparison);
}

// Quotes a CSV field (RFC 4180): double quotes inside it are doubled.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : escaped(text)) result += c == '"' ? "\"\"" : std::string(1, c);
  return result + "\"";
}

std::string csv_text(const Models& models, const Comparison& comparison) {
  std::string text =
      "kind,step,layer,name,op,policy_b,type_a,type_b,elements,sqnr_db,largest_error,relative_error,cosine,"
      "not_finite,saturated,kernels_a,kernels_b\n";
  const auto add = [&](const std::string& head, uint32_t a, uint32_t b, const ErrorMeasure& e, uint64_t saturated) {
    text +=
        fmt::format("{},{},{},{},{:.9g},{:.9g},{:.9g},{:.9g},{},{},{},{}\n", head, name_of(models.a.tensor(a).element),
                    name_of(models.b.tensor(b).element), e.elements(), e.sqnr_db(), e.largest(), e.relative(),
                    e.cosine(), e.not_finite(), saturated, comparison.by_a.kernels, comparison.by_b.kernels);
  };
  for (const ComparedTensor& t : comparison.tensors)
    add(fmt::format("tensor,{},{},{},{},{}", t.step, quoted(layer_name_of(models.a, t.step)),
                    quoted(models.a.loaded().tensor_name(t.a)), models.a.steps()[t.step].op_name,
                    quoted(policy_name_of(models.b, t.step_b))),
        t.a, t.b, t.error, t.saturated);
  for (const ComparedOutput& o : comparison.outputs)
    add(fmt::format("output,,,{},,", quoted(models.a.names().outputs[o.a])), models.a.view().outputs[o.a],
        models.b.view().outputs[o.b], o.error, o.saturated);
  return text;
}

}  // namespace

void compare(const CompareOptions& options) {
  const LoadedModel model_a(options.a), model_b(options.b);
  const ProgramReport a(model_a, model_a.infer_program(options.target)),
      b(model_b, model_b.infer_program(options.target));
  const Models models = {a, b};
  const SetOptions samples = {.data = options.data, .labels = "", .indices = options.indices};
  Comparison comparison = compare_programs(a, b, read_set(samples).data, options.cast_inputs, options.running);
  if (options.sort == "damage") sort_by_damage(comparison);
  if (options.sort == "error") sort_by_error(comparison);
  if (options.csv == "-") return print(csv_text(models, comparison));
  options.json ? print_json(comparison_json(a, b, comparison)) : print_text(models, comparison);
  if (!options.csv.empty()) write_file_whole(options.csv, csv_text(models, comparison));
}

}  // namespace nacre::tools
