#include "tools/base/budget.h"

#include <fmt/format.h>

#include "tools/base/error.h"
#include "tools/base/format.h"

namespace nacre::tools {

void Budget::take(uint64_t bytes, const std::string& place, const std::string& what, const std::string& remedy) {
  if (!has(bytes)) {
    uint64_t total = 0;
    if (__builtin_add_overflow(spent_, bytes, &total)) total = UINT64_MAX;
    throw Error(kUnsupported, place,
                fmt::format("{} would take {} bytes, the limit is {}", what, grouped(total), grouped(limit_)), remedy);
  }
  spend(bytes);
}

}  // namespace nacre::tools
