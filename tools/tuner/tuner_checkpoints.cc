// A training's directory of checkpoints: how it begins there, is saved, and goes on.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/files/file_storage.h"
#include "tools/tuner/saved_best.h"
#include "tools/tuner/saved_slots.h"
#include "tools/tuner/tuner.h"

namespace nacre::tools {
namespace {

// A note of the best epoch, for a checkpoint of an earlier version that has none.
std::vector<std::byte> best_note(const NotedPosition& at) {
  TunePosition p;
  p.epoch = uint32_t(*best_epoch(at.position.epochs)) + 1;
  p.epochs.assign(at.position.epochs.begin(), at.position.epochs.begin() + p.epoch);
  for (const EpochRecord& e : p.epochs) p.applied += e.steps - e.refused;
  p.learning_rate = p.epochs.back().learning_rate;
  p.loss_scale = p.epochs.back().loss_scale;
  return note_of(p, at.options);
}

}  // namespace

std::vector<std::string> checkpoint_files(const std::string& directory) {
  std::vector<std::string> files = {directory, directory + "/best"};
  for (const char* folder : {"", "/best"})
    for (const char* name : {"/slot0.checkpoint", "/slot1.checkpoint", "/unsaved"})
      files.push_back(directory + folder + name);
  return files;
}

void Tuner::require(const Status& status, const FileStorage* storage, const std::string& directory) const {
  if (status.ok()) return;
  if (storage != nullptr && !storage->problem().empty())
    throw Error(kIo, directory, storage->problem(), storage->remedy());
  const bool damaged = status.code == Code::kCheckpointDamaged;
  throw Error(kBadInput, directory, sentence(status.code),
              damaged ? "begin anew with " + option("restart") + ", or restore the directory from a copy"
                      : "name another directory, or begin anew with " + option("restart"));
}

bool Tuner::checkpoint_there() const {
  return files_ && files_->there() && (!best_files_ || best_.empty() || best_files_->there());
}

// Gives the checkpoint, or false where there is none. Slots that are empty though a training saved to them are a loss.
bool Tuner::load(SavedCheckpoint* saved) {
  const SavedSlots slots(*files_, settings_.checkpoint, model(), owner_.state());
  *saved = slots.newest();
  if (saved->status.code == Code::kNoCheckpoint) {
    if (files_->unsaved()) return false;
    throw Error(kBadInput, settings_.checkpoint, "holds slots of a checkpoint, and nothing in them",
                "begin anew with " + option("restart") + ", or restore the directory from a copy");
  }
  require(saved->status, files_.get(), settings_.checkpoint);
  bool contradicts = false;
  if (std::string text = slots.other_slot_text(*saved, &contradicts); !text.empty())
    warnings_.push_back(std::move(text));
  if (contradicts)
    throw Error(kBadInput, settings_.checkpoint, "its slots are of two trainings with the same options",
                "begin anew with " + option("restart") + ", or restore the directory from a copy");
  return true;
}

// Before the first save of a training that is not the one in the directory, and not earlier: until then that one stays.
// The training goes first: without it its best epoch is of none.
void Tuner::begin_anew_once() {
  if (!anew_) return;
  anew_ = false;
  files_->begin_anew();
  const std::string best = settings_.checkpoint + "/best";
  if (best_files_) return best_files_->begin_anew();
  for (const char* slot : {"/slot0.checkpoint", "/slot1.checkpoint"})
    if (std::error_code error; std::filesystem::exists(best + slot, error)) return FileStorage(best).begin_anew();
}

// Both slots were removed, and best/ shows that there was more than the epoch that is now repeated.
void Tuner::require_no_best_alone() {
  if (!best_files_ || best_files_->unsaved()) return;
  const std::string directory = settings_.checkpoint + "/best";
  const SavedCheckpoint best = SavedSlots(*best_files_, directory, model(), owner_.state()).newest();
  if (best.status.code == Code::kNoCheckpoint) return;
  throw Error(kBadInput, settings_.checkpoint, "holds the best epoch of a training, and no checkpoint of the training",
              "begin anew with " + option("restart") + ", or restore the directory from a copy");
}

bool Tuner::begin(bool restart) {
  if (settings_.checkpoint.empty()) return false;
  anew_ = restart && files_ != nullptr;
  if (restart) return false;
  SavedCheckpoint saved;
  bool found = files_ != nullptr && load(&saved);
  NotedPosition at;
  if (found) {
    at = position_of(saved.note, settings_.options, settings_.checkpoint);
    position_ = at.position;
    if (!saved.report.same_layout)
      throw Error(kBadInput, settings_.checkpoint, "its state is laid out for another model",
                  "begin anew with " + option("restart") + ", or name it with " + option("start-from"));
    const bool beyond =
        position_.epoch > settings_.epochs || (position_.epoch == settings_.epochs && position_.step > 0);
    if (beyond || position_.step > steps_per_epoch_)
      throw Error(kBadInput, settings_.checkpoint, "its checkpoint stands beyond the end of this training",
                  "begin anew with " + option("restart"));
  } else if (files_ && files_->made()) {
    require_no_best_alone();
  } else if (files_) {
    anew_ = begun_before_ = true;
  }
  if (ranks_ != nullptr) {
    ranks_->give_all(&saved.note);
    ranks_->give_all(&saved.state);
    found = !saved.state.empty();
    if (found) position_ = position_of(saved.note, settings_.options, settings_.checkpoint).position;
  }
  if (!found) return false;
  if (best_files_ && best_epoch(position_.epochs)) load_best(at);
  std::ranges::copy(saved.state, owner_.state().begin());
  owner_.loaded().require(trainer_.restored());
  saved_ = true;
  saved_epoch_ = position_.epoch, saved_step_ = position_.step;
  return true;
}

// Afterwards the newest in best/ is the best epoch of the training as it stands.
void Tuner::load_best(const NotedPosition& at) {
  const std::string directory = settings_.checkpoint + "/best";
  const SavedSlots best(*best_files_, directory, model(), owner_.state()),
      slots(*files_, settings_.checkpoint, model(), owner_.state());
  std::optional<BestCheckpoint> found =
      find_best({.best = best, .training = slots, .at = at, .directory = directory, .takes_ahead = false});
  if (!found) throw no_best(directory, at.position);
  warnings_.insert(warnings_.end(), found->warnings.begin(), found->warnings.end());
  best_ = std::move(found->saved.state);
  best_note_ = found->saved.note.empty() ? best_note(at) : std::move(found->saved.note);
  if (found->newest) return;
  // The newer one goes by a single write: where that is cut off, the older one is still there.
  if (found->older) return require(Checkpoint(best_files_->storage(model())).revert(), best_files_.get(), directory);
  save_best(*best_files_, directory);
}

Checkpoint::Report Tuner::start_from(const std::string& directory) {
  Checkpoint::Report report;
  if (first()) {
    FileStorage files(directory, FileStorage::Use::kRead);
    const SavedSlots slots(files, directory, model(), owner_.state());
    const SavedCheckpoint saved = slots.newest();
    require(saved.status, &files, directory);
    if (std::string text = slots.other_slot_text(saved); !text.empty()) warnings_.push_back(std::move(text));
    report = saved.report;
    std::ranges::copy(saved.state, owner_.state().begin());
  }
  if (ranks_ != nullptr) {
    std::vector<std::byte> state(owner_.state().begin(), owner_.state().end());
    ranks_->give_all(&state);
    std::ranges::copy(state, owner_.state().begin());
  }
  owner_.loaded().require(trainer_.restored());
  return report;
}

// A best epoch that is no longer where it was saved is lost with the next process: then nothing may say it is saved.
void Tuner::save() {
  if (!files_) return;
  begin_anew_once();
  const std::vector<std::byte> note = note_of(position_, settings_.options);
  require(Checkpoint(files_->storage(model())).save(model(), owner_.state(), {.pending = false, .note = note}),
          files_.get(), settings_.checkpoint);
  if (best_files_ && !best_.empty() && !best_files_->there())
    require({Code::kStorageFailed, Table::kCheckpoint}, best_files_.get(), settings_.checkpoint + "/best");
  saved_ = true;
  saved_epoch_ = position_.epoch, saved_step_ = position_.step;
}

// A checkpoint from which nothing can be made must not take the place of one from which something can. Outputs are
// judged at the end of an epoch: a batch may take longer than a signal waits.
void Tuner::save_if_finite() {
  if (not_finite_state().empty()) save();
}

void Tuner::save_best(FileStorage& files, const std::string& directory) const {
  require(Checkpoint(files.storage(model())).save(model(), best_, {.pending = false, .note = best_note_}), &files,
          directory);
}

void Tuner::save_to(const std::string& directory) {
  FileStorage files(directory);
  const std::vector<std::byte> note = note_of(position_, settings_.options);
  if (settings_.keep_best && !best_.empty()) {
    FileStorage best(directory + "/best");
    save_best(best, directory + "/best");
  }
  require(Checkpoint(files.storage(model())).save(model(), owner_.state(), {.pending = false, .note = note}), &files,
          directory);
}

// Before the epoch itself is saved: a run that is cut off between the two repeats the epoch, and keeps the same state
// again.
void Tuner::keep() {
  if (!settings_.keep_best || !first() || best_epoch(position_.epochs) != position_.epochs.size() - 1) return;
  const std::span<const std::byte> state = owner_.state();
  best_.assign(state.begin(), state.end());
  best_note_ = note_of(position_, settings_.options);
  if (!best_files_) return;
  begin_anew_once();
  save_best(*best_files_, settings_.checkpoint + "/best");
}

}  // namespace nacre::tools
