// Unsupported: one Error that lists everything in a file that is not supported.
#pragma once

#include <string>
#include <vector>

#include "tools/base/error.h"

namespace nacre::tools {

struct Unsupported : Error {
  // The text: "net.onnx: 2 things are not supported, of 12 operators:", then a line for each thing after `indent`. From
  // the 101st on, the things are only counted.
  Unsupported(const std::string& file, std::vector<std::string> all, const std::string& among,
              const std::string& indent);
  std::vector<std::string> things;
};

// Throws Unsupported unless `problems` is empty. `among`: ", of 12 operators". If problems have remedies on lines of
// their own, after four spaces, give a smaller `indent`.
void report_problems(const std::string& file, const std::vector<std::string>& problems, const std::string& among = "",
                     const std::string& indent = "    ");

// Returns the text of an Error about `file` without the file's name in front.
std::string without_file(const std::string& what, const std::string& file);

}  // namespace nacre::tools
