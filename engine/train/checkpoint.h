// Checkpoint: a model's state block in a storage that may lose its power at any moment.
//
// Example:
//   Checkpoint checkpoint(storage);                    // NorFlash::storage() or CheckpointFiles::storage(model)
//   const uint32_t epoch = 3;
//   NACRE_TRY(checkpoint.save(model, trainer.state(), {.note = std::as_bytes(std::span(&epoch, 1))}));
//   Checkpoint::Report report;                         // after the next power-on
//   NACRE_TRY(trainer.start());
//   const Status loaded = checkpoint.load(model, trainer.state(), &report);
//   if (loaded.ok()) NACRE_TRY(trainer.restored());
//   else if (loaded.code != Code::kNoCheckpoint) return loaded;
//
// Example:
//   NACRE_TRY(checkpoint.save(model, trainer.state(), {.pending = true}));   // on trial
//   if (improved(trainer.infer())) return checkpoint.confirm();
//   NACRE_TRY(checkpoint.revert());                                          // back to the checkpoint before
//   NACRE_TRY(checkpoint.load(model, trainer.state()));
//   NACRE_TRY(trainer.restored());
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
  // Facts that a save stores beside the state.
  struct Info {
    bool pending = false;                  // on trial, until confirm or revert
    std::span<const std::byte> note = {};  // bytes of the caller's: the place in the data, the best loss so far
  };

  // Facts about the checkpoint that load took.
  struct Report {
    uint32_t slot = 0;         // 0 or 1
    uint32_t generation = 0;   // counts saves; wraps
    bool pending = false;      // neither confirmed nor reverted
    bool same_model = false;   // saved with a model file of the same hash
    bool same_layout = false;  // equal layouts: the whole block was copied
    uint32_t taken = 0;        // tensors of the state that took the checkpoint's values
    // tensors that kept their values: the checkpoint lacks them, or has them in another type or size
    uint32_t kept = 0;
    uint32_t note_bytes = 0;  // size of the note that was saved
  };

  // `storage` is copied; its context must outlive the Checkpoint. Every function below returns kStorageGranule if the
  // storage's sizes cannot be used, and kStorageFailed if it lacks a function or one of its functions failed.
  explicit Checkpoint(const Storage& storage) : storage_(storage) {}

  // Computes the bytes that a storage with these granules needs for checkpoints of this model with a note of this
  // size: both slots. Reads nothing. kNotBound: the model is not opened. *bytes is 0 after a refusal.
  static Status measure(const Model& model, const Storage& storage, uint32_t note_bytes, uint64_t* bytes) {
    return measure(table_of(model), storage, note_bytes, bytes);
  }

  // Saves the model's whole state block. `state` has at least its bytes (kMemorySize: also if the trainer is not
  // started, and its state() empty). kStorageSize: state and note do not fit into a slot. kNotBound: the model is not
  // opened. kReadBack: the bytes read back differently. If the save is refused, nothing is written. If it fails
  // (kReadBack, kStorageFailed), the newest checkpoint that counts stays. A pending checkpoint after that one may be
  // gone, because the save was overwriting it.
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
  // saved. `report` may be null; it is only written by a load that succeeds.
  //
  // kNoCheckpoint: nothing was ever saved. kCheckpointDamaged: neither slot is whole. kCheckpointModel: no parameter is
  // one of the model's. kMemorySize: `state` has fewer bytes than the model's. kNotBound: the model is not opened.
  Status load(const Model& model, std::span<std::byte> state, Report* report = nullptr,
              std::span<std::byte> note = {}) {
    return load(table_of(model), state, report, note);
  }

  // measure, save and load for the state of a static program: StaticTrainer::table() (train/static_trainer.h).
  static Status measure(const StateTable& table, const Storage& storage, uint32_t note_bytes, uint64_t* bytes);
  Status save(const StateTable& table, std::span<const std::byte> state, const Info& info);
  Status load(const StateTable& table, std::span<std::byte> state, Report* report = nullptr,
              std::span<std::byte> note = {});

  // Reports which checkpoint load() would take. It has no model, so fields that compare the checkpoint with a model
  // are 0. kNoCheckpoint, kCheckpointDamaged: as load; *report then keeps its value. `report` must not be null.
  Status look(Report* report);

  // Makes the newest checkpoint count from now on, if it does not already. kNoCheckpoint, kCheckpointDamaged: as load.
  // kConfirmTorn: an earlier confirm was cut off. kStorageGranule: the checkpoint was saved with smaller granules.
  // kReadBack: the mark reads back differently.
  Status confirm();

  // Forgets the newest checkpoint; the checkpoint before it is the newest again. A pending checkpoint may be
  // forgotten even if there is none before it. The only checkpoint that counts is kept (kNoCheckpoint). The trainer's
  // state does not change: load() afterwards. kCheckpointDamaged: as load. kReadBack: the erase had no effect.
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
