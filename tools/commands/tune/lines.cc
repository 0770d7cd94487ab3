#include "tools/commands/tune/lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace nacre::tools {

std::string percent_text(double share) { return std::isnan(share) ? "" : fmt::format("  {:6.2f} %", 100 * share); }

std::string epoch_line(const EpochRecord& e, uint32_t epochs) {
  std::string line =
      fmt::format("epoch {:>3} of {}   loss {:<9.5g}{}", e.epoch, epochs, e.train_loss, percent_text(e.train_accuracy));
  if (!std::isnan(e.validate_loss))
    line += fmt::format("   validation {:<9.5g}{}", e.validate_loss, percent_text(e.validate_accuracy));
  line += fmt::format("   rate {:.4g}", e.learning_rate);
  if (e.refused > 0) line += fmt::format("   {} of {} steps refused, loss scale {}", e.refused, e.steps, e.loss_scale);
  return line + "\n";
}

Json epoch_json(const EpochRecord& e) {
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  return {{"epoch", e.epoch},
          {"steps", e.steps},
          {"refused", e.refused},
          {"learning_rate", number(double(e.learning_rate))},
          {"loss_scale", number(double(e.loss_scale))},
          {"loss", number(e.train_loss)},
          {"accuracy", number(e.train_accuracy)},
          {"validation_loss", number(e.validate_loss)},
          {"validation_accuracy", number(e.validate_accuracy)}};
}

Json trained_json(const std::vector<TrainedConstant>& constants) {
  Json all = Json::array();
  for (const TrainedConstant& constant : constants)
    all.push_back({{"name", constant.name}, {"numbers", constant.numbers}});
  return all;
}

std::vector<TrainedConstant> trained_of(const LoadedModel& training) {
  std::vector<TrainedConstant> constants;
  const std::span<const TensorRecord> tensors = training.model().tensors();
  for (uint32_t id = 0; id < tensors.size(); ++id) {
    const TensorRecord& r = tensors[id];
    if (r.region != Region::kState || (r.flags & kTrainable) == 0) continue;
    int64_t numbers = 1;
    for (int axis = 0; axis < r.rank; ++axis) numbers *= r.dims[axis];
    constants.push_back({training.tensor_name(id), numbers});
  }
  return constants;
}

std::string clock_text(double seconds) {
  const auto whole = uint64_t(std::max(0.0, std::ceil(seconds)));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace nacre::tools
