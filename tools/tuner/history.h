// The history of a training, epoch by epoch: the CSV log, the rule for early stopping, the page with curves. It does
// not depend on the machine or the time, so a resumed run gives the same files as an uninterrupted one.
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
  uint32_t steps = 0, refused = 0;  // steps of this epoch; a refused step changed nothing
  float learning_rate = 0;          // at its last step
  float loss_scale = 1;             // loss scale of the gradients of its last step
  double train_loss = kNone;        // mean over the samples of applied steps, taken while training
  double train_accuracy = kNone;
  double validate_loss = kNone, validate_accuracy = kNone;  // at its end; infinite if outputs are NaN
};

// Returns one line per epoch. A field without a number is empty. The digits suffice to read back equal numbers.
std::string csv_log(const std::vector<EpochRecord>& epochs);

// Stops if the watched loss has not become lower by more than `least` for `patience` epochs. The watched loss is that
// of the validation rows, or of the training rows if there are none.
struct EarlyStop {
  uint32_t patience = 0;  // 0: never
  double least = 0;

  bool stops(const std::vector<EpochRecord>& epochs) const;
};

double watched_loss(const EpochRecord& epoch);

// Returns the index of the epoch with the lowest watched loss, the first of equal ones; nothing if no watched loss is
// finite.
std::optional<size_t> best_epoch(const std::vector<EpochRecord>& epochs);

// Returns whether there are several epochs and each has a higher watched loss than the epoch before.
bool only_rises(const std::vector<EpochRecord>& epochs);

struct TrainingPage {
  std::string title = {};
  std::vector<std::string> summary = {};                          // sentences
  std::vector<std::pair<std::string, std::string>> facts = {};    // name, value
  std::vector<std::pair<std::string, std::string>> model = {};    // name, value of the written model; empty: none
  std::vector<std::pair<std::string, std::string>> options = {};  // name, value
  std::vector<EpochRecord> epochs;
};

std::string training_html(const TrainingPage& page);

}  // namespace nacre::tools
