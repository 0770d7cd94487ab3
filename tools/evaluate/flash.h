// Flash that a static program takes on a microcontroller, before anything is compiled for it: `nacre size`.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tools/model/static_tables.h"

namespace nacre::tools {

// In bytes, of libraries and sources compiled with -Os. Not here: start-up, self-test and golden pairs.
struct StaticFlash {
  uint64_t kernels = 0;  // text and constants of the kernels and of what runs their calls
  uint64_t tables = 0;
  uint64_t weights = 0;
};

// Flash on a Cortex-M or a 32-bit RISC-V, for which kernel_text.inc says the bytes of each kernel; none for another
// machine, and where a kernel is not in that table.
std::optional<StaticFlash> static_flash(const StaticTables& tables, const TargetMachine& machine);

// Bytes that this kernel, as static tables name it, links by itself for the target; none where kernel_text.inc has no
// such.
std::optional<uint64_t> kernel_text(std::string_view function, std::string_view target);

}  // namespace nacre::tools
