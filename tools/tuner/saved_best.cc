#include "tools/tuner/saved_best.h"

#include <fmt/format.h>

#include "tools/base/format.h"
#include "tools/base/option_id.h"

namespace nacre::tools {
namespace {

bool ends_with_best(const std::vector<EpochRecord>& epochs) {
  return !epochs.empty() && best_epoch(epochs) == epochs.size() - 1;
}

enum class Kin { kNone, kFits, kAhead };

// Returns how a checkpoint is related to the training at `at`: its best epoch, a later best epoch, or neither.
Kin kin_of(const SavedCheckpoint& saved, const NotedPosition& at) {
  if (!saved.status.ok()) return Kin::kNone;
  const std::optional<NotedPosition> noted = noted_position(saved.note);
  if (!noted || noted->options != at.options || noted->position.step != 0 || !ends_with_best(noted->position.epochs))
    return Kin::kNone;
  const size_t epochs = noted->position.epochs.size(), now = at.position.epochs.size();
  if (epochs > now) return goes_on_from(noted->position, at.position) ? Kin::kAhead : Kin::kNone;
  const bool best = best_epoch(at.position.epochs) == epochs - 1;
  return best && goes_on_from(at.position, noted->position) ? Kin::kFits : Kin::kNone;
}

uint32_t saves_of_best(const std::vector<EpochRecord>& epochs) {
  uint32_t saves = 0;
  for (size_t i = 1; i <= epochs.size(); ++i) saves += ends_with_best({epochs.begin(), epochs.begin() + ptrdiff_t(i)});
  return saves;
}

// Decides for earlier versions, which left no note. Each better epoch was one save, and a save that was cut off is
// one more. If there were fewer saves, or a slot was lost, the checkpoint may be an older one.
bool may_be_unrecorded(const SavedCheckpoint& newest, const BestSearch& search) {
  if (search.at.records_best || !newest.status.ok() || !newest.note.empty() || !newest.report.same_layout) return false;
  const uint32_t saves = saves_of_best(search.at.position.epochs), found = newest.report.generation;
  return found == saves || (found > saves && search.best.only(newest.other_slot()).status.ok());
}

}  // namespace

std::optional<BestCheckpoint> find_best(const BestSearch& search) {
  const uint32_t epoch = search.at.position.epochs[*best_epoch(search.at.position.epochs)].epoch;
  BestCheckpoint found = {.saved = search.best.newest()};
  const Kin kin = kin_of(found.saved, search.at);
  if (kin == Kin::kFits || (kin == Kin::kAhead && search.takes_ahead)) {
    found.newest = true;
    found.ahead = kin == Kin::kAhead;
    if (std::string text = search.best.other_slot_text(found.saved); !text.empty())
      found.warnings.push_back(std::move(text));
    return found;
  }
  const std::string unrecorded = fmt::format("{} holds no checkpoint that is recorded as epoch {} of this training",
                                             escaped(search.directory), epoch);
  if (found.saved.status.ok()) {
    BestCheckpoint older = {.saved = search.best.only(found.saved.other_slot()), .older = true};
    if (kin_of(older.saved, search.at) == Kin::kFits) {
      if (kin != Kin::kAhead)
        older.warnings.push_back(fmt::format("{} is not of epoch {} of this training: {} is taken",
                                             escaped(search.best.path(found.saved.report.slot)), epoch,
                                             escaped(search.best.path(older.saved.report.slot))));
      return older;
    }
  }
  for (const uint32_t slot : {0u, 1u}) {
    BestCheckpoint beside = {.saved = search.training.only(slot)};
    if (kin_of(beside.saved, search.at) != Kin::kFits) continue;
    beside.warnings = {fmt::format("{}: it is taken from {}", unrecorded, escaped(search.training.path(slot)))};
    return beside;
  }
  if (!may_be_unrecorded(found.saved, search)) return std::nullopt;
  found.warnings = {fmt::format("{}: an earlier version saved it, and its newest is taken for that epoch", unrecorded)};
  return found;
}

Error no_best(const std::string& directory, const TunePosition& position) {
  return {kBadInput, directory,
          fmt::format("holds no whole checkpoint of epoch {}, the best of this training",
                      position.epochs[*best_epoch(position.epochs)].epoch),
          "restore it from a copy, or begin anew with " + option("restart") + "; nacre export without " +
              option("best") + " takes the last epoch"};
}

}  // namespace nacre::tools
