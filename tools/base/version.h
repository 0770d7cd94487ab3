// The library's and the tools' version, from meson.build.
#pragma once

namespace nacre::tools {

inline constexpr const char* kVersion = NACRE_VERSION;

}  // namespace nacre::tools
