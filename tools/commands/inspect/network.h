// nacre inspect of a network's file: a dry run of nacre convert. Says what is in the file, everything that is not
// supported, also behind what is refused first, and what the model would take; writes nothing.
#pragma once

#include "tools/commands/inspect/inspect.h"

namespace nacre::tools {

// Throws Error, after what was found is printed: code 2 where something is not supported, 3 where the file is broken.
void inspect_network(const InspectOptions& options);

}  // namespace nacre::tools
