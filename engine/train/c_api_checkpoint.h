// Converts storages and reports of the C API (nacre_c.h). Private to c_api_training.cc and c_api_static_training.cc.
#pragma once

#include "engine/c_api.h"
#include "engine/train/checkpoint.h"
#include "engine/train/trainer.h"

namespace nacre {

inline nacre_report to_c(const Trainer::Report& r) {
  return {0, r.applied, r.overflow_at_floor, r.refused_in_row, r.loss, r.norm, r.loss_scale, r.samples};
}

inline nacre_checkpoint_report to_c(const Checkpoint::Report& r) {
  return {0, r.slot, r.generation, r.pending, r.same_layout, r.taken, r.kept, r.note_bytes, r.same_model};
}

inline const nacre_storage& c_storage(void* context) { return *static_cast<const nacre_storage*>(context); }

// Refuses a note that has bytes but a null address.
inline nacre_status no_note() { return to_c({Code::kNull, Table::kCheckpoint}); }

// Returns whether the caller set the size of the struct; if not, the argument is refused. The struct of version 1
// ends before `filled`.
inline bool usable(const nacre_storage* s) { return s != nullptr && s->size >= offsetof(nacre_storage, filled); }

// Returns a Storage that calls the caller's functions through the struct `s`, which must outlive the Storage.
inline Storage storage_of(const nacre_storage* s) {
  Storage storage;
  if (!usable(s)) return storage;                   // refused
  storage.context = const_cast<nacre_storage*>(s);  // the functions of a Storage do not write it
  storage.program_bytes = s->program_bytes;
  storage.erase_bytes = s->erase_bytes;
  storage.bytes = s->bytes;
  if (s->read != nullptr)
    storage.read = [](void* c, uint64_t offset, std::span<std::byte> to) {
      return c_storage(c).read(c_storage(c).context, offset, to.data(), to.size()) != 0;
    };
  if (s->program != nullptr)
    storage.program = [](void* c, uint64_t offset, std::span<const std::byte> from) {
      return c_storage(c).program(c_storage(c).context, offset, from.data(), from.size()) != 0;
    };
  if (s->erase != nullptr)
    storage.erase = [](void* c, uint64_t offset) { return c_storage(c).erase(c_storage(c).context, offset) != 0; };
  if (s->flush != nullptr) storage.flush = [](void* c) { return c_storage(c).flush(c_storage(c).context) != 0; };
  if (s->size >= sizeof *s && s->filled != nullptr)
    storage.filled = [](void* c, uint64_t offset) { return c_storage(c).filled(c_storage(c).context, offset); };
  return storage;
}

}  // namespace nacre
