// Training for C (nacre_c.h). It is separate from c_api.cc, so a firmware that only infers links none of it.
#include <cstring>
#include <type_traits>

#include "engine/c_api.h"
#include "engine/nacre.h"
#include "engine/train/c_api_checkpoint.h"

namespace {

using nacre::arguments;
using nacre::bytes_of;
using nacre::Checkpoint;
using nacre::give;
using nacre::no_note;
using nacre::of;
using nacre::Status;
using nacre::storage_of;
using nacre::to_c;
using nacre::Trainer;
using nacre::usable;

static_assert(sizeof(Trainer) <= sizeof(nacre_trainer) && alignof(Trainer) <= alignof(nacre_trainer));
static_assert(std::is_trivially_copyable_v<Trainer>);
static_assert(sizeof(nacre::Program) <= sizeof(nacre_program) && alignof(nacre::Program) <= alignof(nacre_program));

const Trainer& of(const nacre_trainer* t) { return *static_cast<const Trainer*>(static_cast<const void*>(t->opaque)); }
Trainer& of(nacre_trainer* t) { return *static_cast<Trainer*>(static_cast<void*>(t->opaque)); }

auto measure_of(const nacre_model* model, const char* target, std::span<const nacre_kernels* const> kernels) {
  return [=](const nacre::Machine& machine, nacre::Sizes* sizes) {
    return Trainer::measure(of(model), target, kernels, sizes, machine);
  };
}

}  // namespace

