#include "tools/model/ready_entries.h"

#include <new>

// In this order: the second ends with what an entry is in the engine.
#include "engine/kernels/entry_functions.h"
//
#include "engine/kernels/define_entries.h"
#include "engine/ops/all.h"

#undef NACRE_ENTRY

namespace nacre::reference {
namespace {

using tools::ReadyEntry;

// In its place, not copied there: what stood in its padding stays.
template <class O>
void make(void* to, const Words& words, const Operands& operands) {
  ::new (to) O(O::from(words, operands));
}

template <class O, bool kPossible>
constexpr ReadyEntry row(Kernel general, Kernel ready, const char* name, const char* type) {
  if constexpr (kPossible) return {general, ready, name, type, sizeof(O), make<O>};
  else return {general, nullptr, name, type, 0, nullptr};
}

#define NACRE_ROW(name, type, ...) \
  row<type, Ready<type, &type::__VA_ARGS__>::kPossible>(functions::name, ready::name, #name, #type)

constexpr ReadyEntry kEntries[] = {
#define NACRE_ENTRY(name, op, rounding, in_place, type, rule, ...) NACRE_ROW(name, type, __VA_ARGS__),
#include "engine/kernels/reference.inc"
#define NACRE_ENTRY(name, op, rounding, in_place, type, rule, ...) NACRE_ROW(name, type, __VA_ARGS__),
#include "engine/kernels/training.inc"
};

}  // namespace
}  // namespace nacre::reference

namespace nacre::tools {

const ReadyEntry* find_ready_entry(Kernel general) {
  for (const ReadyEntry& entry : reference::kEntries)
    if (entry.general == general) return &entry;
  return nullptr;
}

}  // namespace nacre::tools
