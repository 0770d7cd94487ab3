// Sorts the entries of an .inc list at compile time into the order of a KernelSet: by op. Entries of one op keep
// their order.
//
//   constexpr OpEntry kListed[] = {
//   #define NACRE_ENTRY(name, op, ...) {Op::op, {#name, &name}},
//   #include ...
//   #undef NACRE_ENTRY
//   };
//   constexpr auto kList = sorted(kListed);   // kList.named, kList.entries
#pragma once

#include "engine/kernels/reference.h"

namespace nacre::reference {

struct OpEntry {
  Op op;
  NamedEntry named;
};

template <size_t kCount>
struct SortedList {  // without a constructor, so that compilers keep a list among the constants
  NamedEntry named[kCount];
  const KernelEntry* entries[kCount];
};

// Sorts by insertion, because an .inc list is nearly sorted by op.
template <size_t kCount>
constexpr SortedList<kCount> sorted(const OpEntry (&listed)[kCount]) {
  SortedList<kCount> list = {};
  Op ops[kCount] = {};
  for (size_t i = 0; i < kCount; ++i) {
    size_t at = i;
    for (; at > 0 && ops[at - 1] > listed[i].op; --at) ops[at] = ops[at - 1], list.named[at] = list.named[at - 1];
    ops[at] = listed[i].op;
    list.named[at] = listed[i].named;
  }
  for (size_t i = 0; i < kCount; ++i) list.entries[i] = list.named[i].entry;
  return list;
}

}  // namespace nacre::reference
