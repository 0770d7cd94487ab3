// Tells what the processor and the system can do, whether or not the tier is compiled (x86.h: runs_here).
#pragma once

#include "ports/x86/tiers.h"

namespace nacre::x86 {

bool processor_has(Tier tier);  // its instructions, and the states that the system saves for them

}  // namespace nacre::x86
