#include "tools/tuner/tuner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/kernels/training.h"
#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/files/file_storage.h"
#include "tools/model/gpu.h"
#include "tools/model/kernel_choice.h"

namespace nacre::tools {
namespace {

constexpr auto kSaveEvery = std::chrono::seconds(60);

}  // namespace

std::vector<std::string> checkpoint_files(const std::string& directory) {
  std::vector<std::string> files = {directory, directory + "/best"};
  for (const char* folder : {"", "/best"})
    for (const char* slot : {"/slot0.checkpoint", "/slot1.checkpoint"}) files.push_back(directory + folder + slot);
  return files;
}

LoadedTrainer::LoadedTrainer(const LoadedModel& model, Ports ports, uint32_t threads, const std::string& target)
    : model_(model), target_(model.program_names(model.find_program(Entry::kUpdate, target)).target),
      threads_(threads > 1 ? std::make_unique<ThreadPool>(int(threads)) : nullptr), ports_(std::move(ports)),
      places_(ports_) {
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
                  fmt::format("this machine has {}: take a smaller --batch", grouped(most)));
  memory_.resize(size_t(sizes.total(alignment)));
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
    throw Error(
        kFailed, target_, "the GPU does not give back what was learned",
        "run the same command again: it goes on from the last checkpoint");
  return state;
}

Tuner::Tuner(LoadedTrainer& trainer, const Objective& objective, const Dataset& data, const Split& split,
             TuneSettings settings)
    : owner_(trainer), trainer_(trainer.trainer()), objective_(objective), data_(data), split_(split),
      settings_(std::move(settings)) {
  if (settings_.batch == 0) settings_.batch = objective.batch();
  if (trainer_.immediate() && settings_.batch > objective.batch())
    throw Error(kUsage, "--batch",
                fmt::format("is {}, but this model updates as it goes, after {}", settings_.batch,
                            counted(objective.batch(), "row")),
                "give that, or a model without --update immediate");
  const auto rows = uint64_t(split.train.size());
  steps_per_epoch_ = uint32_t((rows + settings_.batch - 1) / settings_.batch);
  if (settings_.checkpoint.empty()) return;
  files_ = std::make_unique<FileStorage>(settings_.checkpoint);
  if (settings_.keep_best) best_files_ = std::make_unique<FileStorage>(settings_.checkpoint + "/best");
}

Tuner::~Tuner() = default;

void Tuner::require(const Status& status, const FileStorage* storage, const std::string& directory) const {
  if (status.ok()) return;
  if (storage != nullptr && !storage->problem().empty())
    throw Error(kIo, directory, storage->problem(), "free some space, or name another directory");
  const bool damaged = status.code == Code::kCheckpointDamaged;
  throw Error(kBadInput, directory, sentence(status.code),
              damaged ? "begin anew with --restart, or restore the directory from a copy"
                      : "name another directory, or begin anew with --restart");
}

bool Tuner::begin(bool restart) {
  if (!files_ || restart) return false;
  Checkpoint checkpoint(files_->storage(model()));
  Checkpoint::Report report;
  if (const Status status = checkpoint.look(&report); status.code == Code::kNoCheckpoint) return false;
  else require(status, files_.get(), settings_.checkpoint);
  std::vector<std::byte> note(report.note_bytes);
  // The note first, from a copy of the state: a checkpoint of another training must not leave anything behind.
  const std::span<std::byte> now = owner_.state();
  std::vector<std::byte> state(now.begin(), now.end());
  require(checkpoint.load(model(), state, &report, note), files_.get(), settings_.checkpoint);
  position_ = position_of(note, settings_.options, settings_.checkpoint);
  if (!report.same_layout)
    throw Error(kBadInput, settings_.checkpoint, "its state is laid out for another model",
                "begin anew with --restart, or name it with --start-from");
  const bool beyond = position_.epoch > settings_.epochs || (position_.epoch == settings_.epochs && position_.step > 0);
  if (beyond || position_.step > steps_per_epoch_)
    throw Error(kBadInput, settings_.checkpoint, "its checkpoint stands beyond the end of this training",
                "begin anew with --restart");
  std::ranges::copy(state, owner_.state().begin());
  owner_.loaded().require(trainer_.restored());
  saved_ = true;
  if (!best_files_ || !best_epoch(position_.epochs)) return true;
  best_.resize(state.size());
  require(Checkpoint(best_files_->storage(model())).load(model(), best_, &report), best_files_.get(),
          settings_.checkpoint + "/best");
  return true;
}

Checkpoint::Report Tuner::start_from(const std::string& directory) {
  FileStorage files(directory, FileStorage::Use::kRead);
  Checkpoint::Report report;
  require(Checkpoint(files.storage(model())).load(model(), owner_.state(), &report), &files, directory);
  owner_.loaded().require(trainer_.restored());
  return report;
}

void Tuner::save() {
  if (!files_) return;
  const std::vector<std::byte> note = note_of(position_, settings_.options);
  require(Checkpoint(files_->storage(model())).save(model(), owner_.state(), {.pending = false, .note = note}),
          files_.get(), settings_.checkpoint);
  saved_ = true;
}

