// The entries whose op can be ready (engine/kernels/ready.h), of the reference and of Cortex-M, and how it is made.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "engine/kernels/kernel.h"

namespace nacre::tools {

struct ReadyEntry {
  Kernel general;     // KernelEntry::run
  Kernel ready;       // null: the entry has no ready form
  const char* space;  // "reference": of namespace nacre, where functions::name and ready::name are
  const char* name;   // "kConv2dI8Double"
  const char* type;   // "Conv2d", of namespace nacre: its struct
  size_t bytes;       // of it
  void (*make)(void* to, const Words& words, const Operands& operands);
};

// Two lists: entries of the reference, those of training among them, and entries of Cortex-M.
std::array<std::span<const ReadyEntry>, 2> ready_entries();

// Finds the entry that runs by this kernel, in both lists: the reference's, those of training among them, and
// Cortex-M's; null: none does.
const ReadyEntry* find_ready_entry(Kernel general);

}  // namespace nacre::tools
