// What the C API's sources share: how results become C's structs.
#pragma once

#include <cstring>

#include "engine/nacre_c.h"
#include "engine/run/program.h"

namespace nacre {

inline nacre_status to_c(const Status& s) { return {uint8_t(s.code), uint8_t(s.table), s.index, s.needed, s.given}; }

// As much as the caller's struct, of this or an earlier version, has room for; its size stays. Of all structs that
// start so.
template <class T>
void give(T from, T* to) {
  from.size = to->size;
  std::memcpy(to, &from, to->size < sizeof from ? to->size : sizeof from);
}

inline void to_c(const Sizes& from, nacre_sizes* to) {
  nacre_sizes sizes = {};
  sizes.calls = from.bytes[kCalls];
  sizes.prepared = from.bytes[kPrepared];
  sizes.scratch = from.bytes[kScratch];
  sizes.state = from.bytes[kState];
  sizes.stream = from.bytes[kStream];
  sizes.derived = from.bytes[kDerived];
  sizes.step = from.bytes[kStepSums];
  for (uint32_t i = 0; i < kMaxBanks; ++i) sizes.arena[i] = from.bytes[kArena + i];
  sizes.total = from.total();
  sizes.work = from.work;
  give(sizes, to);
}

}  // namespace nacre
