#include "tools/model/static_builds.h"

#include <fmt/format.h>

namespace nacre::tools {
namespace {

std::string cmake(const std::string& name) {
  return fmt::format(R"(#
#   find_package(nacre REQUIRED)
#   add_subdirectory(FOLDER)
#   target_link_libraries(firmware {0})

add_library({0} STATIC {0}.cc {0}_weights.cc {0}_test.cc)
target_compile_features({0} PRIVATE cxx_std_20)
target_compile_options({0} PRIVATE -fno-exceptions -fno-rtti)
target_include_directories({0} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
target_link_libraries({0} PUBLIC nacre::nacre)
)",
                     name);
}

std::string make(const std::string& name) {
  return fmt::format(R"(#
#   NACRE = folder where nacre was installed
#   include FOLDER/{0}.mk
#   firmware.elf: main.o $({0}_objects)
#   	$(CXX) $(LDFLAGS) $^ -L$(NACRE)/lib -lnacre_cortex_m -lnacre -o $@
#
# CXX, CXXFLAGS and CPPFLAGS are the project's.

{0}_folder := $(dir $(lastword $(MAKEFILE_LIST)))
{0}_objects := {0}.o {0}_weights.o {0}_test.o
CPPFLAGS += -I$(NACRE)/include -I$({0}_folder)

$({0}_objects): %.o: $({0}_folder)%.cc $({0}_folder){0}.h
	$(CXX) $(CPPFLAGS) $(CXXFLAGS) -std=c++20 -fno-exceptions -fno-rtti -c $< -o $@
)",
                     name);
}

std::string meson(const std::string& name) {
  return fmt::format(R"(#
#   subdir('FOLDER')
#   executable('firmware', 'main.c', dependencies: {0})

{0} = declare_dependency(
  link_with: static_library('{0}', '{0}.cc', '{0}_weights.cc', '{0}_test.cc', dependencies: dependency('nacre'),
    cpp_args: ['-fno-exceptions', '-fno-rtti'], override_options: ['cpp_std=c++20']),
  include_directories: include_directories('.'),
  dependencies: dependency('nacre'))
)",
                     name);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> static_builds(const std::string& name, const std::string& origin) {
  return {{"CMakeLists.txt", origin + cmake(name)},
          {name + ".mk", origin + make(name)},
          {"meson.build", origin + meson(name)}};
}

}  // namespace nacre::tools
