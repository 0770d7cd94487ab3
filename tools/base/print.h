// What commands write to standard output and, of warnings, to standard error; or to their caller (caller.h). main()
// flushes it and reports a failure.
#pragma once

#include <string>

#include "tools/base/json.h"

namespace nacre::tools {

void print(const std::string& text);
void note(const std::string& line);       // a warning, without the end of its line
void print_to_standard_error();           // from now on: standard output takes a file's bytes
std::string printable(std::string text);  // control codes, which a name of a file may hold, as '?'; lines stay lines
void print_json(const Json& json);        // names that are no UTF-8 are mended, not refused

}  // namespace nacre::tools
