#include "tools/tuner/saved_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/files/file_storage.h"
#include "tools/tuner/saved_best.h"
#include "tools/tuner/saved_slots.h"

namespace nacre::tools {
namespace {

constexpr const char* kNameAnother = "name a directory with checkpoints of this model";

SavedCheckpoint newest_of(const SavedSlots& slots, const FileStorage& files, const std::string& directory) {
  SavedCheckpoint saved = slots.newest();
  if (!saved.status.ok())
    throw Error(kBadInput, directory, files.problem().empty() ? sentence(saved.status.code) : files.problem(),
                kNameAnother);
  return saved;
}

void warn(LoadedState& loaded, const SavedSlots& slots, const SavedCheckpoint& taken) {
  if (std::string text = slots.other_slot_text(taken); !text.empty()) loaded.warnings.push_back(std::move(text));
}

struct Source {
  const std::string& directory;
  const Model& model;
  std::span<const std::byte> initial;
};

SavedCheckpoint take_newest(const Source& source, LoadedState& loaded) {
  FileStorage files(source.directory, FileStorage::Use::kRead);
  const SavedSlots slots(files, source.directory, source.model, source.initial);
  SavedCheckpoint saved = newest_of(slots, files, source.directory);
  warn(loaded, slots, saved);
  loaded.file = slots.path(saved.report.slot);
  return saved;
}

SavedCheckpoint take_best(const Source& source, LoadedState& loaded) {
  const std::string directory = source.directory + "/best";
  FileStorage files(source.directory, FileStorage::Use::kRead), best_files(directory, FileStorage::Use::kRead);
  const SavedSlots slots(files, source.directory, source.model, source.initial),
      best(best_files, directory, source.model, source.initial);
  const SavedCheckpoint training = newest_of(slots, files, source.directory);
  warn(loaded, slots, training);
  const std::optional<NotedPosition> at = noted_position(training.note);
  if (!at)
    throw Error(kBadInput, source.directory, "does not say which epoch is its best: nacre tune did not save it",
                "leave out " + option("best"));
  if (!best_epoch(at->position.epochs))
    throw Error(kBadInput, source.directory, "no epoch is over, and none is the best", "leave out " + option("best"));
  std::optional<BestCheckpoint> found =
      find_best({.best = best, .training = slots, .at = *at, .directory = directory, .takes_ahead = true});
  if (!found) throw no_best(directory, at->position);
  loaded.warnings.insert(loaded.warnings.end(), found->warnings.begin(), found->warnings.end());
  const bool beside = !found->newest && !found->older && !found->saved.note.empty();
  loaded.file = (beside ? slots : best).path(found->saved.report.slot);
  return std::move(found->saved);
}

}  // namespace

void save_state(LoadedTrainer& trainer, const std::string& directory) {
  const Model& model = trainer.loaded().model();
  FileStorage files(directory);
  const Status status = Checkpoint(files.storage(model)).save(model, trainer.state());
  if (status.ok()) return;
  throw Error(kIo, directory, files.problem().empty() ? sentence(status.code) : files.problem(), files.remedy());
}

Json LoadedState::json() const { return {{"file", file}, {"save", report.generation}, {"where", where}}; }

LoadedState load_state(LoadedTrainer& trainer, const std::string& directory, const LoadOptions& options) {
  const LoadedModel& model = trainer.loaded();
  LoadedState loaded;
  // If the checkpoint is refused, the trainer stays as it was.
  const Source source = {directory, model.model(), trainer.state()};
  const SavedCheckpoint saved = options.best ? take_best(source, loaded) : take_newest(source, loaded);
  const Checkpoint::Report& report = loaded.report = saved.report;
  loaded.where = where_text(saved.note);
  if (!report.same_model && !options.any_training)
    throw Error(kBadInput, directory,
                fmt::format("holds a checkpoint of another training: {} of {} tensors of this model's state are in it",
                            report.taken, report.taken + report.kept),
                "name the model that was trained (of nacre tune NETWORK: convert it with the same options), or take "
                "what matches with " +
                    option("any-training"));
  std::ranges::copy(saved.state, trainer.state().begin());
  model.require(trainer.trainer().restored());
  return loaded;
}

}  // namespace nacre::tools
