// Checkpoint: a model's state block in a storage that may lose its power at any moment.
//
//   Checkpoint checkpoint(storage);
//   NACRE_TRY(checkpoint.save(model, trainer.state()));
//   ... NACRE_TRY(checkpoint.load(model, trainer.state(), &report)); NACRE_TRY(trainer.restored());
//
// Two slots, written in turn: erase, program the payload, read it back, and only then program the header. Whatever cuts
// a save short, load() finds a checkpoint from before it or the one saved now, never a mixture. schema/FORMAT.md,
// "Checkpoints".
//
// A save may be `pending`: a trial, until confirm() makes it count or revert() forgets it. The newest checkpoint that
// is not pending is never written over by a save before there is a newer one; a pending one is written over by the next
// save.
//
// No heap; at most 256 bytes of buffer on the stack. The storage must have one user at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/storage.h"
#include "engine/model/model.h"
#include "engine/train/state_table.h"

namespace nacre {

class Checkpoint {
 public:
  struct Info {
    bool pending = false;
    std::span<const std::byte> note = {};  // the caller's own: the place in the data, the best loss so far
  };

  struct Report {
    uint32_t slot = 0;
    uint32_t generation = 0;   // counts saves; wraps
    bool pending = false;      // neither confirmed nor reverted
    bool same_model = false;   // it was saved with this very model file, as its hash tells
    bool same_layout = false;  // the whole block was copied
    uint32_t taken = 0;        // tensors of the state that have the checkpoint's values
    // tensors that keep what they had: what the checkpoint lacks, or has in another type or size
    uint32_t kept = 0;
    uint32_t note_bytes = 0;  // of the note that was saved
  };

  // `storage` is copied; its context must outlive the Checkpoint.
  explicit Checkpoint(const Storage& storage) : storage_(storage) {}

  // Bytes that a storage with these granules must have for checkpoints of this model with such a note.
  static Status measure(const Model& model, const Storage& storage, uint32_t note_bytes, uint64_t* bytes) {
    return measure(table_of(model), storage, note_bytes, bytes);
  }

  // `state`: the model's whole state block. Refused: nothing is written. Failed: the newest checkpoint that counts
  // stays; a pending one after it is what the save was to write over, and may be gone.
  Status save(const Model& model, std::span<const std::byte> state) { return save(model, state, Info()); }
  Status save(const Model& model, std::span<const std::byte> state, const Info& info) {
    return save(table_of(model), state, info);
  }

  // The newest whole checkpoint, pending or not. With the model's own layout it is copied. Else tensors that match in
  // name, type and size are taken and the rest keeps what it has, so call Trainer::start() first: what training learns
  // (parameters, and whatever else a program but `update` reads) one by one; what only `update` reads (moments,
  // histories, counters) all or nothing, because an optimizer's halves do not fit together. The state is untouched
  // where this is refused, but for kStorageFailed, when it must be started or loaded again. `note` takes the first
  // bytes of the note that was saved.
  Status load(const Model& model, std::span<std::byte> state, Report* report = nullptr,
              std::span<std::byte> note = {}) {
    return load(table_of(model), state, report, note);
  }

  // measure, save and load for the state of a static program (train/static_trainer.h).
  static Status measure(const StateTable& table, const Storage& storage, uint32_t note_bytes, uint64_t* bytes);
  Status save(const StateTable& table, std::span<const std::byte> state, const Info& info);
  Status load(const StateTable& table, std::span<std::byte> state, Report* report = nullptr,
              std::span<std::byte> note = {});

  // Reports which checkpoint load() would take, without a model: fields that compare it with one are 0.
  Status look(Report* report);

  // The newest checkpoint counts from now on. Nothing happens if it does already. kConfirmTorn: a confirm was cut off
  // before.
  Status confirm();

  // Forgets the newest checkpoint: the one before it is the newest again. A pending one with nothing before it may be
  // forgotten too; one that counts and is the only one is kept (kNoCheckpoint).
  Status revert();

 private:
  struct Header;
  struct Slot;
  struct Slots;
  struct Found;
  class Writer;

  // Returns an empty table if no model is opened: functions that take a table refuse it.
  static StateTable table_of(const Model& model) { return model.opened() ? state_table(model) : StateTable(); }
  Status check() const;
  Slot slot(uint32_t index) const;
  bool whole(Slot& slot) const;
  bool table(Slot& slot, uint32_t* crc) const;
  bool sum(Slot& slot, uint64_t offset, uint64_t bytes, uint32_t* crc) const;
  bool put(uint64_t at, std::span<const std::byte> bytes) const;
  Status find(Slots* slots) const;
  Status write(const StateTable& table, Slot& slot, std::span<const std::byte> state, std::span<const std::byte> note);
  bool payload(const StateTable& table, Slot& slot, std::span<const std::byte> state, std::span<const std::byte> note);
  bool match(const StateTable& table, const Slot& slot, bool all, std::span<std::byte> state, Found* found) const;
  static Report report_of(const Slot& slot);

  bool read(uint64_t offset, std::span<std::byte> to) const { return storage_.read(storage_.context, offset, to); }
  bool flush() const { return storage_.flush == nullptr || storage_.flush(storage_.context); }

  Storage storage_;
};

}  // namespace nacre
