// Training for C (nacre_c.h). Apart from c_api.cc: a firmware that only infers links none of it.
#include <cstring>
#include <type_traits>

#include "engine/c_api.h"
#include "engine/nacre.h"

namespace {

using nacre::Checkpoint;
using nacre::give;
using nacre::Model;
using nacre::Storage;
using nacre::to_c;
using nacre::Trainer;

static_assert(sizeof(Trainer) <= sizeof(nacre_trainer) && alignof(Trainer) <= alignof(nacre_trainer));
static_assert(std::is_trivially_copyable_v<Trainer>);
static_assert(sizeof(nacre::Program) <= sizeof(nacre_program) && alignof(nacre::Program) <= alignof(nacre_program));

const Model& of(const nacre_model* model) {
  return *static_cast<const Model*>(static_cast<const void*>(model->opaque));
}
const Trainer& of(const nacre_trainer* t) { return *static_cast<const Trainer*>(static_cast<const void*>(t->opaque)); }
Trainer& of(nacre_trainer* t) { return *static_cast<Trainer*>(static_cast<void*>(t->opaque)); }

nacre_checkpoint_report report_of(const Checkpoint::Report& r) {
  return {0, r.slot, r.generation, r.pending, r.same_layout, r.taken, r.kept, r.note_bytes, r.same_model};
}

const nacre_storage& storage_of(void* context) { return *static_cast<const nacre_storage*>(context); }

// A note of some bytes that are nowhere.
nacre_status no_note() { return to_c({nacre::Code::kNull, nacre::Table::kCheckpoint}); }

// The caller's functions are called through its struct, which outlives the call that this is for.
Storage of(const nacre_storage* s) {
  Storage storage;
  if (s->size < sizeof *s || s->read == nullptr || s->program == nullptr || s->erase == nullptr)
    return storage;                                 // refused
  storage.context = const_cast<nacre_storage*>(s);  // of a Storage's functions, which do not write it
  storage.program_bytes = s->program_bytes;
  storage.erase_bytes = s->erase_bytes;
  storage.bytes = s->bytes;
  storage.read = [](void* c, uint64_t offset, std::span<std::byte> to) {
    return storage_of(c).read(storage_of(c).context, offset, to.data(), to.size()) != 0;
  };
  storage.program = [](void* c, uint64_t offset, std::span<const std::byte> from) {
    return storage_of(c).program(storage_of(c).context, offset, from.data(), from.size()) != 0;
  };
  storage.erase = [](void* c, uint64_t offset) { return storage_of(c).erase(storage_of(c).context, offset) != 0; };
  if (s->flush != nullptr) storage.flush = [](void* c) { return storage_of(c).flush(storage_of(c).context) != 0; };
  return storage;
}

}  // namespace

