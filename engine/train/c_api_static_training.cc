// Training of static programs for C (nacre_c.h). It is a file of its own, so an image links no other part of the C
// API.
#include <cstring>
#include <type_traits>

#include "engine/train/c_api_checkpoint.h"
#include "engine/train/static_trainer.h"

namespace {

using nacre::arguments;
using nacre::bytes_of;
using nacre::Checkpoint;
using nacre::give;
using nacre::no_note;
using nacre::StaticTrainer;
using nacre::Status;
using nacre::storage_of;
using nacre::to_c;
using nacre::usable;

static_assert(sizeof(StaticTrainer) <= sizeof(nacre_static_trainer));
static_assert(alignof(StaticTrainer) <= alignof(nacre_static_trainer) && std::is_trivially_copyable_v<StaticTrainer>);

const StaticTrainer& of(const nacre_static_trainer* t) {
  return *static_cast<const StaticTrainer*>(static_cast<const void*>(t->opaque));
}
StaticTrainer& of(nacre_static_trainer* t) { return *static_cast<StaticTrainer*>(static_cast<void*>(t->opaque)); }

}  // namespace

extern "C" {

void nacre_static_trainer_make(nacre_static_trainer* trainer, const nacre_static_training* training) {
  if (trainer == nullptr || training == nullptr) return;
  const StaticTrainer object(*training);
  std::memcpy(trainer->opaque, &object, sizeof object);
}
uint8_t nacre_static_trainer_start(nacre_static_trainer* trainer) {
  return trainer == nullptr ? NACRE_ARGUMENT : uint8_t(of(trainer).start());
}
uint8_t nacre_static_trainer_restored(nacre_static_trainer* trainer) {
  return trainer == nullptr ? NACRE_ARGUMENT : uint8_t(of(trainer).restored());
}

uint32_t nacre_static_trainer_input_count(const nacre_static_trainer* trainer) {
  return trainer == nullptr ? 0 : of(trainer).input_count();
}
uint32_t nacre_static_trainer_output_count(const nacre_static_trainer* trainer) {
  return trainer == nullptr ? 0 : of(trainer).output_count();
}

void* nacre_static_trainer_input(const nacre_static_trainer* trainer, uint32_t index, size_t* size) {
  return bytes_of(trainer == nullptr ? std::span<std::byte>() : of(trainer).input(index), size);
}
const void* nacre_static_trainer_output(const nacre_static_trainer* trainer, uint32_t index, size_t* size) {
  return bytes_of(trainer == nullptr ? std::span<const std::byte>() : of(trainer).output(index), size);
}

uint8_t nacre_static_trainer_accumulate(nacre_static_trainer* trainer) {
  return trainer == nullptr ? NACRE_ARGUMENT : uint8_t(of(trainer).accumulate());
}

uint8_t nacre_static_trainer_commit(nacre_static_trainer* trainer, float learning_rate, nacre_report* report) {
  if (trainer == nullptr || (report != nullptr && !usable(report))) return NACRE_ARGUMENT;
  StaticTrainer::Report told;
  const nacre::Code code = of(trainer).commit(learning_rate, &told);
  if (code == nacre::Code::kOk && report != nullptr) give(to_c(told), report);
  return uint8_t(code);
}

void nacre_static_trainer_discard(nacre_static_trainer* trainer) {
  if (trainer != nullptr) of(trainer).discard();
}

int nacre_static_trainer_immediate(const nacre_static_trainer* trainer) {
  return trainer == nullptr ? 0 : int(of(trainer).immediate());
}

void* nacre_static_trainer_state(const nacre_static_trainer* trainer, size_t* size) {
  return bytes_of(trainer == nullptr ? std::span<std::byte>() : of(trainer).state(), size);
}

nacre_status nacre_static_checkpoint_measure(const nacre_static_trainer* trainer, const nacre_storage* storage,
                                             uint32_t note_bytes, uint64_t* bytes) {
  if (const Status s = arguments(trainer != nullptr, usable(storage), true, bytes != nullptr); !s.ok()) return to_c(s);
  return to_c(Checkpoint::measure(of(trainer).table(), storage_of(storage), note_bytes, bytes));
}

nacre_status nacre_static_checkpoint_save(const nacre_static_trainer* trainer, const nacre_storage* storage,
                                          int pending, const void* note, size_t note_bytes) {
  if (const Status s = arguments(trainer != nullptr, usable(storage)); !s.ok()) return to_c(s);
  if (note == nullptr && note_bytes != 0) return no_note();
  const Checkpoint::Info info = {pending != 0, {static_cast<const std::byte*>(note), note_bytes}};
  return to_c(Checkpoint(storage_of(storage)).save(of(trainer).table(), of(trainer).state(), info));
}

nacre_status nacre_static_checkpoint_load(nacre_static_trainer* trainer, const nacre_storage* storage,
                                          nacre_checkpoint_report* report, void* note, size_t note_bytes) {
  const Status usable_arguments = arguments(trainer != nullptr, usable(storage), report == nullptr || usable(report));
  if (!usable_arguments.ok()) return to_c(usable_arguments);
  if (note == nullptr && note_bytes != 0) return no_note();
  Checkpoint::Report told;
  const std::span<std::byte> bytes = {static_cast<std::byte*>(note), note_bytes};
  nacre::Status status = Checkpoint(storage_of(storage)).load(of(trainer).table(), of(trainer).state(), &told, bytes);
  if (status.ok()) status.code = of(trainer).restored();
  if (status.ok() && report != nullptr) give(to_c(told), report);
  return to_c(status);
}

}  // extern "C"
