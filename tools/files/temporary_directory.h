// The directory of temporary files, into which large arrays are unpacked (element_bytes.h).
#pragma once

#include <string>

namespace nacre::tools {

std::string temporary_directory();  // that of the variable TMPDIR, else /var/tmp

}  // namespace nacre::tools
