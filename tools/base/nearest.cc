#include "tools/base/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace nacre::tools {
namespace {

constexpr size_t kLongestName = 200;

char lower(char c) { return char(std::tolower(static_cast<unsigned char>(c))); }

// Returns the length of the UTF-8 character of one to three bytes that `text` begins with, or 0 if there is none.
size_t character_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t bytes = byte(0) < 0x80 ? 1 : byte(0) >= 0xC2 && byte(0) < 0xE0 ? 2 : (byte(0) & 0xF0) == 0xE0 ? 3 : 0;
  if (bytes == 0 || bytes > text.size()) return 0;
  for (size_t i = 1; i < bytes; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  return bytes;
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  // d(i, j) is of a's first i and b's first j: min(d(i-1, j) + 1, d(i, j-1) + 1, d(i-1, j-1) + [a_i != b_j]), by rows.
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

std::vector<std::string> nearest_names(std::string_view wrong, std::span<const std::string> names, size_t limit) {
  if (wrong.size() > kLongestName) return {};
  const size_t farthest = std::max<size_t>(2, wrong.size() / 3);
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& name : names) {
    if (name.size() > kLongestName) continue;
    const size_t distance = edit_distance(wrong, name);
    // If every letter had to be replaced, the name is no hint.
    if (distance <= farthest && distance < std::max(wrong.size(), name.size())) near.emplace_back(distance, name);
  }
  std::ranges::stable_sort(near, {}, [](const auto& n) { return n.first; });
  std::vector<std::string> found;
  for (const auto& [distance, name] : near)
    if (found.size() < limit && std::ranges::find(found, name) == found.end()) found.push_back(name);
  return found;
}

std::string alternatives(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
}

std::string in_quotes(std::string_view text, size_t most) {
  std::string shown = "'";
  size_t count = 0;
  for (size_t i = 0; i < text.size(); ++count) {
    if (count == most) return shown + "...'";
    const size_t bytes = character_bytes(text.substr(i));
    const bool printable = bytes > 1 || (bytes == 1 && std::isprint(static_cast<unsigned char>(text[i])));
    shown += printable ? std::string(text.substr(i, bytes)) : fmt::format("\\x{:02x}", uint8_t(text[i]));
    i += std::max<size_t>(bytes, 1);
  }
  return shown + "'";
}

std::string listed(const std::vector<std::string>& names, size_t most) {
  std::string text;
  const size_t shown = names.size() > most + 1 ? most : names.size();
  for (size_t i = 0; i < shown; ++i)
    text += (i == 0 ? "" : shown == names.size() && i + 1 == shown ? " and " : ", ") + names[i];
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

}  // namespace nacre::tools
