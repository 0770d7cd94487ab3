#include "tools/importers/shared/ignored_settings.h"

#include <fmt/format.h>

#include "tools/base/error.h"
#include "tools/base/option_id.h"

namespace nacre::tools {
namespace {

constexpr const char* kOption = "ignore-setting";

bool stands_for(const std::string& name, const std::string& setting) {
  return setting == name || setting.starts_with(name + ".");
}

}  // namespace

bool goes_on_without(const ImportOptions& options, const std::string& setting) {
  bool found = false;
  for (const std::string& name : options.ignored) {
    if (!stands_for(name, setting)) continue;
    found = true;
    if (options.met != nullptr) options.met->insert(name);
  }
  return found;
}

std::string how_to_ignore(const std::string& setting) {
  return fmt::format("{} {} goes on without it", option(kOption), setting);
}

void require_all_met(const ImportOptions& options, const std::set<std::string>& met, const std::string& path) {
  for (const std::string& name : options.ignored)
    if (!met.contains(name))
      throw Error(kUsage, fmt::format("{} {}", option(kOption), name),
                  fmt::format("names no setting of {} that is refused here", path),
                  "leave it out, or give the name that the refusal prints");
}

}  // namespace nacre::tools
