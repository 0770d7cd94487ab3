#include "tests/project_path.h"

#include <cstdlib>

namespace nacre::tools {
namespace {

std::string from_environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

}  // namespace

std::string project_path(const std::string& path) { return from_environment("NACRE_ROOT", NACRE_ROOT) + "/" + path; }

std::string shared_path(const std::string& path) {
  return from_environment("NACRE_SHARED", project_path("../shared")) + "/" + path;
}

std::string include_options() { return "-I" + project_path("") + " -I" + project_path("include"); }

}  // namespace nacre::tools
