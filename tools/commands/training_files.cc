#include "tools/commands/training_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tools/base/format.h"
#include "tools/commands/tune/settings.h"

namespace nacre::tools {

namespace fs = std::filesystem;

TrainingFiles::TrainingFiles(const TuneOptions& o, const Objective& objective, const Dataset& data, const Split& split,
                             const TuneSettings& s, uint32_t steps)
    : options_(o) {
  page_.title = "Training of " + fs::path(o.model).filename().string();
  page_.facts = {{"training samples", grouped(split.train.size())},
                 {"validation samples", grouped(split.validate.size())},
                 {"batch size", grouped(s.batch)},
                 {"steps per epoch", grouped(steps)},
                 {"loss function", objective.loss_name()}};
  page_.options = {
      {"data", fs::path(o.data).filename().string() + fmt::format(", {}", counted(uint64_t(data.rows), "sample"))},
      {"--validate", o.validate.empty() ? "none" : fs::path(o.validate).filename().string()},
      {"--epochs", std::to_string(o.epochs)},
      {"--batch", std::to_string(s.batch)},
      {"--lr", fmt::format("{}", o.learning_rate)},
      {"--schedule", o.schedule},
      {"--seed", std::to_string(s.seed)},
      {"--keep", s.keep_best ? "best" : "last"}};
  if (o.early_stop > 0)
    page_.options.emplace_back("--early-stop", fmt::format("{}, better by more than {}", o.early_stop, o.least));
  if (!is_model(o.model)) page_.options.emplace_back("conversion", options_text(conversion_of(o)));
}

std::vector<std::string> TrainingFiles::write(const std::vector<EpochRecord>& epochs, bool last) {
  std::vector<std::string> said;
  const auto write = [&](const std::string& path, const std::string& text) {
    const Error* const error = beside_.write(path, text, last);
    if (error == nullptr) return;
    const std::string what = error->what();
    const size_t remedy = std::min(what.find('\n'), what.size());
    const char* const then = last ? "" : "; the training goes on without it";
    said.push_back(what.substr(0, remedy) + then + what.substr(remedy));
  };
  if (!options_.csv.empty()) write(options_.csv, csv_log(epochs));
  if (options_.html.empty()) return said;
  page_.epochs = epochs;
  write(options_.html, training_html(page_));
  return said;
}

}  // namespace nacre::tools
