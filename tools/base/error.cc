#include "tools/base/error.h"

#include <fmt/format.h>

namespace nacre::tools {
namespace {

std::string escape(unsigned char c) {
  switch (c) {
    case '\n': return "\\n";
    case '\t': return "\\t";
    case '\r': return "\\r";
    default: return fmt::format("\\x{:02X}", c);
  }
}

}  // namespace

std::string escaped(std::string_view text, bool list) {
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool line = list && c == '\n' && text.substr(i + 1, 2) == "  ";
    if (line || (c >= 0x20 && c != 0x7F)) shown += text[i];
    else shown += escape(c);
  }
  return shown;
}

}  // namespace nacre::tools
