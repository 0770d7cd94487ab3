// Gives access to a memory-mapped register of a Cortex-M by its address.
#pragma once

#include <cstdint>

namespace nacre::firmware {

inline volatile uint32_t& hardware_register(uint32_t address) { return *reinterpret_cast<volatile uint32_t*>(address); }

}  // namespace nacre::firmware
