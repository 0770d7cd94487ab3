// Makes the text of `nacre --version`: the version, how it was built, the kernel sets that run here, and the ports.
#pragma once

#include <string>

namespace nacre::tools {

std::string version_text();

}  // namespace nacre::tools
