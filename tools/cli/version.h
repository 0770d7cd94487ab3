// Text of `nacre --version`: the version, how it was built, and what runs here.
#pragma once

#include <string>

namespace nacre::tools {

std::string version_text();

}  // namespace nacre::tools
