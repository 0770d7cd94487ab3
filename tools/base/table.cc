#include "tools/base/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "tools/base/foreign_text.h"

namespace nacre::tools {
namespace {

constexpr size_t kGap = 2;  // between columns

bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

// Returns the offset of the byte at which character `index` starts, or text.size() if there are fewer characters.
size_t position(const std::string& text, size_t index) {
  size_t at = 0;
  for (; at < text.size(); ++at)
    if (starts_character(text[at]) && index-- == 0) break;
  return at;
}

std::string padded(const std::string& text, size_t width, Align align) {
  const std::string spaces(width - std::min(width, characters(text)), ' ');
  return align == Align::kLeft ? text + spaces : spaces + text;
}

}  // namespace

size_t characters(const std::string& text) { return size_t(std::ranges::count_if(text, starts_character)); }

std::string shorten(const std::string& text, size_t most) {
  const size_t count = characters(text);
  if (count <= most) return text;
  const std::string dots = most < 8 ? "." : "...";
  const size_t kept = most - std::min(most, dots.size()), front = kept / (kept < 24 ? 5 : 3);
  return text.substr(0, position(text, front)) + dots + text.substr(position(text, count - (kept - front)));
}

namespace {

// Counts the bytes that the texts with the indices `some` share at their beginning and at their end, without overlap.
std::pair<size_t, size_t> common_ends(const std::vector<std::string>& texts, const std::vector<size_t>& some) {
  const std::string& first = texts[some[0]];
  size_t front = first.size(), shortest = first.size();
  for (const size_t i : some) {
    shortest = std::min(shortest, texts[i].size());
    size_t same = 0;
    while (same < std::min(front, shortest) && first[same] == texts[i][same]) ++same;
    front = same;
  }
  while (front > 0 && !starts_character(first[front])) --front;
  size_t back = shortest - front;
  for (const size_t i : some) {
    size_t same = 0;
    while (same < back && first[first.size() - 1 - same] == texts[i][texts[i].size() - 1 - same]) ++same;
    back = same;
  }
  return {front, back};
}

// Keeps the `own` bytes from `from` on, and as much of the text before and after them as there is room for.
std::string shorten_around(const std::string& text, size_t from, size_t own, size_t most) {
  const size_t inner = characters(text.substr(from, own));
  const size_t rest = most > inner + 2 ? most - inner - 2 : 0, ahead = rest / 2, count = characters(text);
  const std::string behind = text.substr(position(text, count - std::min(count, rest - ahead)));
  return shorten(text.substr(0, position(text, ahead)) + "." + text.substr(from, own) + "." + behind, most);
}

}  // namespace

std::vector<std::string> shorten_apart(const std::vector<std::string>& texts, size_t most) {
  std::vector<std::string> made;
  std::map<std::string, std::vector<size_t>> alike;
  for (size_t i = 0; i < texts.size(); ++i) {
    made.push_back(shorten(texts[i], most));
    if (made[i] != texts[i]) alike[made[i]].push_back(i);
  }
  for (const auto& [shown, some] : alike) {
    if (std::ranges::all_of(some, [&](size_t i) { return texts[i] == texts[some[0]]; })) continue;
    const auto [front, back] = common_ends(texts, some);
    for (const size_t i : some) {
      const size_t left = texts[i].size() - front;
      made[i] = shorten_around(texts[i], front, left - std::min(back, left), most);
    }
  }
  return made;
}

size_t terminal_width() {
  constexpr size_t kOfFiles = SIZE_MAX;  // no line is too long
  winsize size = {};
  return isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                                                       : kOfFiles;
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) cell = visible_lines(cell);
  rows_.push_back(std::move(cells));
}

void Table::rule() { rows_.emplace_back(); }

std::vector<size_t> Table::widths(size_t width) const {
  std::vector<size_t> widths(columns_.size());
  for (size_t c = 0; c < columns_.size(); ++c) {
    widths[c] = characters(columns_[c].title);
    for (const std::vector<std::string>& row : rows_)
      if (!row.empty()) widths[c] = std::max(widths[c], characters(row[c]));
    if (columns_[c].names) widths[c] = std::min(widths[c], std::max(kMostOfName, columns_[c].least));
  }
  size_t total = kGap * (columns_.size() - 1);
  for (const size_t w : widths) total += w;
  while (total > width) {  // narrows, by one character, the column that is farthest above its `least`
    size_t most = 0, column = 0;
    for (size_t c = 0; c < columns_.size(); ++c)
      if (columns_[c].least > 0 && widths[c] > columns_[c].least + most) most = widths[column = c] - columns_[c].least;
    if (most == 0) break;
    --widths[column];
    --total;
  }
  return widths;
}

std::string Table::text(size_t width) const {
  const std::vector<size_t> w = widths(width);
  size_t total = kGap * (w.size() - 1);
  for (const size_t each : w) total += each;
  std::vector<std::vector<std::string>> shown = rows_;
  for (size_t c = 0; c < w.size(); ++c) {
    std::vector<std::string> cells;
    for (const std::vector<std::string>& row : rows_) cells.push_back(row.empty() ? "" : row[c]);
    cells = shorten_apart(cells, w[c]);
    for (size_t r = 0; r < rows_.size(); ++r)
      if (!rows_[r].empty()) shown[r][c] = cells[r];
  }
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string joined;
    for (size_t c = 0; c < w.size(); ++c)
      joined += (c == 0 ? "" : std::string(kGap, ' ')) + padded(cells[c], w[c], columns_[c].align);
    joined.erase(joined.find_last_not_of(' ') + 1);
    text += joined + '\n';
  };
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  line(titles);
  for (const std::vector<std::string>& row : shown) {
    if (row.empty()) {
      text += std::string(total, '-') + '\n';
    } else {
      line(row);
    }
  }
  return text;
}

}  // namespace nacre::tools
