#include "tools/base/error.h"

#include <fmt/format.h>

#include "tools/base/foreign_text.h"

namespace nacre::tools {
namespace {

struct Range {
  uint32_t first, last;
};
// Characters that are not seen themselves: delete, C1 controls, marks and overrides of direction, line separators,
// joiners, spaces of no width, annotation marks (The Unicode Standard 15.0, chapter 23).
constexpr Range kFormatControls[] = {{0x7F, 0x9F},     {0x61C, 0x61C},   {0x180E, 0x180E}, {0x200B, 0x200F},
                                     {0x2028, 0x202E}, {0x2060, 0x206F}, {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}};

std::string escape(unsigned char c) {
  switch (c) {
    case '\n': return "\\n";
    case '\t': return "\\t";
    case '\r': return "\\r";
    default: return fmt::format("\\x{:02X}", c);
  }
}

// Returns the code point of the UTF-8 character of one to three bytes at `at`, or 0 if there is none, and sets `bytes`
// to its length (1 if there is none). All format controls have at most three bytes.
uint32_t character_at(std::string_view text, size_t at, size_t* bytes) {
  const auto byte = [&](size_t i) {
    return at + i < text.size() ? uint32_t{static_cast<unsigned char>(text[at + i])} : 0u;
  };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  *bytes = 1;
  if (byte(0) < 0x80) return byte(0);
  if ((byte(0) & 0xE0) == 0xC0 && follows(1)) {
    *bytes = 2;
    return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
  }
  if ((byte(0) & 0xF0) != 0xE0 || !follows(1) || !follows(2)) return 0;
  *bytes = 3;
  return (byte(0) & 0xF) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
}

bool is_format_control(uint32_t character) {
  for (const Range& range : kFormatControls)
    if (character >= range.first && character <= range.last) return true;
  return false;
}

}  // namespace

std::string with_visible_controls(std::string_view text) {
  std::string shown;
  for (size_t at = 0, bytes = 0; at < text.size(); at += bytes) {
    const uint32_t character = character_at(text, at, &bytes);
    if (is_format_control(character)) shown += fmt::format("\\u{:04X}", character);
    else shown += text.substr(at, bytes);
  }
  return shown;
}

std::string escaped(std::string_view text, bool list) {
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool line = list && c == '\n' && text.substr(i + 1, 2) == "  ";
    if (line || (c >= 0x20 && c != 0x7F)) shown += text[i];
    else shown += escape(c);
  }
  return with_visible_controls(shown);
}

std::string visible_lines(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\n' || c == '\t' || (code >= 0x20 && code != 0x7F)) shown += c;
    else shown += escape(code);
  }
  return with_visible_controls(shown);
}

}  // namespace nacre::tools
