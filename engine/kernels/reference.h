// The reference kernels: engine/ops made into entries. The oracle of every other port, and the fallback of all.
//
// Firmware names single entries and links only those (-ffunction-sections -fdata-sections, --gc-sections); kernels()
// and list() name, and so link, all of them. Names are k<Op><Types>[<Rounding>]: families.h.
#pragma once

#include "engine/kernels/families.h"
#include "engine/kernels/kernel.h"

namespace nacre::reference {

#define NACRE_ENTRY(name, ...) extern const KernelEntry name;
#include "engine/kernels/reference/all.inc"
#undef NACRE_ENTRY

struct NamedEntry {
  const char* name;
  const KernelEntry* entry;
};

const KernelSet& kernels();
std::span<const NamedEntry> list();  // in the order of kernels().entries

}  // namespace nacre::reference
