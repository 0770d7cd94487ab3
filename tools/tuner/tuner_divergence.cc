// Detects that a training has diverged to NaN or infinity, and reports it.
#include <fmt/format.h>

#include <cmath>

#include "engine/train/step_sums.h"
#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/tuner/divergence.h"
#include "tools/tuner/tuner.h"

namespace nacre::tools {

std::string Tuner::not_finite_state() {
  const uint32_t infer = owner_.loaded().infer_program(owner_.target());
  const std::string name = not_finite_in(owner_.loaded(), infer, owner_.state());
  return name.empty() ? "" : name + " holds a number that is not finite";
}

std::string Tuner::not_finite() {
  if (const std::string why = not_finite_state(); !why.empty()) return why;
  const Judged judged = objective_.judge_rows(owner_.loaded(), trainer_.infer(), data_, last_rows_);
  return judged.not_finite == 0 ? "" : "outputs of the last batch are not finite";
}

// Returns why the epoch shows divergence, or "". A step that a dynamic loss scale refused changed nothing, and the
// next has a smaller scale. An epoch of only such steps has no loss and shows nothing.
std::string Tuner::divergence(const EpochRecord& epoch) {
  const bool validated = !split_.validate.empty();
  if (validated && std::isinf(epoch.validate_loss)) return "the loss on the validation rows is not finite";
  if (std::isinf(epoch.train_loss)) return "the loss is infinite";
  if (std::isnan(epoch.train_loss)) {
    const bool falls = loss_scale(model(), owner_.state()) < epoch.loss_scale;
    if (epoch.refused < epoch.steps) return "the loss is NaN";
    if (!falls) return "no step of it gave finite gradients";
  }
  return not_finite();
}

std::string Tuner::saved_text() const {
  if (!saved_) return "no model is written";
  const bool best = settings_.keep_best && !best_.empty();
  std::string text = fmt::format("epoch {}", saved_epoch_);
  if (best) text = fmt::format("the best epoch, {},", position_.epochs[*best_epoch(position_.epochs)].epoch);
  else if (saved_step_ > 0) text = fmt::format("epoch {} up to step {}", saved_epoch_ + 1, saved_step_);
  text += " stays in " + settings_.checkpoint;
  if (!settings_.to_model.empty()) text += fmt::format(": {}{}", settings_.to_model, best ? " " + option("best") : "");
  return text;
}

void Tuner::refuse_epoch(const std::string& why) const {
  throw Error(kFailed, fmt::format("{}, epoch {}", owner_.loaded().path(), position_.epoch),
              fmt::format("the training diverged: {} (learning rate {}, loss scale {})", why, position_.learning_rate,
                          position_.loss_scale),
              fmt::format("{}; {}", diverged_remedy(), saved_text()));
}

void Tuner::refuse_divergence(const Trainer::Report& report) const {
  std::string remedy = diverged_remedy();
  if (report.loss_scale > 1 && !report.overflow_at_floor)  // float16 overflows by the scale first
    remedy = "begin with a lower " + option("loss-scale") + " or allow more such steps (" + option("max-refused") +
             "); else " + remedy;
  throw Error(
      kFailed, fmt::format("epoch {}, step {}", position_.epoch + 1, position_.step + 1),
      fmt::format("{} steps in a row gave gradients that are not finite: the training diverges (learning rate {}, loss "
                  "scale {}{})",
                  position_.refused_in_row, position_.learning_rate, report.loss_scale,
                  report.overflow_at_floor ? ", which cannot become smaller" : ""),
      fmt::format("{}; {}", remedy, saved_text()));
}

}  // namespace nacre::tools
