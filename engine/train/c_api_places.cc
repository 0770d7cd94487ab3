// Trainers on places for C (nacre_c_places.h). It is a file of its own, so a trainer without ports links none of it.
#include "engine/run/c_api_places.h"
#include "engine/train/trainer.h"

namespace {

using nacre::arguments;
using nacre::bytes_of;
using nacre::of;
using nacre::Places;
using nacre::Status;
using nacre::to_c;
using nacre::Trainer;
using nacre::usable;

const Trainer& of(const nacre_trainer* t) { return *static_cast<const Trainer*>(static_cast<const void*>(t->opaque)); }
Trainer& of(nacre_trainer* t) { return *static_cast<Trainer*>(static_cast<void*>(t->opaque)); }

auto measure_of(Places& places, const nacre_model* model, const char* target,
                std::span<const nacre_kernels* const> kernels) {
  return [&places, model, target, kernels](const nacre::Machine& machine, nacre::Sizes* sizes) {
    return Trainer::measure(of(model), target, kernels, sizes, machine, &places);
  };
}

}  // namespace

extern "C" {

nacre_status nacre_places_measure_trainer(nacre_places* places, const nacre_model* model, const char* target,
                                          const nacre_kernels* const* kernels, size_t count,
                                          const nacre_workers* workers, nacre_sizes* sizes) {
  const Status s = arguments(places != nullptr, model != nullptr, true, usable(kernels, count), true, usable(workers),
                             usable(sizes));
  if (!s.ok()) return to_c(s);
  return nacre::measure_placed(of(places), measure_of(of(places), model, target, {kernels, count}), workers, sizes);
}

nacre_status nacre_places_bind_trainer(nacre_places* places, nacre_trainer* trainer, const nacre_model* model,
                                       const char* target, const nacre_kernels* const* kernels, size_t count,
                                       const nacre_workers* workers, void* memory, size_t size) {
  const Status s = arguments(places != nullptr, trainer != nullptr, model != nullptr, true, usable(kernels, count),
                             true, usable(workers));
  if (!s.ok()) return to_c(s);
  Trainer object;
  nacre::Memory blocks;
  const std::span<std::byte> whole = {static_cast<std::byte*>(memory), size};
  Status status =
      nacre::cut_placed(of(places), measure_of(of(places), model, target, {kernels, count}), workers, whole, &blocks);
  if (status.ok()) status = object.bind(of(model), target, {kernels, count}, blocks, of(workers), &of(places));
  std::memcpy(trainer->opaque, &object, sizeof object);
  return to_c(status);
}

void* nacre_trainer_gradients_at(const nacre_trainer* trainer, const nacre_port* port, size_t* size) {
  const bool given = trainer != nullptr && port != nullptr;
  return bytes_of(given ? of(trainer).sums_at(*of(port)) : std::span<std::byte>(), size);
}

nacre_status nacre_trainer_merged_at(nacre_trainer* trainer, const nacre_port* port, uint32_t micro_batches) {
  if (const Status s = arguments(trainer != nullptr, port != nullptr); !s.ok()) return to_c(s);
  return to_c(of(trainer).merged_at(*of(port), micro_batches));
}

}  // extern "C"
