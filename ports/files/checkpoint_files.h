// CheckpointFiles stores the two slots of a checkpoint as two files of one directory, slot0.checkpoint and
// slot1.checkpoint. It is a ready Storage for POSIX systems.
//
// Example:
//   CheckpointFiles files;
//   if (!files.open("run", CheckpointFiles::Use::kSave)) {               // or kRead, to load from
//     std::printf("%s\n", files.problem().sentence().c_str());
//     return {Code::kStorageFailed};
//   }
//   Checkpoint saved(files.storage(model));                              // `files` outlives it
//   NACRE_TRY(saved.save(model, trainer.state()));
//
// To save, the directory must exist. To load, nothing is created and nothing need be writable. Slots that were
// created and never saved to are removed again. A slot is as long as it needs to be. Once flush() has returned, the
// data survive a loss of power, because files and directory are synced. Two processes must not save to one directory:
// the second is refused, and so is one that reads meanwhile. Failures during a save are a Status; problem() says
// more.
//
// If the slots are new, or were begun anew, the directory has a file `unsaved` until its first checkpoint is whole.
// Until then nothing else in the directory counts. So one call makes all older checkpoints void, and a cut of power
// leaves either the old checkpoints or none. A save checks at its end that the files still have their names. It fails
// if the directory was removed, renamed or replaced meanwhile.
#pragma once

#include <cstdint>
#include <string>

#include "engine/nacre.h"

namespace nacre {

class CheckpointFiles {
 public:
  enum class Use { kSave, kRead };  // kSave: to save and load; kRead: to load alone
  // Why a call failed.
  struct Problem {
    std::string place, fact, remedy;  // "run/slot0.checkpoint", "is a pipe", "name another directory, or remove it"
    bool no_checkpoints = false;      // when loading: the directory has none
    int error = 0;                    // errno, if the system refused
    std::string sentence() const { return place + ": " + fact + (remedy.empty() ? "" : ": " + remedy); }
  };

  CheckpointFiles() = default;
  ~CheckpointFiles() { close(); }
  CheckpointFiles(const CheckpointFiles&) = delete;
  CheckpointFiles& operator=(const CheckpointFiles&) = delete;

  // Closes what was open, opens both slots, and locks them until close(). Returns false if it fails; then problem()
  // says why, and nothing is open. Strings allocate, so it may throw std::bad_alloc.
  bool open(const std::string& directory, Use use);
  // Closes the files, and removes slots that open() made and nothing was saved to. Storages of this object are then
  // no longer usable.
  void close();

  // Returns a storage for checkpoints that `model` is to load, and which points at this object: keep it in place. A
  // file may claim a length that takes no room on its disk. From such a slot at most twice the bytes of a checkpoint
  // of this model are read, or 16 MiB if that is more.
  Storage storage(const Model& model);

  // Makes all existing checkpoints void. Returns false if it fails; then problem() says why, and each slot that the
  // system had not yet cut to length holds its checkpoint as before.
  bool begin_anew();

  // Returns whether the slots are still the files with their names; if not, problem() says so. For kSave.
  bool there();

  const Problem& problem() const { return problem_; }  // the last one
  bool saved() const { return saved_; }                // whether a whole checkpoint was saved since open()
  bool unsaved() const { return unsaved_; }            // when saving: no checkpoint is whole yet
  bool made() const { return made_[0] && made_[1]; }   // when saving: no slot existed before

 private:
  static constexpr uint64_t kSlotBytes = uint64_t{1} << 40;  // distance of the two slots, more than any state takes
  static constexpr uint32_t kEraseBytes = 1u << 31;

  bool open_all(const std::string& directory, Use use);
  bool open_slot(int slot, Use use);
  bool lock(int file, Use use);
  bool require_own(int slot);
  bool is_own(int slot) const;
  bool mark_unsaved();
  bool remove_mark();
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
  int files_[2] = {-1, -1};  // -1: opened for reading, and the file does not exist
  bool made_[2] = {};        // whether this object created the file
  bool heads_ = false;       // a header was programmed: the next flush() completes a checkpoint
  bool saved_ = false, unsaved_ = false;
  int directory_ = -1;
  uint64_t plausible_bytes_ = 0;  // a slot of this length is read, whatever room it takes
  Problem problem_;
};

}  // namespace nacre
