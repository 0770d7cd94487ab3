// History of a training, epoch by epoch: the CSV log, the rule for stopping early, the page with curves. Nothing in
// it depends on the machine or the time, so a run that was resumed gives the same files as one that was not.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nacre::tools {

struct EpochRecord {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  uint32_t epoch = 0;               // from 1
  uint32_t steps = 0, refused = 0;  // of this epoch; refused ones changed nothing
  float learning_rate = 0;          // of its last step
  float loss_scale = 1;             // that the gradients of its last step were made with
  double train_loss = kNone;        // mean over the samples of steps that were applied, while it learned
  double train_accuracy = kNone;
  double validate_loss = kNone, validate_accuracy = kNone;  // at its end; infinite where outputs are no numbers
};

// One line per epoch; an empty field where there is no number. Enough digits that reading gives the same numbers.
std::string csv_log(const std::vector<EpochRecord>& epochs);

// Stops where the watched number has not become better by more than `least` for `patience` epochs: the loss on the
// validation rows, or on the training rows where there are none.
struct EarlyStop {
  uint32_t patience = 0;  // 0: never
  double least = 0;

  bool stops(const std::vector<EpochRecord>& epochs) const;
};

double watched_loss(const EpochRecord& epoch);

// The epoch with the lowest watched loss, the first of equal ones; its index, or nothing where no loss is a number.
std::optional<size_t> best_epoch(const std::vector<EpochRecord>& epochs);

// Whether there are several epochs, and the watched loss of each is higher than that of the one before.
bool only_rises(const std::vector<EpochRecord>& epochs);

struct TrainingPage {
  std::string title = {};
  std::vector<std::string> summary = {};                          // sentences
  std::vector<std::pair<std::string, std::string>> options = {};  // name, value
  std::vector<EpochRecord> epochs;
};

std::string training_html(const TrainingPage& page);

}  // namespace nacre::tools
