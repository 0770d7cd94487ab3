// Sums of a training step for C (nacre_c.h). A device that trains alone links none of it.
#include <cstring>

#include "engine/c_api.h"
#include "engine/nacre.h"
#include "engine/train/step_sums.h"

namespace {

using nacre::arguments;
using nacre::Status;
using nacre::to_c;
using nacre::Trainer;

const nacre::Model& of(const nacre_model* model) {
  return *static_cast<const nacre::Model*>(static_cast<const void*>(model->opaque));
}
const Trainer& of(const nacre_trainer* t) { return *static_cast<const Trainer*>(static_cast<const void*>(t->opaque)); }
Trainer& of(nacre_trainer* t) { return *static_cast<Trainer*>(static_cast<void*>(t->opaque)); }

}  // namespace

extern "C" {

void* nacre_trainer_gradients(nacre_trainer* trainer, size_t* size) {
  const std::span<std::byte> sums = trainer != nullptr ? of(trainer).sums() : std::span<std::byte>();
  if (size != nullptr) *size = sums.size();
  return sums.data();
}

uint32_t nacre_gradient_run_at(const nacre_model* model, uint32_t index, nacre_gradient_run* run) {
  if (model == nullptr || run == nullptr) return 0;
  nacre::SumRun one = {};
  const uint32_t count = nacre::sum_runs(of(model), {&one, 1}, index);
  const nacre::SumRun gradients = nacre::gradient_run(of(model));
  *run = {one.first, one.bytes, uint32_t(one.kind), 0, gradients.first, gradients.bytes};
  return count;
}

float nacre_trainer_loss_scale(const nacre_model* model, const nacre_trainer* trainer) {
  return model != nullptr && trainer != nullptr ? nacre::loss_scale(of(model), of(trainer).state()) : 0;
}

void nacre_model_hash(const nacre_model* model, uint8_t hash[16]) {
  if (model == nullptr || hash == nullptr) return;
  if (of(model).opened()) std::memcpy(hash, of(model).header().hash, sizeof of(model).header().hash);
  else std::memset(hash, 0, sizeof of(model).header().hash);
}

nacre_status nacre_trainer_begin_at(nacre_trainer* trainer, uint32_t micro_batch) {
  if (const Status s = arguments(trainer != nullptr); !s.ok()) return to_c(s);
  return to_c(of(trainer).begin_at(micro_batch));
}

nacre_status nacre_trainer_accumulate_apart(nacre_trainer* trainer, void* keep, size_t size, uint32_t rows) {
  if (const Status s = arguments(trainer != nullptr, keep != nullptr); !s.ok()) return to_c(s);
  return to_c(of(trainer).accumulate_apart({static_cast<std::byte*>(keep), size}, rows));
}

nacre_status nacre_trainer_merged(nacre_trainer* trainer, uint32_t micro_batches) {
  if (const Status s = arguments(trainer != nullptr); !s.ok()) return to_c(s);
  return to_c(of(trainer).merged(micro_batches));
}

nacre_status nacre_gradients_join(const nacre_model* model, void* into, const void* from, size_t size) {
  if (const Status s = arguments(model != nullptr, into != nullptr, from != nullptr); !s.ok()) return to_c(s);
  return to_c(
      nacre::join_sums(of(model), {static_cast<std::byte*>(into), size}, {static_cast<const std::byte*>(from), size}));
}

}  // extern "C"
