// The command `nacre`, without its main().
#pragma once

namespace nacre::tools {

// Parses the arguments, runs the command, prints one sentence for what went wrong; the exit code (base/error.h).
int run_tool(int argc, char** argv);

}  // namespace nacre::tools
