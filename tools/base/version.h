// The version of the library and the tools, from meson.build.
#pragma once

namespace nacre::tools {

inline constexpr const char* kVersion = NACRE_VERSION;

}  // namespace nacre::tools
