#include "tools/base/format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <cstdlib>

namespace nacre::tools {

std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t i = text.size(); i > 3;) text.insert(i -= 3, 1, ',');
  return text;
}

std::string counted(uint64_t number, const std::string& noun) {
  return grouped(number) + " " + noun + (number == 1 ? "" : "s");
}

std::string dims_text(std::span<const int32_t> dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }
std::string dims_text(std::span<const int64_t> dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

std::string fallbacks_text(const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  const bool one = lines.size() == 1;
  std::string text = fmt::format("{} {} in another type than {} policy says:\n", counted(lines.size(), "step"),
                                 one ? "runs" : "run", one ? "its" : "their");
  for (const std::string& line : lines) text += "  " + line + "\n";
  return text;
}

std::string quantizer_text(float scale, int32_t zero) {
  return fmt::format("real = {} * (code {} {})", scale, zero < 0 ? '+' : '-', std::abs(int64_t{zero}));
}

std::string file_name_of(const std::string& name) {
  std::string text = name.substr(0, 100);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool plain = c < 0x80 && (std::isalnum(c) || c == '-' || c == '_' || (c == '.' && i > 0));
    if (!plain) text[i] = '_';
  }
  return text.empty() ? "_" : text;
}

}  // namespace nacre::tools