extern "C" {

const nacre_kernels* nacre_training_kernels(void) { return &nacre::reference::training_kernels(); }

nacre_status nacre_trainer_measure(const nacre_model* model, const char* target, const nacre_kernels* const* kernels,
                                   size_t count, nacre_sizes* sizes) {
  nacre::Sizes measured;
  const nacre::Status status = Trainer::measure(of(model), target, {kernels, count}, &measured);
  to_c(measured, sizes);
  return to_c(status);
}

nacre_status nacre_trainer_bind(nacre_trainer* trainer, const nacre_model* model, const char* target,
                                const nacre_kernels* const* kernels, size_t count, void* memory, size_t size) {
  Trainer object;
  nacre::Sizes sizes;
  nacre::Memory blocks;
  nacre::Status status = Trainer::measure(of(model), target, {kernels, count}, &sizes);
  if (status.ok()) status = nacre::Memory::cut({static_cast<std::byte*>(memory), size}, sizes, &blocks);
  if (status.ok()) status = object.bind(of(model), target, {kernels, count}, blocks);
  std::memcpy(trainer->opaque, &object, sizeof object);
  return to_c(status);
}

nacre_status nacre_trainer_start(nacre_trainer* trainer) { return to_c(of(trainer).start()); }
nacre_status nacre_trainer_restored(nacre_trainer* trainer) { return to_c(of(trainer).restored()); }

uint32_t nacre_trainer_input_count(const nacre_trainer* trainer) { return of(trainer).input_count(); }
uint32_t nacre_trainer_output_count(const nacre_trainer* trainer) { return of(trainer).output_count(); }

void* nacre_trainer_input(const nacre_trainer* trainer, uint32_t index, size_t* size) {
  const std::span<std::byte> bytes = of(trainer).input(index);
  *size = bytes.size();
  return bytes.data();
}

const void* nacre_trainer_output(const nacre_trainer* trainer, uint32_t index, size_t* size) {
  const std::span<const std::byte> bytes = of(trainer).output(index);
  *size = bytes.size();
  return bytes.data();
}

nacre_status nacre_trainer_accumulate(nacre_trainer* trainer, uint32_t rows) {
  return to_c(of(trainer).accumulate(rows));
}

nacre_status nacre_trainer_commit(nacre_trainer* trainer, float learning_rate, nacre_report* report) {
  Trainer::Report told;
  const nacre::Status status = of(trainer).commit(learning_rate, &told);
  const nacre_report c = {0,         told.applied, told.overflow_at_floor, told.refused_in_row,
                          told.loss, told.norm,    told.loss_scale,        told.samples};
  if (status.ok() && report != nullptr) give(c, report);
  return to_c(status);
}

void nacre_trainer_discard(nacre_trainer* trainer) { of(trainer).discard(); }

// A nacre_program is as many bytes or more, and nobody reads beyond the Program in it.
const nacre_program* nacre_trainer_infer(const nacre_trainer* trainer) {
  return static_cast<const nacre_program*>(static_cast<const void*>(&of(trainer).infer()));
}

void* nacre_trainer_state(const nacre_trainer* trainer, size_t* size) {
  const std::span<std::byte> state = of(trainer).state();
  *size = state.size();
  return state.data();
}

nacre_status nacre_checkpoint_measure(const nacre_model* model, const nacre_storage* storage, uint32_t note_bytes,
                                      uint64_t* bytes) {
  return to_c(Checkpoint::measure(of(model), of(storage), note_bytes, bytes));
}

nacre_status nacre_checkpoint_save(const nacre_model* model, const nacre_trainer* trainer, const nacre_storage* storage,
                                   int pending, const void* note, size_t note_bytes) {
  if (note == nullptr && note_bytes != 0) return no_note();
  const Checkpoint::Info info = {pending != 0, {static_cast<const std::byte*>(note), note_bytes}};
  return to_c(Checkpoint(of(storage)).save(of(model), of(trainer).state(), info));
}

nacre_status nacre_checkpoint_load(const nacre_model* model, nacre_trainer* trainer, const nacre_storage* storage,
                                   nacre_checkpoint_report* report, void* note, size_t note_bytes) {
  if (note == nullptr && note_bytes != 0) return no_note();
  Checkpoint::Report told;
  nacre::Status status =
      Checkpoint(of(storage)).load(of(model), of(trainer).state(), &told, {static_cast<std::byte*>(note), note_bytes});
  if (status.ok()) status = of(trainer).restored();
  if (status.ok() && report != nullptr) give(report_of(told), report);
  return to_c(status);
}

nacre_status nacre_checkpoint_look(const nacre_storage* storage, nacre_checkpoint_report* report) {
  Checkpoint::Report told;
  const nacre::Status status = Checkpoint(of(storage)).look(&told);
  if (status.ok() && report != nullptr) give(report_of(told), report);
  return to_c(status);
}

nacre_status nacre_checkpoint_confirm(const nacre_storage* storage) { return to_c(Checkpoint(of(storage)).confirm()); }
nacre_status nacre_checkpoint_revert(const nacre_storage* storage) { return to_c(Checkpoint(of(storage)).revert()); }

}  // extern "C"
