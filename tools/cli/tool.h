// Runs the command line for main(), and single commands for programs that have the tools in their process.
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

// Returns all commands but completions and man: {"name", "help", "arguments": [..], "options": [..]}. Arguments and
// options are {"name": "batch" (no dashes), "value": "N" ("" for a flag), "help", "group", "many": true if there may be
// several values, "reads": true if the value names a file to read, "writes": true if it names a file to write}.
Json command_table();

}  // namespace nacre::tools
