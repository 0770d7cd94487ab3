// The directory of checkpoints of a training: how the training begins there, saves and resumes.
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

// Makes the note of the best epoch, for a checkpoint of an earlier version, which has none.
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

// Reads the checkpoint. Returns false if there is none. Throws if slots are empty although a training saved to them.
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

// Erases another training's checkpoints just before the first save of this one; until then they stay. The training's
// checkpoint is erased before its best epoch's. If that fails, the next save erases them first.
void Tuner::begin_anew_once() {
  if (!anew_) return;
  files_->begin_anew();
  const std::string best = settings_.checkpoint + "/best";
  bool holds_best = false;
  for (const char* slot : {"/slot0.checkpoint", "/slot1.checkpoint"})
    if (std::error_code error; std::filesystem::exists(best + slot, error)) holds_best = true;
  if (best_files_) best_files_->begin_anew();
  else if (holds_best) FileStorage(best).begin_anew();
  anew_ = false;
}

// Refuses a directory in which both slots were removed and best/ shows that the training was further.
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

// Loads the best epoch of the training at `at`, and makes it the newest checkpoint in best/ if it is not.
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
  // The newer one is removed by a single write: if that is cut off, the older one is still there.
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

// Throws if the directory of the best epoch is gone: the best epoch is lost with this process, so nothing may say
// that it is saved.
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

// Saves unless the state is not finite: such a checkpoint must not replace a usable one. Outputs are judged only at
// the end of an epoch, because a batch may take longer than a signal waits.
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

// Keeps the best epoch before the epoch itself is saved. A run that is cut off between the two repeats the epoch, and
// keeps the same state again.
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
