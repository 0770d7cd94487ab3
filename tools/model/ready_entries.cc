#include "tools/model/ready_entries.h"

#include <new>

// The order matters: both headers define and undefine NACRE_ENTRY, and define_entries.h leaves it defined.
#include "engine/kernels/entry_functions.h"
#include "ports/cortex_m/entry_functions.h"
//
#include "engine/kernels/define_entries.h"
#include "engine/ops/all.h"

#undef NACRE_ENTRY

namespace nacre::tools {
namespace {

// Constructs the op in place and does not copy it, so that the bytes of its padding stay.
template <class O>
void make(void* to, const Words& words, const Operands& operands) {
  ::new (to) O(O::from(words, operands));
}

template <class O, bool kPossible>
constexpr ReadyEntry row(Kernel general, Kernel ready, const char* space, const char* name, const char* type) {
  if constexpr (kPossible) return {general, ready, space, name, type, sizeof(O), make<O>};
  else return {general, nullptr, space, name, type, 0, nullptr};
}

#define NACRE_ROW(space, prefix, name, type, ...) \
  tools::row<type, Ready<type, &type::__VA_ARGS__>::kPossible>(functions::name, ready::name, space, #name, prefix #type)

}  // namespace
}  // namespace nacre::tools

namespace nacre::reference {
namespace {
constexpr tools::ReadyEntry kEntries[] = {
#define NACRE_ENTRY(name, op, rounding, in_place, type, rule, ...) NACRE_ROW("reference", "", name, type, __VA_ARGS__),
#include "engine/kernels/reference/all.inc"
#include "engine/kernels/training/all.inc"
#undef NACRE_ENTRY
};
}  // namespace
}  // namespace nacre::reference

namespace nacre::cortex_m {
namespace {
constexpr tools::ReadyEntry kEntries[] = {
#define NACRE_ENTRY(name, op, rounding, in_place, type, rule, ...) \
  NACRE_ROW("cortex_m", "cortex_m::", name, type, __VA_ARGS__),
#include "ports/cortex_m/kernels.inc"
#undef NACRE_ENTRY
};
}  // namespace
}  // namespace nacre::cortex_m

namespace nacre::tools {

std::array<std::span<const ReadyEntry>, 2> ready_entries() { return {reference::kEntries, cortex_m::kEntries}; }

const ReadyEntry* find_ready_entry(Kernel general) {
  for (const std::span<const ReadyEntry> list : ready_entries())
    for (const ReadyEntry& entry : list)
      if (entry.general == general) return &entry;
  return nullptr;
}

}  // namespace nacre::tools
