#include "tools/tuner/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/report/html.h"
#include "tools/report/plots/line_plot.h"

namespace nacre::tools {
namespace {

std::string shortest(double value) { return std::isnan(value) ? "" : fmt::format("{}", value); }
std::string rounded(double value) { return std::isnan(value) ? "" : fmt::format("{:.5g}", value); }
std::string percent(double value) { return std::isnan(value) ? "" : fmt::format("{:.2f} %", 100 * value); }

Curve curve(const std::string& name, const std::vector<EpochRecord>& epochs, auto number) {
  Curve c = {.name = name, .points = {}};
  for (const EpochRecord& e : epochs) c.points.emplace_back(e.epoch, number(e));
  return c;
}

// Adds the plot without curves that have no finite point, if any curve is left.
void add_plot(Html& page, LinePlot plot, const std::string& caption) {
  std::erase_if(plot.curves, [](const Curve& c) {
    return std::ranges::none_of(c.points, [](const auto& p) { return std::isfinite(p.second); });
  });
  if (!plot.curves.empty()) page.figure(plot, caption);
}

void add_table(Html& page, const std::vector<EpochRecord>& epochs) {
  std::vector<std::vector<std::string>> rows;
  for (const EpochRecord& e : epochs)
    rows.push_back({std::to_string(e.epoch), rounded(e.train_loss), percent(e.train_accuracy), rounded(e.validate_loss),
                    percent(e.validate_accuracy), rounded(e.learning_rate), std::to_string(e.steps),
                    std::to_string(e.refused), rounded(e.loss_scale)});
  page.open_section("Epochs");
  page.table({"epoch", "training loss", "training accuracy", "validation loss", "validation accuracy", "learning rate",
              "steps", "skipped steps", "loss scale"},
             rows, 0);
  page.paragraph(
      "A skipped step, which Nacre calls refused, changes no weight: its loss or gradients are infinite or NaN.",
      "page-note");
  page.close_section();
}

}  // namespace

std::string csv_log(const std::vector<EpochRecord>& epochs) {
  std::string text = "epoch,steps,refused,learning_rate,loss_scale,loss,accuracy,validation_loss,validation_accuracy\n";
  for (const EpochRecord& e : epochs)
    text += fmt::format("{},{},{},{},{},{},{},{},{}\n", e.epoch, e.steps, e.refused, e.learning_rate, e.loss_scale,
                        shortest(e.train_loss), shortest(e.train_accuracy), shortest(e.validate_loss),
                        shortest(e.validate_accuracy));
  return text;
}

double watched_loss(const EpochRecord& epoch) {
  return std::isnan(epoch.validate_loss) ? epoch.train_loss : epoch.validate_loss;
}

std::optional<size_t> best_epoch(const std::vector<EpochRecord>& epochs) {
  std::optional<size_t> best;
  for (size_t i = 0; i < epochs.size(); ++i)
    if (std::isfinite(watched_loss(epochs[i])) && (!best || watched_loss(epochs[i]) < watched_loss(epochs[*best])))
      best = i;
  return best;
}

bool only_rises(const std::vector<EpochRecord>& epochs) {
  for (size_t i = 1; i < epochs.size(); ++i)
    if (!(watched_loss(epochs[i]) > watched_loss(epochs[i - 1]))) return false;
  return epochs.size() > 1;
}

bool EarlyStop::stops(const std::vector<EpochRecord>& epochs) const {
  if (patience == 0) return false;
  double best = std::numeric_limits<double>::infinity();
  uint32_t since = 0;
  for (const EpochRecord& e : epochs) {
    const bool better = watched_loss(e) < best - least;
    since = better ? 0 : since + 1;
    if (better) best = watched_loss(e);
  }
  return since >= patience;
}

std::string training_html(const TrainingPage& page) {
  Html html(page.title);
  html.open_section("Summary");
  html.facts(page.facts);
  if (!page.model.empty()) html.heading(3, "Written model");
  if (!page.model.empty()) html.facts(page.model);
  for (const std::string& sentence : page.summary) html.paragraph(sentence, "page-note");
  html.close_section();
  html.open_section("Curves");
  html.open_flow();
  add_plot(
      html,
      {.label = "Loss by epoch",
       .x_name = "epoch",
       .curves = {curve("training", page.epochs, [](const EpochRecord& e) { return e.train_loss; }),
                  curve("validation", page.epochs, [](const EpochRecord& e) { return e.validate_loss; })}},
      "Loss: the training curve is the mean over the epoch's samples while the weights change; the validation curve is "
      "measured at the epoch's end");
  add_plot(html,
           {.label = "Accuracy by epoch",
            .x_name = "epoch",
            .curves = {curve("training", page.epochs, [](const EpochRecord& e) { return e.train_accuracy; }),
                       curve("validation", page.epochs, [](const EpochRecord& e) { return e.validate_accuracy; })},
            .percent = true},
           "Accuracy: top-1, the share of samples whose largest output is that of their label");
  add_plot(
      html,
      {.label = "Learning rate by epoch",
       .x_name = "epoch",
       .curves = {curve("learning rate", page.epochs, [](const EpochRecord& e) { return double(e.learning_rate); })}},
      "Learning rate of each epoch's last step");
  html.close_flow();
  html.close_section();
  add_table(html, page.epochs);
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : page.options) rows.push_back({name, value});
  html.open_section("Options");
  html.table({"option", "value"}, rows, 2);
  html.close_section();
  return html.finish();
}

}  // namespace nacre::tools
