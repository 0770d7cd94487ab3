// Programs on places for C (nacre_c_places.h). It is separate from c_api.cc, so an image without ports links none of
// it.
#include "engine/run/c_api_places.h"

#include <type_traits>

namespace {

using nacre::arguments;
using nacre::of;
using nacre::Places;
using nacre::Program;
using nacre::Status;
using nacre::to_c;
using nacre::usable;

static_assert(sizeof(Places) <= sizeof(nacre_places) && alignof(Places) <= alignof(nacre_places));
static_assert(std::is_trivially_copyable_v<Places>);

auto measure_of(Places& places, const nacre_model* model, uint32_t program,
                std::span<const nacre_kernels* const> kernels) {
  return [&places, model, program, kernels](const nacre::Machine& machine, nacre::Sizes* sizes) {
    return places.measure(of(model), program, kernels, sizes, machine);
  };
}

}  // namespace

extern "C" {

const char* nacre_port_name(const nacre_port* port) { return port == nullptr ? "" : of(port)->name; }

nacre_status nacre_places_make(nacre_places* places, const nacre_port* const* ports, size_t count) {
  const Status s = arguments(places != nullptr, ports != nullptr, count <= Places::kMaxPlaces);
  if (!s.ok()) return to_c(s);
  const auto* const list = static_cast<const nacre::Port* const*>(static_cast<const void*>(ports));
  const Places object({list, count});
  std::memcpy(places->opaque, &object, sizeof object);
  return {};
}

nacre_status nacre_places_keep(nacre_places* places, uint32_t place) {
  if (const Status s = arguments(places != nullptr, place < Places::kMaxPlaces); !s.ok()) return to_c(s);
  of(places).keep(place);
  return {};
}

nacre_status nacre_places_measure(nacre_places* places, const nacre_model* model, uint32_t program,
                                  const nacre_kernels* const* kernels, size_t count, const nacre_workers* workers,
                                  nacre_sizes* sizes) {
  const Status s = arguments(places != nullptr, model != nullptr, true, usable(kernels, count), true, usable(workers),
                             usable(sizes));
  if (!s.ok()) return to_c(s);
  return nacre::measure_placed(of(places), measure_of(of(places), model, program, {kernels, count}), workers, sizes);
}

nacre_status nacre_places_bind(nacre_places* places, nacre_program* program, const nacre_model* model, uint32_t index,
                               const nacre_kernels* const* kernels, size_t count, const nacre_workers* workers,
                               void* memory, size_t size) {
  const Status s = arguments(places != nullptr, program != nullptr, model != nullptr, true, usable(kernels, count),
                             true, usable(workers));
  if (!s.ok()) return to_c(s);
  Program object;
  nacre::Memory blocks;
  const std::span<std::byte> whole = {static_cast<std::byte*>(memory), size};
  Status status =
      nacre::cut_placed(of(places), measure_of(of(places), model, index, {kernels, count}), workers, whole, &blocks);
  if (status.ok()) status = of(places).bind(&object, of(model), index, {kernels, count}, blocks, of(workers));
  std::memcpy(program->opaque, &object, sizeof object);
  return to_c(status);
}

uint64_t nacre_places_bytes(const nacre_places* places, uint32_t place) {
  return places == nullptr ? 0 : of(places).bytes(place);
}

nacre_status nacre_places_give(nacre_places* places, uint32_t place, void* memory, size_t size) {
  if (const Status s = arguments(places != nullptr); !s.ok()) return to_c(s);
  return to_c(of(places).give(place, {static_cast<std::byte*>(memory), size}));
}

}  // extern "C"
