#include "tools/commands/inspect/inspect.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/table.h"
#include "tools/commands/inspect/network.h"
#include "tools/files/atomic_file.h"
#include "tools/importers/importer.h"
#include "tools/model/step_kernels.h"
#include "tools/report/gpu_report.h"
#include "tools/report/graph_page.h"
#include "tools/report/kept_weights.h"
#include "tools/report/picture/picture.h"
#include "tools/report/report_json.h"
#include "tools/report/report_text.h"

namespace nacre::tools {
namespace {

// Prints facts about the whole file, not about one of its programs.
void print_model(const LoadedModel& model) {
  print(fmt::format("file    {} bytes, of it weights {}\n", grouped(model.model().bytes().size()),
                    grouped(model.weight_bytes())));
  const std::vector<GoldenView> golden = model.golden();
  print(golden.empty()
            ? "golden  none stored\n"
            : fmt::format("golden  {} of inputs and outputs: see nacre check\n", counted(golden.size(), "pair")));
  for (const auto& [key, value] : model.metadata())
    if (!value.empty()) print(fmt::format("meta    {}: {}\n", key, value));
}

// Returns the program for `target`. If there is none, returns the default for a set of kernels or a GPU; else throws.
uint32_t drawn_program(const LoadedModel& model, const std::string& target) {
  uint32_t index = 0;
  const bool chooses = !names_kernels(target) && find_gpu_architecture(target) == nullptr;
  if (!chooses && !model.model().find(Entry::kInfer, target.c_str(), &index).ok()) return model.infer_program();
  return model.infer_program(target);
}

// Returns the target whose kernels are named. For a target that only the file knows, such as "dsp/c66", it is the
// reference.
std::string kernel_target(const LoadedModel& model, const std::string& target) {
  if (names_kernels(target)) return target;
  // a GPU's kernels are compiled from the reference's sources
  if (find_gpu_architecture(target) != nullptr) return "reference";
  model.infer_program(target);  // throws if the file does not know it either
  return "reference";
}

// Writes the files of --svg and --html, all that are asked for or none.
void write_pictures(const InspectOptions& options, const LoadedModel& model, const std::string& kernels) {
  const std::string name = std::filesystem::path(options.model).filename().string();
  std::string svg, html;
  std::vector<WholeFile> files;
  const auto add = [&](const std::string& path, const std::string& text) {
    files.push_back({path, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}});
  };
  if (!options.svg.empty())
    add(options.svg, svg = picture(ProgramReport(model, drawn_program(model, options.target)), name));
  if (!options.html.empty()) add(options.html, html = graph_page(model, {.name = name, .kernels = kernels}));
  if (!files.empty()) write_files_whole(files);
}

}  // namespace

void inspect(const InspectOptions& options) {
  if (is_network(options.model)) return inspect_network(options);
  const LoadedModel model(options.model);
  // Damaged weights mean a damaged file. Numbers that are not finite are left to nacre check.
  if (const Status weights = model.model().check_weights(); weights.code == Code::kSegmentCrc) model.require(weights);
  const std::string kernels = kernel_target(model, options.target);
  const GpuArchitecture* const gpu = find_gpu_architecture(options.target);
  const std::optional<GpuEstimate> estimate = gpu == nullptr ? std::nullopt : std::optional(estimate_gpu(model, *gpu));
  if (options.json) {
    Json all = model_json(model, kernels);
    if (estimate) all["gpu"] = gpu_json(*estimate);
    print_json(all);
    return write_pictures(options, model, kernels);
  }
  const size_t width = terminal_width();
  for (uint32_t i = 0; i < model.model().program_count(); ++i) {
    const ProgramReport report(model, i, kernels);
    print(report_text(report, width));
    if (options.steps) print("\n" + steps_text(report, width));
  }
  if (estimate) print("\n" + gpu_text(*estimate, width) + "\n");
  print(kept_weights_text(kept_weights(model, 0), {}));
  print_model(model);
  write_pictures(options, model, kernels);
  if (!options.svg.empty()) print(fmt::format("picture -> {}\n", escaped(options.svg)));
  if (!options.html.empty()) print(fmt::format("page -> {}\n", escaped(options.html)));
}

}  // namespace nacre::tools
