// The C API's sources for places share these helpers: run/c_api_places.cc and train/c_api_places.cc.
#pragma once

#include <algorithm>

#include "engine/c_api.h"
#include "engine/run/places.h"

namespace nacre {

inline Places& of(nacre_places* places) { return *static_cast<Places*>(static_cast<void*>(places->opaque)); }
inline const Places& of(const nacre_places* places) {
  return *static_cast<const Places*>(static_cast<const void*>(places->opaque));
}

// Blocks begin at cache lines, or at more if a port asks for more. The caller's block begins at a multiple of 16.
inline uint32_t alignment_of(const Places& places) { return std::max(kLine, places.alignment()); }

template <class Measure>
nacre_status measure_placed(const Places& places, const Measure& measure, const nacre_workers* workers,
                            nacre_sizes* to) {
  Sizes measured;
  const Status status = measure(machine_of(workers), &measured);
  nacre_sizes sizes = to_c(measured);
  const uint32_t alignment = alignment_of(places);
  sizes.total = sizes.unpacked = measured.total(alignment) + alignment - kAlignment;
  give(sizes, to);
  return to_c(status);
}

template <class Measure>
Status cut_placed(const Places& places, const Measure& measure, const nacre_workers* workers,
                  std::span<std::byte> whole, Memory* blocks) {
  Sizes sizes;
  NACRE_TRY(measure(machine_of(workers), &sizes));
  const uint32_t alignment = alignment_of(places);
  const size_t ahead = -reinterpret_cast<uintptr_t>(whole.data()) & (alignment - 1);
  Status status = Memory::cut(whole.subspan(std::min(ahead, whole.size())), sizes, blocks, alignment);
  if (status.code == Code::kMemorySize) {  // the size that measure returned, and the caller's
    status.needed = sizes.total(alignment) + alignment - kAlignment;
    status.given = whole.size();
  }
  return status;
}

}  // namespace nacre
