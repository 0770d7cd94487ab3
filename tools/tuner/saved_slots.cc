#include "tools/tuner/saved_slots.h"

#include <fmt/format.h>

#include <cstring>

#include "tools/base/format.h"
#include "tools/tuner/position.h"

namespace nacre::tools {
namespace {

// A storage that shows one slot; the other reads as erased.
struct OneSlot {
  const Storage& all;
  uint32_t slot;

  bool shows(uint64_t at) const { return uint32_t(at / (all.bytes / 2)) == slot; }
  Storage storage() {
    Storage one = all;
    one.context = this;
    one.read = [](void* context, uint64_t at, std::span<std::byte> to) {
      const OneSlot& self = *static_cast<OneSlot*>(context);
      if (self.shows(at)) return self.all.read(self.all.context, at, to);
      std::memset(to.data(), 0xFF, to.size());
      return true;
    };
    one.filled = [](void* context, uint64_t at) {
      const OneSlot& self = *static_cast<OneSlot*>(context);
      return self.shows(at) ? self.all.filled(self.all.context, at) : 0;
    };
    return one;
  }
};

}  // namespace

SavedSlots::SavedSlots(FileStorage& files, const std::string& directory, const Model& model,
                       std::span<const std::byte> initial)
    : directory_(directory), model_(model), initial_(initial.begin(), initial.end()), storage_(files.storage(model)) {}

SavedCheckpoint SavedSlots::read(const Storage& storage) const {
  SavedCheckpoint saved;
  Checkpoint checkpoint(storage);
  saved.status = checkpoint.look(&saved.report);
  if (!saved.status.ok()) return saved;
  saved.note.resize(saved.report.note_bytes);
  saved.state = initial_;
  saved.status = checkpoint.load(model_, saved.state, &saved.report, saved.note);
  return saved;
}

SavedCheckpoint SavedSlots::only(uint32_t slot) const {
  OneSlot one = {storage_, slot};
  return read(one.storage());
}

std::string SavedSlots::path(uint32_t slot) const { return fmt::format("{}/slot{}.checkpoint", directory_, slot); }

std::string SavedSlots::other_slot_text(const SavedCheckpoint& taken, bool* contradicts) const {
  const uint32_t slot = taken.other_slot();
  const SavedCheckpoint other = only(slot);
  const std::string where = where_text(taken.note);
  const std::string of = where.empty() ? fmt::format("save {}", taken.report.generation) : where;
  const std::string takes = fmt::format("{} is taken, {}", escaped(path(taken.report.slot)), of);
  if (other.status.ok() || other.status.code == Code::kCheckpointModel) {
    const auto a = noted_position(other.note), b = noted_position(taken.note);
    if (!a && !b) return "";
    if (!a || !b) return fmt::format("{} is of another training: {}", escaped(path(slot)), takes);
    if (a->options != b->options)
      return fmt::format("{} is of another training ({}): {}", escaped(path(slot)),
                         options_difference(a->options, b->options), takes);
    if (goes_on_from(b->position, a->position)) return "";
    if (contradicts != nullptr) *contradicts = true;
    return fmt::format("{} is of another training with the same options: {}", escaped(path(slot)), takes);
  }
  const bool empty = storage_.filled(storage_.context, slot * (storage_.bytes / 2)) == 0;
  if (empty && taken.report.generation == 1) return "";  // there was no second save yet
  if (empty) return fmt::format("{} is empty: {}", escaped(path(slot)), takes);
  if (other.status.code == Code::kStorageFailed)
    return fmt::format("{} cannot be read: {}", escaped(path(slot)), takes);
  return fmt::format("{} is not whole, damaged or cut off while it was saved: {}", escaped(path(slot)), takes);
}

}  // namespace nacre::tools
