// Runs the whole command line, for main() and for programs that have the tools in their process.
#pragma once

#include <string>
#include <vector>

#include "tools/base/json.h"

namespace nacre::tools {

int run_tool(int argc, char** argv);

// Runs one command, given by its words as a user types them: {"size", "m.nacre", "--json"}. Its output goes to the
// caller of this thread (tools/base/caller.h). Throws Error if the words are no valid command or the command fails, and
// Interrupted if the caller interrupts it.
void run_command(std::vector<std::string> words);

// Returns every command: {"name", "help", "arguments": [..], "options": [..]}. An option is {"name": "batch",
// "value": "N", "help", "reads": true if its value is a file to read, "writes"}; "value" is "" for a flag. An
// argument has the same keys, its name without dashes, and "many" if there may be several.
Json command_table();

}  // namespace nacre::tools
