// What a static program takes of flash on a Cortex-M4, before anything is compiled for it: `nacre size`.
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

// Of arm/m4, for which kernel_text_m4.inc says the bytes of each kernel; none of another machine, and where a kernel is
// not in that table.
std::optional<StaticFlash> static_flash(const StaticTables& tables, const TargetMachine& machine);

// Bytes that this kernel, as static tables name it, links by itself; none where kernel_text_m4.inc does not have it.
std::optional<uint64_t> kernel_text(std::string_view function);

}  // namespace nacre::tools
