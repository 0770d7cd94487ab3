// What the tests of nacre convert share: the network that they convert, and a look into what is printed.
#pragma once

#include <string>

#include "tests/run_tool.h"

namespace nacre::tools::convert_digits {

inline const std::string kDigits = project_path("tools/samples/digits.onnx");

}  // namespace nacre::tools::convert_digits
