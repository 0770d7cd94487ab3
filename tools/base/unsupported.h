// Everything in a file that is not supported, in one Error.
#pragma once

#include <string>
#include <vector>

#include "tools/base/error.h"

namespace nacre::tools {

struct Unsupported : Error {
  // "net.onnx: 2 things are not supported, of 12 operators:" and a line for each, at most 100, behind `indent`.
  Unsupported(const std::string& file, std::vector<std::string> all, const std::string& among,
              const std::string& indent);
  std::vector<std::string> things;
};

// None where nothing is. `among`: ", of 12 operators". A thing may have a remedy on a line of its own, behind four
// spaces: then `indent` is less.
void report_problems(const std::string& file, const std::vector<std::string>& problems, const std::string& among = "",
                     const std::string& indent = "    ");

// Returns the text of an Error about `file` without the file's name in front.
std::string without_file(const std::string& what, const std::string& file);

}  // namespace nacre::tools
