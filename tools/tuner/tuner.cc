#include "tools/tuner/tuner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/base/crc32c.h"
#include "engine/kernels/training.h"
#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/option_id.h"
#include "tools/files/file_storage.h"
#include "tools/model/gpu.h"
#include "tools/model/kernel_choice.h"

namespace nacre::tools {
namespace {

constexpr auto kSaveEvery = std::chrono::seconds(60);

}  // namespace

LoadedTrainer::LoadedTrainer(const LoadedModel& model, Ports ports, uint32_t threads, const std::string& target)
    : model_(model), target_(model.program_names(model.find_program(Entry::kUpdate, target)).target),
      threads_(make_threads(threads)), ports_(std::move(ports)), places_(ports_) {
  const std::vector<const KernelSet*> kernels = kernels_of_target("");
  const Workers* const workers = threads_ == nullptr ? nullptr : threads_->workers();
  const Machine machine = {.workers = workers == nullptr ? 1 : uint32_t(workers->count)};
  Places* const places = ported() ? &places_ : nullptr;
  places_.keep(kGpuPlace);
  Sizes sizes;
  model.require(Trainer::measure(model.model(), target_.c_str(), kernels, &sizes, machine, places));
  const auto most = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGE_SIZE));
  const uint32_t alignment = places_.alignment();
  for (const uint64_t bytes : sizes.bytes)
    if (bytes > most || sizes.total(alignment) > most)
      throw Error(kBadInput, model.path(), fmt::format("needs {} bytes of memory to train", grouped(sizes.total())),
                  fmt::format("this machine has {}: take a smaller {batch}", grouped(most),
                              fmt::arg("batch", option("batch"))));
  resize_for(memory_, sizes.total(alignment), model.path(), "to train");
  Memory memory;
  model.require(Memory::cut(memory_.bytes(), sizes, &memory, alignment));
  if (const uint64_t bytes = places_.bytes(kGpuPlace); bytes != 0) {
    gpu_memory_.emplace(size_t(bytes));
    model.require(places_.give(kGpuPlace, gpu_memory_->bytes()));
  }
  model.require(trainer_.bind(model.model(), target_.c_str(), kernels, memory, workers, places));
  model.require(trainer_.start());
}

Ports training_ports(const LoadedModel& model, const std::string& kernels, const std::string& target) {
  const std::string found = model.program_names(model.find_program(Entry::kUpdate, target)).target;
  if (chooses_gpu(kernels) && is_gpu_target(found)) return {nullptr, gpu_port(found, kernels)};
  return {port_named(kernels)};
}

std::span<std::byte> LoadedTrainer::state() const {
  const std::span<std::byte> state = trainer_.state();
  if (state.empty() && ported())
    throw Error(kFailed, target_, "the GPU does not give back what was learned",
                "run the same command again: it goes on from the last checkpoint");
  return state;
}

Tuner::Tuner(LoadedTrainer& trainer, const Objective& objective, const Dataset& data, const Split& split,
             TuneSettings settings, Ranks* ranks)
    : owner_(trainer), trainer_(trainer.trainer()), objective_(objective), data_(data), split_(split),
      settings_(std::move(settings)), ranks_(ranks) {
  if (settings_.batch == 0) settings_.batch = objective.batch();
  if (trainer_.immediate() && settings_.batch > objective.batch())
    throw Error(kUsage, option("batch"),
                fmt::format("is {}, but this model updates as it goes, after {}", settings_.batch,
                            counted(objective.batch(), "row")),
                "give that, or a model without " + option("update", "immediate"));
  const auto rows = uint64_t(split.train.size());
  steps_per_epoch_ = uint32_t((rows + settings_.batch - 1) / settings_.batch);
  if (ranks_ != nullptr) {
    check_ranks();
    ranks_->exchange_sums(model(), settings_.compress, owner_.port_of_gpu() != nullptr);
  }
  if (settings_.checkpoint.empty() || !first()) return;
  files_ = std::make_unique<FileStorage>(settings_.checkpoint);
  if (settings_.keep_best) best_files_ = std::make_unique<FileStorage>(settings_.checkpoint + "/best");
}

Tuner::~Tuner() = default;

