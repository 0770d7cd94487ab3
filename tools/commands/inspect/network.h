// nacre inspect of a network's file: a dry run of nacre convert that writes nothing. It tells what is in the file,
// all that is not supported (also after the first refusal), and the sizes of the model.
#pragma once

#include "tools/commands/inspect/inspect.h"

namespace nacre::tools {

// Prints what was found. If something is not supported, then throws Error with code 4, as nacre convert does. For a
// broken file throws at once.
void inspect_network(const InspectOptions& options);

}  // namespace nacre::tools
