// Measures how deep the stack has been. The stack is filled with a pattern; from the lowest word that differs from the
// pattern on, it was used.
//
// startup.cc fills it once, so stack_use_bytes() counts from reset. To measure one part alone, fill the stack again
// before that part and subtract the use read right after filling. A lowest word that equals the pattern is missed.
#pragma once

#include <cstdint>

namespace nacre::firmware {

void paint_stack();          // fills all of the stack below the caller
uint32_t stack_use_bytes();  // deepest use since the last paint; equal to stack_bytes() means overflow
uint32_t stack_bytes();      // bytes that the linker script reserves

}  // namespace nacre::firmware