Tuner::End Tuner::run(const Watch& watch) {
  auto saved = std::chrono::steady_clock::now();
  bool stopped = false;
  // Any rank may be asked to stop. All ranks stop after the step in which they learn of it.
  const auto stop = [&] {
    const bool wishes = watch.interrupted && watch.interrupted();
    wishes_to_stop_ = wishes_to_stop_ || wishes;
    return stopped = stopped || (ranks_ == nullptr ? wishes : stops_);
  };
  const auto interrupted = [&] {
    save_if_finite();
    return End::kInterrupted;
  };
  while (!finished()) {
    std::vector<int64_t> order = split_.train;
    if (settings_.shuffle) {
      const std::vector<int64_t> places = shuffled(int64_t(order.size()), settings_.seed, position_.epoch);
      for (size_t i = 0; i < order.size(); ++i) order[i] = split_.train[size_t(places[i])];
    }
    while (position_.step < steps_per_epoch_) {
      if (!train_step(order, stop)) return interrupted();
      ++position_.step;
      if (watch.step) watch.step({position_, steps_per_epoch_, rows_});
      if (stop()) return interrupted();
      const bool over = position_.step == steps_per_epoch_;
      const auto now = std::chrono::steady_clock::now();
      const bool due =
          settings_.checkpoint_steps > 0 ? position_.step % settings_.checkpoint_steps == 0 : now - saved >= kSaveEvery;
      if (due && !over) {
        if (position_.refused_in_row == 0) save_if_finite();
        saved = now;
      }
    }
    if (!end_epoch(stop)) return interrupted();
    const std::string diverged = divergence(position_.epochs.back());
    if (diverged.empty()) {
      keep();
      save();
    }
    saved = std::chrono::steady_clock::now();
    if (!diverged.empty()) {
      if (watch.epoch) watch.epoch(position_);
      refuse_epoch(diverged);
    }
    if (watch.epoch && !watch.epoch(position_)) return End::kStopped;
  }
  if (position_.applied == 0)
    refuse_epoch(
        fmt::format("nothing was learned: no step of {} gave finite gradients", counted(settings_.epochs, "epoch")));
  return settings_.early_stop.stops(position_.epochs) ? End::kEarly : End::kEpochs;
}

bool Tuner::end_epoch(const Stop& stop) {
  if (position_.epoch_steps == 0 && counts_no_label_)
    throw Error(kBadInput, owner_.loaded().path(),
                fmt::format("no label of epoch {} counts: the loss leaves all of them out", position_.epoch + 1),
                "give labels of other classes");
  if (position_.epoch_steps == 0)
    throw Error(kBadInput, owner_.loaded().path(),
                fmt::format("takes whole batches of {} only, and there are {} to train on", objective_.batch(),
                            counted(split_.train.size(), "row")),
                "take a smaller " + option("batch") + ", or more data");
  EpochRecord record = {.epoch = position_.epoch + 1,
                        .steps = position_.epoch_steps,
                        .refused = position_.epoch_refused,
                        .learning_rate = position_.learning_rate,
                        .loss_scale = position_.loss_scale,
                        .train_loss = position_.judged.mean_loss(),
                        .train_accuracy = position_.judged.accuracy()};
  if (ranks_ != nullptr)
    ranks_->require_same_number(crc32c(owner_.state()),
                                fmt::format("after epoch {} the states differ", position_.epoch + 1));
  if (!split_.validate.empty()) {
    const Judged judged = validate(stop);
    if (stop()) return false;
    record.validate_loss = judged.mean_loss();
    // NaN outputs do not mean that validation is missing: the epoch must not be judged by its training loss.
    if (judged.samples > 0 && std::isnan(record.validate_loss))
      record.validate_loss = std::numeric_limits<double>::infinity();
    record.validate_accuracy = judged.accuracy();
  }
  position_.epochs.push_back(record);
  position_.judged = {};
  position_.epoch_steps = position_.epoch_refused = position_.step = 0;
  ++position_.epoch;
  return true;
}

Judged Tuner::validate(const Stop& stop) {
  return objective_.judge_rows(owner_.loaded(), trainer_.infer(), data_, split_.validate, stop);
}

void Tuner::exchange_kept() {
  if (best_.empty()) return;
  std::ranges::swap_ranges(best_, owner_.state());
  owner_.loaded().require(trainer_.restored());
}

}  // namespace nacre::tools
