#include "tools/tuner/saved_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/base/error.h"
#include "tools/files/file_storage.h"

namespace nacre::tools {

void save_state(LoadedTrainer& trainer, const std::string& directory) {
  const Model& model = trainer.loaded().model();
  FileStorage files(directory);
  const Status status = Checkpoint(files.storage(model)).save(model, trainer.state());
  if (status.ok()) return;
  throw Error(kIo, directory, files.problem().empty() ? sentence(status.code) : files.problem(),
              files.remedy());
}

Checkpoint::Report load_state(LoadedTrainer& trainer, const std::string& directory, bool any_training) {
  const LoadedModel& loaded = trainer.loaded();
  FileStorage files(directory, FileStorage::Use::kRead);
  Checkpoint::Report report;
  // Into a copy: what is refused must leave the trainer as it was.
  const std::span<const std::byte> now = trainer.state();
  std::vector<std::byte> state(now.begin(), now.end());
  if (const Status status = Checkpoint(files.storage(loaded.model())).load(loaded.model(), state, &report);
      !status.ok())
    throw Error(kBadInput, directory, files.problem().empty() ? sentence(status.code) : files.problem(),
                "name a directory with checkpoints of this model");
  if (!report.same_model && !any_training)
    throw Error(kBadInput, directory,
                fmt::format("holds a checkpoint of another training: {} of {} tensors of this model's state are in it",
                            report.taken, report.taken + report.kept),
                "name the model that was trained (of nacre tune NETWORK: convert it with the same options), or take "
                "what matches with --any-training");
  std::ranges::copy(state, trainer.state().begin());
  loaded.require(trainer.trainer().restored());
  return report;
}

}  // namespace nacre::tools
