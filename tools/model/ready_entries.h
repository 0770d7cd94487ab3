// Lists the kernel entries of the reference and of Cortex-M, with their kernels for ready ops (engine/kernels/ready.h).
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "engine/kernels/kernel.h"

namespace nacre::tools {

struct ReadyEntry {
  Kernel general;     // KernelEntry::run
  Kernel ready;       // null: the entry has no ready form
  const char* space;  // "reference": functions::name and ready::name are in this namespace of nacre
  const char* name;   // "kConv2dI8Double"
  const char* type;   // "Conv2d", the op's struct, in namespace nacre
  size_t bytes;       // size of the struct
  void (*make)(void* to, const Words& words, const Operands& operands);
};

// Returns two lists: the reference's entries, with those for training, and the entries of Cortex-M.
std::array<std::span<const ReadyEntry>, 2> ready_entries();

// Finds the entry of this kernel in both lists of ready_entries(). Returns null if there is none.
const ReadyEntry* find_ready_entry(Kernel general);

}  // namespace nacre::tools
