// Declares the reference kernels: the ops of engine/ops as entries. Every other port is tested against them. If the
// caller passes them last, they run the steps that no other kernel takes.
//
// Firmware names single entries and links only those (-ffunction-sections -fdata-sections, --gc-sections). kernels()
// and list() name all of them, so they link all. Names are k<Op><Types>[<Rounding>]: families.h.
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
