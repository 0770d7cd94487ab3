// CheckpointFiles: the two slots of a checkpoint as two files, slot0.checkpoint and slot1.checkpoint, of one directory:
// a ready Storage on POSIX systems.
//
//   CheckpointFiles files;
//   if (!files.open(directory, CheckpointFiles::Use::kSave)) return say(files.problem());   // or kRead, to load from
//   Checkpoint checkpoint(files.storage(model));
//
// To save, the directory must be there; to load, nothing is made or need be writable. Slots that were made and into
// which nothing was saved are removed again. A slot is as long as it needs to be. What flush() has returned for
// survives a loss of power: files and directory are synced. Two processes must not save to one directory: the second is
// refused, and so is one that reads meanwhile. Failures inside a save are Status; problem() says more.
//
// A directory whose slots were made, or which was begun anew, has a file `unsaved` until the first checkpoint in it is
// whole: until then nothing else in it counts. So one call makes all that was there void, and a cut of power leaves
// either the old checkpoints or none. A save that ends well has found its files under their names: a directory that
// was removed, renamed or replaced meanwhile fails it.
#pragma once

#include <cstdint>
#include <string>

#include "engine/nacre.h"

namespace nacre {

class CheckpointFiles {
 public:
  enum class Use { kSave, kRead };
  struct Problem {
    std::string place, fact, remedy;  // "run/slot0.checkpoint", "is a pipe", "name another directory, or remove it"
    bool no_checkpoints = false;      // to load from: there are none
    int error = 0;                    // errno, where the system refused
    std::string sentence() const { return place + ": " + fact + (remedy.empty() ? "" : ": " + remedy); }
  };

  CheckpointFiles() = default;
  ~CheckpointFiles() { close(); }
  CheckpointFiles(const CheckpointFiles&) = delete;
  CheckpointFiles& operator=(const CheckpointFiles&) = delete;

  bool open(const std::string& directory, Use use);  // false: problem() says why
  void close();

  // For checkpoints that `model` is to load. A file may claim a length that takes no room on its disk: of such a slot
  // no more is read than twice what a checkpoint of this model takes, or 16 MiB.
  Storage storage(const Model& model);

  // Nothing that is there counts any more. False: problem() says why, and everything counts as before.
  bool begin_anew();

  // Returns whether the slots are still the files of their names; false: problem() says so.
  bool there();

  const Problem& problem() const { return problem_; }  // the last one
  bool saved() const { return saved_; }                // a whole checkpoint since open()
  bool unsaved() const { return unsaved_; }            // to save to: no checkpoint was ever whole, or it was begun anew
  bool made() const { return made_[0] && made_[1]; }   // to save to: no slot was there before

 private:
  static constexpr uint64_t kSlotBytes = uint64_t{1} << 40;  // more than any state: a slot's place in the storage
  static constexpr uint32_t kEraseBytes = 1u << 31;

  bool open_all(const std::string& directory, Use use);
  bool open_slot(int slot, Use use);
  bool lock(int file, Use use);
  bool require_own(int slot);
  bool is_own(int slot) const;
  bool mark_unsaved();
  bool void_slots();
  bool count_from_now();
  bool read(uint64_t offset, std::span<std::byte> to);
  bool program(uint64_t offset, std::span<const std::byte> from);
  bool erase(uint64_t offset);
  bool flush();
  uint64_t filled(uint64_t offset) const;
  bool write_at(uint32_t slot, uint64_t offset, std::span<const std::byte> from);
  bool fail(uint32_t slot, const char* what);
  bool refuse(const std::string& place, const std::string& fact, const std::string& remedy);
  bool refuse_errno(const std::string& place, const std::string& before, const std::string& remedy);

  std::string paths_[2], mark_;
  int files_[2] = {-1, -1};  // -1: to read from, and not there
  bool made_[2] = {};        // by this object
  bool heads_ = false;       // a header was programmed: with the next flush() a checkpoint is there
  bool saved_ = false, unsaved_ = false;
  int directory_ = -1;
  uint64_t plausible_bytes_ = 0;  // of a slot, whatever room it takes
  Problem problem_;
};

}  // namespace nacre
