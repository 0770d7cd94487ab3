// What commands write to standard output. main() flushes it and reports a failure.
#pragma once

#include <string>

#include "tools/base/json.h"

namespace nacre::tools {

void print(const std::string& text);
std::string printable(std::string text);  // control codes, which a name of a file may hold, as '?'; lines stay lines
void print_json(const Json& json);        // names that are no UTF-8 are mended, not refused

}  // namespace nacre::tools