extern "C" {

const nacre_kernels* nacre_training_kernels(void) { return &nacre::reference::training_kernels(); }

nacre_status nacre_trainer_measure_with(const nacre_model* model, const char* target,
                                        const nacre_kernels* const* kernels, size_t count, const nacre_workers* workers,
                                        nacre_sizes* sizes) {
  const Status s = arguments(model != nullptr, true, usable(kernels, count), true, usable(workers), usable(sizes));
  if (!s.ok()) return to_c(s);
  nacre::CSizes measured;
  const Status status = measure_both(measure_of(model, target, {kernels, count}), workers, &measured);
  to_c(measured, sizes);
  return to_c(status);
}

nacre_status nacre_trainer_measure(const nacre_model* model, const char* target, const nacre_kernels* const* kernels,
                                   size_t count, nacre_sizes* sizes) {
  const Status s = arguments(model != nullptr, true, usable(kernels, count), true, usable(sizes));
  return s.ok() ? nacre_trainer_measure_with(model, target, kernels, count, nullptr, sizes) : to_c(s);
}

nacre_status nacre_trainer_measure_for(const nacre_model* model, const char* target,
                                       const nacre_kernels* const* kernels, size_t count, const nacre_machine* machine,
                                       nacre_sizes* sizes) {
  const Status s =
      arguments(model != nullptr, true, usable(kernels, count), true, nacre::usable_machine(machine), usable(sizes));
  if (!s.ok()) return to_c(s);
  nacre::Sizes measured;
  const Status status = measure_of(model, target, {kernels, count})(nacre::machine_of(*machine), &measured);
  give(to_c(measured), sizes);
  return to_c(status);
}

nacre_status nacre_trainer_bind_with(nacre_trainer* trainer, const nacre_model* model, const char* target,
                                     const nacre_kernels* const* kernels, size_t count, const nacre_workers* workers,
                                     void* memory, size_t size) {
  const Status s = arguments(trainer != nullptr, model != nullptr, true, usable(kernels, count), true, usable(workers));
  if (!s.ok()) return to_c(s);
  Trainer object;
  nacre::Memory blocks;
  Status status =
      cut(measure_of(model, target, {kernels, count}), workers, {static_cast<std::byte*>(memory), size}, &blocks);
  if (status.ok()) status = object.bind(of(model), target, {kernels, count}, blocks, of(workers));
  std::memcpy(trainer->opaque, &object, sizeof object);
  return to_c(status);
}

nacre_status nacre_trainer_bind(nacre_trainer* trainer, const nacre_model* model, const char* target,
                                const nacre_kernels* const* kernels, size_t count, void* memory, size_t size) {
  return nacre_trainer_bind_with(trainer, model, target, kernels, count, nullptr, memory, size);
}

nacre_status nacre_trainer_start(nacre_trainer* trainer) {
  if (const Status s = arguments(trainer != nullptr); !s.ok()) return to_c(s);
  return to_c(of(trainer).start());
}
nacre_status nacre_trainer_restored(nacre_trainer* trainer) {
  if (const Status s = arguments(trainer != nullptr); !s.ok()) return to_c(s);
  return to_c(of(trainer).restored());
}

uint32_t nacre_trainer_input_count(const nacre_trainer* trainer) {
  return trainer == nullptr ? 0 : of(trainer).input_count();
}
uint32_t nacre_trainer_output_count(const nacre_trainer* trainer) {
  return trainer == nullptr ? 0 : of(trainer).output_count();
}

void* nacre_trainer_input(const nacre_trainer* trainer, uint32_t index, size_t* size) {
  return bytes_of(trainer == nullptr ? std::span<std::byte>() : of(trainer).input(index), size);
}

const void* nacre_trainer_output(const nacre_trainer* trainer, uint32_t index, size_t* size) {
  return bytes_of(trainer == nullptr ? std::span<const std::byte>() : of(trainer).output(index), size);
}

nacre_status nacre_trainer_accumulate(nacre_trainer* trainer, uint32_t rows) {
  if (const Status s = arguments(trainer != nullptr); !s.ok()) return to_c(s);
  return to_c(of(trainer).accumulate(rows));
}

nacre_status nacre_trainer_commit(nacre_trainer* trainer, float learning_rate, nacre_report* report) {
  if (const Status s = arguments(trainer != nullptr, true, report == nullptr || usable(report)); !s.ok())
    return to_c(s);
  Trainer::Report told;
  const Status status = of(trainer).commit(learning_rate, &told);
  if (status.ok() && report != nullptr) give(to_c(told), report);
  return to_c(status);
}

void nacre_trainer_discard(nacre_trainer* trainer) {
  if (trainer != nullptr) of(trainer).discard();
}

nacre_status nacre_trainer_step(nacre_trainer* trainer, float learning_rate, uint32_t rows, nacre_report* report) {
  const Status s = arguments(trainer != nullptr, true, true, report == nullptr || usable(report));
  if (!s.ok()) return to_c(s);
  Trainer::Report told;
  const Status status = of(trainer).step(learning_rate, &told, rows);
  if (status.ok() && report != nullptr) give(to_c(told), report);
  return to_c(status);
}
uint32_t nacre_trainer_micro_batches(const nacre_trainer* trainer) {
  return trainer == nullptr ? 0 : of(trainer).micro_batches();
}
int nacre_trainer_immediate(const nacre_trainer* trainer) {
  return trainer == nullptr ? 0 : int(of(trainer).immediate());
}

// A nacre_program has at least as many bytes as a Program, and no function reads beyond the Program in it.
const nacre_program* nacre_trainer_infer(const nacre_trainer* trainer) {
  if (trainer == nullptr) return nullptr;
  return static_cast<const nacre_program*>(static_cast<const void*>(&of(trainer).infer()));
}

void* nacre_trainer_state(const nacre_trainer* trainer, size_t* size) {
  return bytes_of(trainer == nullptr ? std::span<std::byte>() : of(trainer).state(), size);
}

nacre_status nacre_checkpoint_measure(const nacre_model* model, const nacre_storage* storage, uint32_t note_bytes,
                                      uint64_t* bytes) {
  if (const Status s = arguments(model != nullptr, usable(storage), true, bytes != nullptr); !s.ok()) return to_c(s);
  return to_c(Checkpoint::measure(of(model), storage_of(storage), note_bytes, bytes));
}

nacre_status nacre_checkpoint_save(const nacre_model* model, const nacre_trainer* trainer, const nacre_storage* storage,
                                   int pending, const void* note, size_t note_bytes) {
  if (const Status s = arguments(model != nullptr, trainer != nullptr, usable(storage)); !s.ok()) return to_c(s);
  if (note == nullptr && note_bytes != 0) return no_note();
  if (!of(trainer).state().empty() && of(model).opened() && !of(trainer).trains(of(model)))
    return to_c(Status{nacre::Code::kCheckpointModel, nacre::Table::kCheckpoint});
  const Checkpoint::Info info = {pending != 0, {static_cast<const std::byte*>(note), note_bytes}};
  return to_c(Checkpoint(storage_of(storage)).save(of(model), of(trainer).state(), info));
}

nacre_status nacre_checkpoint_load(const nacre_model* model, nacre_trainer* trainer, const nacre_storage* storage,
                                   nacre_checkpoint_report* report, void* note, size_t note_bytes) {
  if (const Status s =
          arguments(model != nullptr, trainer != nullptr, usable(storage), report == nullptr || usable(report));
      !s.ok())
    return to_c(s);
  if (note == nullptr && note_bytes != 0) return no_note();
  Checkpoint::Report told;
  Status status = Checkpoint(storage_of(storage))
                      .load(of(model), of(trainer).state(), &told, {static_cast<std::byte*>(note), note_bytes});
  if (status.ok()) status = of(trainer).restored();
  if (status.ok() && report != nullptr) give(to_c(told), report);
  return to_c(status);
}

nacre_status nacre_checkpoint_look(const nacre_storage* storage, nacre_checkpoint_report* report) {
  if (const Status s = arguments(usable(storage), report == nullptr || usable(report)); !s.ok()) return to_c(s);
  Checkpoint::Report told;
  const Status status = Checkpoint(storage_of(storage)).look(&told);
  if (status.ok() && report != nullptr) give(to_c(told), report);
  return to_c(status);
}

nacre_status nacre_checkpoint_confirm(const nacre_storage* storage) {
  if (const Status s = arguments(usable(storage)); !s.ok()) return to_c(s);
  return to_c(Checkpoint(storage_of(storage)).confirm());
}
nacre_status nacre_checkpoint_revert(const nacre_storage* storage) {
  if (const Status s = arguments(usable(storage)); !s.ok()) return to_c(s);
  return to_c(Checkpoint(storage_of(storage)).revert());
}

}  // extern "C"
