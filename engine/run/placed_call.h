// The record that Places keeps before each call of a program that it binds, and functions about tensors that binding
// and running share. Private to places.cc and places_run.cc.
#pragma once

#include <type_traits>

#include "engine/base/layout.h"
#include "engine/kernels/kernel.h"
#include "engine/model/model.h"
#include "engine/run/program.h"

namespace nacre {

// Stands before each call of a program that is bound to places.
struct PlacedCall {
  const Port* port;          // the port that runs the step; null: the host
  const KernelEntry* entry;  // null: not bound yet
  std::byte* scratch;        // scratch in the memory that the port sees
  size_t scratch_bytes;
  size_t segment;  // steps of one segment follow each other and have one number
  size_t bytes;    // bytes of the call
};
static_assert(sizeof(PlacedCall) % sizeof(Tensor) == 0);

inline PlacedCall* placed(Call* call) { return reinterpret_cast<PlacedCall*>(call) - 1; }
inline const PlacedCall* placed(const Call* call) { return reinterpret_cast<const PlacedCall*>(call) - 1; }
template <class C>
C* next(C* call) {
  using Byte = std::conditional_t<std::is_const_v<C>, const std::byte, std::byte>;
  return reinterpret_cast<C*>(reinterpret_cast<Byte*>(call) + placed(call)->bytes + sizeof(PlacedCall));
}

// Returns the block that must be restored after a run of the program fails: `update` writes the state, any other
// program may write streams.
constexpr uint32_t kept_block(Entry entry) { return entry == Entry::kUpdate ? uint32_t(kState) : uint32_t(kStream); }

// Returns the bytes of a tensor that a run with `rows` rows uses (0: the compiled batch).
inline size_t bytes_of_rows(const TensorRecord& r, uint32_t rows) {
  if (rows == 0 || (r.flags & kBatched) == 0) return size_t(r.bytes);
  return size_t(storage_bytes(r.element, stored_elements(r.layout, {r.rank, r.dims, int32_t(rows)})));
}

inline const TensorRecord& root_of(const Model& model, const TensorRecord& r) {
  return r.alias_of == kNoIndex ? r : model.tensors()[r.alias_of];
}

}  // namespace nacre
