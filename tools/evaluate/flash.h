// Computes the flash that a static program needs on a microcontroller, before it is compiled, for `nacre size`.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tools/model/static_tables.h"

namespace nacre::tools {

// In bytes, for libraries and sources compiled with -Os. Start-up, self-test and golden pairs are not counted.
struct StaticFlash {
  uint64_t kernels = 0;  // code and constants of the kernels and of the code that runs the calls
  uint64_t tables = 0;
  uint64_t weights = 0;
};

// Returns the flash on a Cortex-M or a 32-bit RISC-V, for which kernel_text.inc lists the bytes of each kernel.
// Returns nothing for another machine, or if a kernel is not in that table.
std::optional<StaticFlash> static_flash(const StaticTables& tables, const TargetMachine& machine);

// Returns the bytes that this kernel, by its name in static tables, links by itself for the target. Returns nothing
// if kernel_text.inc does not list it.
std::optional<uint64_t> kernel_text(std::string_view function, std::string_view target);

}  // namespace nacre::tools
