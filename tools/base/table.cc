#include "tools/base/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace nacre::tools {
namespace {

constexpr size_t kGap = 2;  // between columns

bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

// The byte at which character `index` starts.
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

size_t terminal_width() {
  constexpr size_t kOfFiles = 140;
  winsize size = {};
  return isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                                                       : kOfFiles;
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

void Table::rule() { rows_.emplace_back(); }

std::vector<size_t> Table::widths(size_t width) const {
  std::vector<size_t> widths(columns_.size());
  for (size_t c = 0; c < columns_.size(); ++c) {
    widths[c] = characters(columns_[c].title);
    for (const std::vector<std::string>& row : rows_)
      if (!row.empty()) widths[c] = std::max(widths[c], characters(row[c]));
  }
  size_t total = kGap * (columns_.size() - 1);
  for (const size_t w : widths) total += w;
  while (total > width) {  // the column with the most to give
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
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string joined;
    for (size_t c = 0; c < w.size(); ++c)
      joined += (c == 0 ? "" : std::string(kGap, ' ')) + padded(shorten(cells[c], w[c]), w[c], columns_[c].align);
    joined.erase(joined.find_last_not_of(' ') + 1);
    text += joined + '\n';
  };
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  line(titles);
  for (const std::vector<std::string>& row : rows_) {
    if (row.empty()) {
      text += std::string(total, '-') + '\n';
    } else {
      line(row);
    }
  }
  return text;
}

}  // namespace nacre::tools
