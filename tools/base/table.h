// Writes tables for terminals. Columns are as wide as their texts; names are shortened in the middle if they have over
// kMostOfName characters, as those that TFLite joins of several, or if the line would not fit.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace nacre::tools {

inline constexpr size_t kMostOfName = 64;

enum class Align { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
  size_t least = 0;    // > 0: its texts may be shortened in the middle, to no fewer characters than this
  bool names = false;  // of layers or tensors, which are shortened to kMostOfName characters in files too
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> cells);  // adds a row; missing cells are empty
  void rule();                               // adds a horizontal line before the rows that follow

  // Returns the lines, each of at most `width` characters, as far as shortening allows.
  std::string text(size_t width) const;

 private:
  std::vector<size_t> widths(size_t width) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // empty: a rule
};

// Counts the characters of a UTF-8 text: the bytes that are not of the form 10xxxxxx, with which no character begins.
size_t characters(const std::string& text);

// Shortens a text in its middle to at most `most` characters: "functional_1/act...nv2d/Conv2D1". More of the end than
// of the front stays, because names of layers mostly differ at their ends.
std::string shorten(const std::string& text, size_t most);
// Shortens all texts so that different texts stay different, as far as `most` has room for the parts that differ.
std::vector<std::string> shorten_apart(const std::vector<std::string>& texts, size_t most);

// Returns the columns of the terminal on standard output; a file or a pipe has no limit.
size_t terminal_width();

}  // namespace nacre::tools
