// Sums of a training step for C (nacre_c.h): a device that trains alone links none of it.
#include "engine/c_api.h"
#include "engine/nacre.h"
#include "engine/train/step_sums.h"

namespace {

using nacre::to_c;
using nacre::Trainer;

const nacre::Model& of(const nacre_model* model) {
  return *static_cast<const nacre::Model*>(static_cast<const void*>(model->opaque));
}
Trainer& of(nacre_trainer* t) { return *static_cast<Trainer*>(static_cast<void*>(t->opaque)); }

}  // namespace

extern "C" {

void* nacre_trainer_gradients(nacre_trainer* trainer, size_t* size) {
  const std::span<std::byte> sums = of(trainer).sums();
  *size = sums.size();
  return sums.data();
}

nacre_status nacre_trainer_begin_at(nacre_trainer* trainer, uint32_t micro_batch) {
  return to_c(of(trainer).begin_at(micro_batch));
}

nacre_status nacre_trainer_accumulate_apart(nacre_trainer* trainer, void* keep, size_t size, uint32_t rows) {
  return to_c(of(trainer).accumulate_apart({static_cast<std::byte*>(keep), size}, rows));
}

nacre_status nacre_trainer_merged(nacre_trainer* trainer, uint32_t micro_batches) {
  return to_c(of(trainer).merged(micro_batches));
}

nacre_status nacre_gradients_join(const nacre_model* model, void* into, const void* from, size_t size) {
  return to_c(nacre::join_sums(of(model), {static_cast<std::byte*>(into), size},
                               {static_cast<const std::byte*>(from), size}));
}

}  // extern "C"
