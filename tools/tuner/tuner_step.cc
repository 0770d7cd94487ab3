// One step of a training: its micro-batches, on this machine or shared among ranks, and the commit.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "engine/train/step_sums.h"
#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/option_id.h"
#include "tools/tuner/tuner.h"

namespace nacre::tools {

bool Tuner::train_step(const std::vector<int64_t>& order, const Stop& stop) {
  const size_t first = size_t(position_.step) * settings_.batch, last = std::min(first + settings_.batch, order.size());
  const Judged before = position_.judged;
  const std::span<const int64_t> rows = std::span(order).subspan(first, last - first);
  last_rows_.assign(rows.begin(), rows.end());
  const std::optional<size_t> taken = ranks_ == nullptr ? take_alone(rows, stop) : take_with_ranks(rows);
  if (!taken) {
    trainer_.discard();
    position_.judged = before;
    return false;
  }
  if (*taken == 0) return true;
  const float rate = settings_.schedule.at(position_.applied);
  Trainer::Report report = {};
  const Status committed = trainer_.commit(rate, &report);
  if (committed.code == Code::kNothingAccumulated) {  // no label of the step counts, so the step is left out
    trainer_.discard();
    position_.judged = before;
    counts_no_label_ = true;
    if (ranks_ != nullptr) ranks_->end_step(false);
    return true;
  }
  owner_.loaded().require(committed);
  if (ranks_ != nullptr) ranks_->end_step(report.applied);
  rows_ += *taken;
  ++position_.epoch_steps;
  position_.learning_rate = rate;
  position_.loss_scale = report.loss_scale;
  if (report.applied) {
    ++position_.applied;
    position_.refused_in_row = 0;
    // A loss that stays a sum counts no samples. An epoch's loss is then the mean over its steps, weighted by their
    // rows, as in Keras.
    const double counted = report.samples > 0 ? double(report.samples) : double(*taken);
    position_.judged.loss += double(report.loss) * counted;
    position_.judged.samples += counted;
    return true;
  }
  position_.judged = before;  // nothing of a refused step counts
  ++position_.epoch_refused;
  if (++position_.refused_in_row >= settings_.most_refused) refuse_divergence(report);
  return true;
}

std::optional<size_t> Tuner::take_alone(std::span<const int64_t> rows, const Stop& stop) {
  size_t taken = 0;
  for (size_t at = 0; at < rows.size(); at += objective_.batch()) {
    const size_t count = std::min(size_t{objective_.batch()}, rows.size() - at);
    if (at > 0 && stop()) return std::nullopt;
    if (micro_batch(rows.subspan(at, count))) taken += count;
    else left_out_ = count;
  }
  return taken;
}

// Runs the micro-batches of this rank: micro-batch i belongs to rank i mod ranks. In every round each rank has one;
// the sums are exchanged and added in the order of the micro-batches.
std::optional<size_t> Tuner::take_with_ranks(std::span<const int64_t> rows) {
  const size_t batch = objective_.batch(), micro_batches = (rows.size() + batch - 1) / batch;
  const Judged before = position_.judged;
  Judged all = before;
  size_t taken = 0;
  uint32_t merged = 0;
  if (!settings_.compress.empty())  // on a GPU, owner_.state() copies the state to the host for this
    ranks_->begin_step(loss_scale(model(), owner_.state()));
  for (size_t first = 0; first < micro_batches; first += ranks_->count()) {
    const size_t mine = first + ranks_->rank();
    Ranks::Said said = {.stops = wishes_to_stop_};
    std::span<std::byte> block;
    if (mine < micro_batches) {
      const size_t at = mine * batch, count = std::min(batch, rows.size() - at);
      position_.judged = {};
      owner_.loaded().require(trainer_.begin_at(uint32_t(mine)));
      if (micro_batch(rows.subspan(at, count))) {
        block = sums();
        said.rows = count;
        said.right = position_.judged.right, said.answers = position_.judged.answers;
      } else {
        said.left_out = count;
      }
    }
    const Ranks::Said total = ranks_->add(block, said);
    stops_ = stops_ || total.stops;
    taken += size_t(total.rows);
    if (total.left_out > 0) left_out_ = total.left_out;
    all.right += total.right, all.answers += total.answers;
  }
  position_.judged = all;
  merged = uint32_t(taken / batch + (taken % batch != 0));
  if (!ranks_->finish(sums())) return taken;
  owner_.loaded().require(ranks_->on_gpus() ? trainer_.merged_at(*owner_.port_of_gpu(), merged)
                                            : trainer_.merged(merged));
  return taken;
}

std::span<std::byte> Tuner::sums() const {
  const bool there = ranks_ != nullptr && ranks_->on_gpus();
  const std::span<std::byte> sums = there ? trainer_.sums_at(*owner_.port_of_gpu()) : trainer_.sums();
  if (sums.empty()) owner_.loaded().require({Code::kPortFailed, Table::kPort});
  return sums;
}

bool Tuner::micro_batch(std::span<const int64_t> rows) {
  if (objective_.whole_batches() && rows.size() < objective_.batch()) return false;
  const size_t inputs = data_.inputs.size();
  std::vector<uint8_t> labels;
  for (size_t i = 0; i <= inputs; ++i) {
    const std::span<std::byte> input = trainer_.input(uint32_t(i));
    const SampleSpec& spec = i < inputs ? objective_.inputs()[i] : objective_.labels().sample;
    for (size_t n = 0; n < rows.size(); ++n) {
      const std::span<const uint8_t> bytes = i < inputs ? data_.row(i, rows[n]) : data_.label(rows[n]);
      put_row(input, bytes, spec.outer, n, objective_.batch());
      if (i == inputs) labels.insert(labels.end(), bytes.begin(), bytes.end());
    }
  }
  // Sums each micro-batch from zero, as ranks do, so that the result does not depend on the number of ranks.
  if (trainer_.micro_batches() > 0 && keep_.empty()) keep_.resize(sums().size());
  const uint32_t count = rows.size() == objective_.batch() ? 0 : uint32_t(rows.size());
  const Status status = keep_.empty() ? trainer_.accumulate(count) : trainer_.accumulate_apart(keep_, count);
  if (status.code == Code::kRowsUnsupported) return false;
  owner_.loaded().require(status);
  if (!objective_.trained()) return true;
  const Judged judged = objective_.judge(*objective_.trained(), trainer_.output(objective_.trained()->index), labels,
                                         uint32_t(rows.size()));
  position_.judged.right += judged.right;
  position_.judged.answers += judged.answers;
  return true;
}

// Checks before the first step that ranks can share a step: there are sums, and a micro-batch for each rank.
void Tuner::check_ranks() const {
  const size_t batch = std::min<size_t>(settings_.batch, split_.train.size());
  const uint32_t micro_batches = uint32_t((batch + objective_.batch() - 1) / objective_.batch());
  if (trainer_.immediate())
    throw Error(kUsage, option("mpi"),
                "this model updates as it goes (" + option("update", "immediate") + "): it has no sums to share",
                "give a model without " + option("update", "immediate"));
  if (micro_batches < ranks_->count())
    throw Error(
        kUsage, option("mpi"),
        fmt::format("a step of {} has {} micro-batch{} of at most {}, too few for {} ranks", counted(batch, "row"),
                    micro_batches, micro_batches == 1 ? "" : "es", counted(objective_.batch(), "row"), ranks_->count()),
        "give " + option("micro-batch") + " (of a training model " + option("batch") +
            ", when it is made) so that every rank has one");
}

}  // namespace nacre::tools
