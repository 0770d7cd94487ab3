// Slots of models for C (nacre_c.h). It is a file of its own, so an image links no other part of the C API.
#include <cstring>
#include <type_traits>

#include "engine/model/model_slots.h"
#include "engine/train/c_api_checkpoint.h"

namespace {

using nacre::arguments;
using nacre::give;
using nacre::ModelSlots;
using nacre::Status;
using nacre::storage_of;
using nacre::to_c;
using nacre::usable;

static_assert(sizeof(ModelSlots) <= sizeof(nacre_model_slots) && NACRE_NO_SLOT == ModelSlots::kNoSlot);
static_assert(alignof(ModelSlots) <= alignof(nacre_model_slots) && std::is_trivially_copyable_v<ModelSlots>);

const ModelSlots& of(const nacre_model_slots* s) {
  return *static_cast<const ModelSlots*>(static_cast<const void*>(s->opaque));
}
// Returns whether the slots were made, with a storage whose size is set.
bool made(const nacre_model_slots* s) { return s != nullptr && of(s).storage().context != nullptr; }
ModelSlots& of(nacre_model_slots* s) { return *static_cast<ModelSlots*>(static_cast<void*>(s->opaque)); }

}  // namespace

extern "C" {

void nacre_model_slots_make(nacre_model_slots* slots, const nacre_storage* storage) {
  if (slots == nullptr) return;
  const ModelSlots object(storage_of(storage));
  std::memcpy(slots->opaque, &object, sizeof object);
}

nacre_status nacre_model_slots_find(const nacre_model_slots* slots, nacre_slot* found, const nacre_slot* other) {
  if (const Status s = arguments(made(slots), usable(found)); !s.ok()) return to_c(s);
  ModelSlots::Found newest, but;
  if (other != nullptr) but.slot = other->slot;
  const nacre_status status = to_c(of(slots).find(&newest, &but));
  give(nacre_slot{0, newest.slot, newest.sequence, 0, newest.offset, newest.bytes}, found);
  return status;
}

nacre_status nacre_model_slots_begin(nacre_model_slots* slots, uint32_t keep, uint64_t bytes) {
  if (const Status s = arguments(made(slots)); !s.ok()) return to_c(s);
  return to_c(of(slots).begin(keep, bytes));
}

uint64_t nacre_model_slots_offset(const nacre_model_slots* slots) { return slots == nullptr ? 0 : of(slots).offset(); }

nacre_status nacre_model_slots_write(nacre_model_slots* slots, const void* part, size_t size) {
  if (const Status s = arguments(made(slots), part != nullptr || size == 0); !s.ok()) return to_c(s);
  return to_c(of(slots).write({static_cast<const std::byte*>(part), size}));
}

nacre_status nacre_model_slots_finish(nacre_model_slots* slots) {
  if (const Status s = arguments(made(slots)); !s.ok()) return to_c(s);
  return to_c(of(slots).finish());
}

}  // extern "C"
