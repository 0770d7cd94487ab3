// Declares the reference kernels: the ops of engine/ops as entries. Every other port is tested against them. If the
// caller passes them last, they run the steps that no other kernel takes.
//
// Firmware names single entries and links only those (-ffunction-sections -fdata-sections, --gc-sections). kernels()
// and list() name all of them, so they link all. Names are k<Op><Types>[<Rounding>]: families.h.
//
// Example:
//   static const KernelEntry* const entries[] = {&reference::kDenseF32, &reference::kSoftmaxF32};   // sorted by op
//   static const KernelSet two = {"mine", entries};
//   const KernelSet* const sets[] = {&two};
//   NACRE_TRY(Program::measure(model, 0, sets, &sizes));   // kNoKernel names a step that these do not take
#pragma once

#include "engine/kernels/families.h"
#include "engine/kernels/kernel.h"

namespace nacre::reference {

#define NACRE_ENTRY(name, ...) extern const KernelEntry name;
#include "engine/kernels/reference/all.inc"
#undef NACRE_ENTRY

struct NamedEntry {
  const char* name;  // "kDenseF32"
  const KernelEntry* entry;
};

// Return constant, static tables.
const KernelSet& kernels();
std::span<const NamedEntry> list();  // in the order of kernels().entries

}  // namespace nacre::reference
