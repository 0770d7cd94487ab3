// The network that the tests of nacre convert share; tests/run_tool.h runs the tool and looks into its output.
#pragma once

#include <string>

#include "tests/run_tool.h"

namespace nacre::tools::convert_digits {

inline const std::string kDigits = project_path("tools/samples/digits.onnx");

}  // namespace nacre::tools::convert_digits