// Before the epoch itself is saved: a run that is cut off between the two repeats the epoch, and keeps the same state
// again.
void Tuner::keep() {
  if (!settings_.keep_best || best_epoch(position_.epochs) != position_.epochs.size() - 1) return;
  const std::span<const std::byte> state = owner_.state();
  best_.assign(state.begin(), state.end());
  if (!best_files_) return;
  require(Checkpoint(best_files_->storage(model())).save(model(), best_), best_files_.get(),
          settings_.checkpoint + "/best");
}

Tuner::End Tuner::run(const Watch& watch) {
  auto saved = std::chrono::steady_clock::now();
  bool stopped = false;
  const auto stop = [&] { return stopped = stopped || (watch.interrupted && watch.interrupted()); };
  const auto interrupted = [&] {
    save();
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
        save();
        saved = now;
      }
    }
    if (!end_epoch(stop)) return interrupted();
    keep();
    save();
    saved = std::chrono::steady_clock::now();
    if (watch.epoch && !watch.epoch(position_)) return End::kStopped;
  }
  return settings_.early_stop.stops(position_.epochs) ? End::kEarly : End::kEpochs;
}

bool Tuner::train_step(const std::vector<int64_t>& order, const Stop& stop) {
  const size_t first = size_t(position_.step) * settings_.batch, last = std::min(first + settings_.batch, order.size());
  const Judged before = position_.judged;
  size_t taken = 0;
  for (size_t at = first; at < last; at += objective_.batch()) {
    const size_t rows = std::min(size_t{objective_.batch()}, last - at);
    if (at > first && stop()) {
      trainer_.discard();
      position_.judged = before;
      return false;
    }
    if (micro_batch(std::span(order).subspan(at, rows))) taken += rows;
    else left_out_ = rows;
  }
  if (taken == 0) return true;
  const float rate = settings_.schedule.at(position_.applied);
  Trainer::Report report = {};
  owner_.loaded().require(trainer_.commit(rate, &report));
  rows_ += taken;
  ++position_.epoch_steps;
  position_.learning_rate = rate;
  position_.loss_scale = report.loss_scale;
  if (report.applied) {
    ++position_.applied;
    position_.refused_in_row = 0;
    position_.judged.loss += double(report.loss) * double(report.samples);
    position_.judged.samples += double(report.samples);
    return true;
  }
  position_.judged = before;  // of a refused step nothing counts
  ++position_.epoch_refused;
  if (++position_.refused_in_row >= settings_.most_refused) refuse_divergence(report);
  return true;
}

bool Tuner::micro_batch(std::span<const int64_t> rows) {
  const size_t inputs = data_.inputs.size();
  std::vector<uint8_t> labels;
  for (size_t i = 0; i <= inputs; ++i) {
    const std::span<std::byte> input = trainer_.input(uint32_t(i));
    size_t at = 0;
    for (const int64_t row : rows) {
      const std::span<const uint8_t> bytes = i < inputs ? data_.row(i, row) : data_.label(row);
      std::memcpy(input.data() + at, bytes.data(), bytes.size());
      at += bytes.size();
      if (i == inputs) labels.insert(labels.end(), bytes.begin(), bytes.end());
    }
  }
  const Status status = trainer_.accumulate(rows.size() == objective_.batch() ? 0 : uint32_t(rows.size()));
  if (status.code == Code::kRowsUnsupported) return false;
  owner_.loaded().require(status);
  if (!objective_.trained()) return true;
  const Judged judged = objective_.judge(*objective_.trained(), trainer_.output(0), labels, uint32_t(rows.size()));
  position_.judged.right += judged.right;
  position_.judged.answers += judged.answers;
  return true;
}

bool Tuner::end_epoch(const Stop& stop) {
  if (position_.epoch_steps == 0)
    throw Error(kBadInput, owner_.loaded().path(),
                fmt::format("takes whole batches of {} only, and there are {} to train on", objective_.batch(),
                            counted(split_.train.size(), "row")),
                "take a smaller --batch, or more data");
  EpochRecord record = {.epoch = position_.epoch + 1,
                        .steps = position_.epoch_steps,
                        .refused = position_.epoch_refused,
                        .learning_rate = position_.learning_rate,
                        .loss_scale = position_.loss_scale,
                        .train_loss = position_.judged.mean_loss(),
                        .train_accuracy = position_.judged.accuracy()};
  if (!split_.validate.empty()) {
    const Judged judged = validate(stop);
    if (stop()) return false;
    record.validate_loss = judged.mean_loss();
    // Outputs that are no numbers are no missing validation: the epoch must not be judged by its training loss.
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

void Tuner::take_kept() {
  if (best_.empty()) return;
  std::ranges::copy(best_, owner_.state().begin());
  owner_.loaded().require(trainer_.restored());
}

void Tuner::refuse_divergence(const Trainer::Report& report) const {
  const std::string kept = !saved_ ? "nothing is written" : "the last good checkpoint stays in " + settings_.checkpoint;
  throw Error(
      kFailed, fmt::format("epoch {}, step {}", position_.epoch + 1, position_.step + 1),
      fmt::format("{} steps in a row gave gradients that are not finite: the training diverges (learning rate {}, loss "
                  "scale {}{})",
                  position_.refused_in_row, position_.learning_rate, report.loss_scale,
                  report.overflow_at_floor ? ", which cannot become smaller" : ""),
      fmt::format("take a lower --lr, a warm-up or --clip-norm 1, and data of about unit size (--scale); {}", kept));
}

}  // namespace nacre::tools
