#include "tools/base/unsupported.h"

#include <utility>

namespace nacre::tools {
namespace {

std::string list_of(const std::vector<std::string>& things, const std::string& among, const std::string& indent) {
  constexpr size_t kMostReported = 100;
  std::string text;
  for (size_t i = 0; i < things.size() && i < kMostReported; ++i) text += "\n" + indent + things[i];
  if (things.size() > kMostReported)
    text += "\n" + indent + "and " + std::to_string(things.size() - kMostReported) + " more";
  const std::string count = things.size() == 1 ? "1 thing is" : std::to_string(things.size()) + " things are";
  return count + " not supported" + among + ":" + text;
}

}  // namespace

Unsupported::Unsupported(const std::string& file, std::vector<std::string> all, const std::string& among,
                         const std::string& indent)
    : Error(kUnsupported, file, list_of(all, among, indent)), things(std::move(all)) {}

void report_problems(const std::string& file, const std::vector<std::string>& problems, const std::string& among,
                     const std::string& indent) {
  if (!problems.empty()) throw Unsupported(file, problems, among, indent);
}

std::string without_file(const std::string& what, const std::string& file) {
  const std::string prefix = escaped(file) + ": ";
  return what.starts_with(prefix) ? what.substr(prefix.size()) : what;
}

}  // namespace nacre::tools
