// How deep the stack has been: it is painted with a pattern, and what differs from it was used.
//
// startup.cc paints once, so stack_use_bytes() counts from reset. To measure one part alone, paint
// again before it and subtract the use read right after painting. A used word that equals the
// pattern is missed.
#pragma once

#include <cstdint>

namespace nacre::firmware {

void paint_stack();          // all that lies below the caller
uint32_t stack_use_bytes();  // deepest since the last paint; equal to stack_bytes() means overflow
uint32_t stack_bytes();      // what the linker script reserved

}  // namespace nacre::firmware
