// Checkpoint: a model's state block in a storage that may lose its power at any moment.
//
//   Checkpoint checkpoint(storage);
//   NACRE_TRY(checkpoint.save(model, trainer.state()));
//   ... NACRE_TRY(checkpoint.load(model, trainer.state(), &report)); NACRE_TRY(trainer.restored());
//
// Two slots are written in turn: erase, program the payload, read it back, and only then program the header. If
// anything cuts a save short, load() finds the checkpoint of the save before or of this save, never a mixture.
// See schema/FORMAT.md, "Checkpoints".
//
// A save may be `pending`: it is on trial until confirm() makes it count or revert() forgets it. A save never
// overwrites the newest checkpoint that is not pending before there is a newer one. It does overwrite a pending one.
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
    std::span<const std::byte> note = {};  // bytes of the caller's: the place in the data, the best loss so far
  };

  struct Report {
    uint32_t slot = 0;
    uint32_t generation = 0;   // counts saves; wraps
    bool pending = false;      // neither confirmed nor reverted
    bool same_model = false;   // saved with a model file of the same hash
    bool same_layout = false;  // equal layouts: the whole block was copied
    uint32_t taken = 0;        // tensors of the state that took the checkpoint's values
    // tensors that kept their values: the checkpoint lacks them, or has them in another type or size
    uint32_t kept = 0;
    uint32_t note_bytes = 0;  // size of the note that was saved
  };

  // `storage` is copied; its context must outlive the Checkpoint.
  explicit Checkpoint(const Storage& storage) : storage_(storage) {}

  // Computes the bytes that a storage with these granules needs for checkpoints of this model with a note of this
  // size.
  static Status measure(const Model& model, const Storage& storage, uint32_t note_bytes, uint64_t* bytes) {
    return measure(table_of(model), storage, note_bytes, bytes);
  }

  // Saves the model's whole state block. If the save is refused, nothing is written. If it fails, the newest
  // checkpoint that counts stays. A pending checkpoint after that one may be gone, because the save was overwriting
  // it.
  Status save(const Model& model, std::span<const std::byte> state) { return save(model, state, Info()); }
  Status save(const Model& model, std::span<const std::byte> state, const Info& info) {
    return save(table_of(model), state, info);
  }

  // Loads the newest whole checkpoint, pending or not. If it has the model's own layout, the whole block is copied.
  // Else tensors that match in name, type and size are taken and all others keep their values, so call
  // Trainer::start() first. Parameters, and whatever else a program other than `update` reads, are taken one by one.
  // Tensors that only `update` reads (moments, histories, counters) are taken all or not at all, because a part of an
  // optimizer's state does not fit the rest. A load that is refused leaves the state as it was. After kStorageFailed
  // the state may be partly written: call start() or load again. `note` receives the first bytes of the note that was
  // saved.
  Status load(const Model& model, std::span<std::byte> state, Report* report = nullptr,
              std::span<std::byte> note = {}) {
    return load(table_of(model), state, report, note);
  }

  // measure, save and load for the state of a static program (train/static_trainer.h).
  static Status measure(const StateTable& table, const Storage& storage, uint32_t note_bytes, uint64_t* bytes);
  Status save(const StateTable& table, std::span<const std::byte> state, const Info& info);
  Status load(const StateTable& table, std::span<std::byte> state, Report* report = nullptr,
              std::span<std::byte> note = {});

  // Reports which checkpoint load() would take. It has no model, so fields that compare the checkpoint with a model
  // are 0.
  Status look(Report* report);

  // Makes the newest checkpoint count from now on, if it does not already. kConfirmTorn: an earlier confirm was cut
  // off.
  Status confirm();

  // Forgets the newest checkpoint; the checkpoint before it is the newest again. A pending checkpoint may be
  // forgotten even if there is none before it. The only checkpoint that counts is kept (kNoCheckpoint).
  Status revert();

 private:
  struct Header;
  struct Slot;
  struct Slots;
  struct Found;
  class Writer;

  // Returns the table of a model, or an empty table if the model is not opened. Functions refuse an empty table.
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
