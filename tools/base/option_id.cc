#include "tools/base/option_id.h"

#include "tools/base/caller.h"

namespace nacre::tools {

std::string option(std::string_view id, std::string_view value) {
  if (const Caller* const by = caller()) return by->option(id, value);
  std::string text = "--" + std::string(id);
  if (!value.empty()) (text += ' ') += value;
  return text;
}

}  // namespace nacre::tools
