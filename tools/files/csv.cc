// Reads CSV as array_files.h describes. In double quotes (RFC 4180) separators and line ends are text, "" is a quote.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "tools/files/array_files.h"

namespace nacre::tools {
namespace {

constexpr uint64_t kMostFields = uint64_t{1} << 29;  // 4 GiB of float64
constexpr size_t kMostColumns = 1 << 20;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string shown(std::string_view text) {
  std::string field(text.substr(0, 20));
  for (char& c : field)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return "'" + field + (text.size() > 20 ? "...'" : "'");
}

// Reads a whole trimmed field as a number. "nan" and "inf" are numbers here; they are refused later, where their
// place is known.
bool to_number(std::string_view text, double* value) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  const bool whole = end == text.data() + text.size() && !text.empty();
  if (whole && error == std::errc::result_out_of_range) {  // beyond float64, or too near to 0
    *value = text.find("e-") != std::string_view::npos || text.find("E-") != std::string_view::npos ? 0.0 : HUGE_VAL;
    return true;
  }
  return whole && error == std::errc();
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& place) : rest_(text), place_(place) {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
    const std::string_view first = rest_.substr(0, rest_.find_first_of("\r\n"));
    for (const char c : {',', ';', '\t'})
      if (separator_ == 0 && first.find(c) != std::string_view::npos) separator_ = c;
    if (separator_ == 0) separator_ = ',';
  }

  // Reads the fields of the next line that is not empty. Returns false at the end.
  bool next(std::vector<std::string>& fields) {
    fields.clear();
    while (!rest_.empty() && blank_line()) {
    }
    if (rest_.empty()) return false;
    line_ = lines_ + 1;
    do {
      fields.push_back(field());
      if (fields.size() > kMostColumns) fail("has more than " + std::to_string(kMostColumns) + " fields");
    } while (take(separator_));
    end_line();
    return true;
  }

  uint64_t line() const { return line_; }  // number of the line read last, from 1

  [[noreturn]] void fail(const std::string& fact, const std::string& remedy = "") const {
    throw Error(kBadInput, fmt::format("{}, line {}", place_, line_), fact, remedy);
  }

 private:
  bool take(char c) {
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool blank_line() {
    const size_t end = std::min(rest_.find_first_not_of(' '), rest_.size());
    if (end < rest_.size() && rest_[end] != '\n' && rest_[end] != '\r') return false;
    rest_.remove_prefix(end);
    end_line();
    return true;
  }

  void end_line() {
    const bool carriage = take('\r');
    if (take('\n') || carriage) ++lines_;
    else if (!rest_.empty()) fail("goes on after a closing quote: " + shown(rest_));
  }

  std::string field() {
    const size_t start = std::min(rest_.find_first_not_of(' '), rest_.size());
    if (start < rest_.size() && rest_[start] == '"') {
      rest_.remove_prefix(start + 1);
      return quoted();
    }
    size_t end = 0;
    while (end < rest_.size() && rest_[end] != separator_ && rest_[end] != '\n' && rest_[end] != '\r') ++end;
    const std::string text(trimmed(rest_.substr(0, end)));
    rest_.remove_prefix(end);
    return text;
  }

  std::string quoted() {
    std::string text;
    for (;;) {
      const size_t end = rest_.find('"');
      if (end == std::string_view::npos) fail("a quote without an end");
      for (const char c : rest_.substr(0, end)) lines_ += c == '\n' ? 1 : 0;
      text += rest_.substr(0, end);
      rest_.remove_prefix(end + 1);
      if (!take('"')) break;
      text += '"';
    }
    while (take(' ')) {
    }
    return text;
  }

  std::string_view rest_;
  const std::string& place_;
  char separator_ = 0;
  uint64_t line_ = 0, lines_ = 0;  // lines_: lines that have ended so far
};

}  // namespace

ArrayFile parse_csv(std::string_view text, const std::string& place) {
  Reader reader(text, place);
  std::vector<std::string> fields;
  std::vector<double> numbers;
  ArrayFile file = {.format = ArrayFile::Format::kCsv, .arrays = {}};
  size_t width = 0;
  for (bool first = true; reader.next(fields); first = false) {
    if (first) {
      width = fields.size();
      double ignored = 0;
      const auto found = size_t(std::ranges::count_if(fields, [&](const auto& f) { return to_number(f, &ignored); }));
      if (found > 0 && found < width)
        reader.fail(fmt::format("{} of its {} fields are numbers, so it is neither numbers nor names", found, width),
                    "mend the number, or give every column a name that is none");
      if (found == 0) {
        file.columns = fields;
        continue;
      }
    }
    if (fields.size() != width) reader.fail(fmt::format("has {} fields, the first line has {}", fields.size(), width));
    if (numbers.size() + width > kMostFields) reader.fail("is beyond the first 2^29 numbers: more than 4 GiB");
    for (size_t i = 0; i < width; ++i) {
      double value = 0;
      if (!to_number(fields[i], &value))
        reader.fail(
            fmt::format("column {} is {}, wanted a number", i + 1, fields[i].empty() ? "empty" : shown(fields[i])),
            "write numbers with a decimal point, categories as numbers, and leave out lines that lack some");
      numbers.push_back(value);
    }
  }
  if (numbers.empty()) throw Error(kBadInput, place, "holds no line of numbers");
  NpyArray array = {.type = ElementType::kFloat64,
                    .dims = {int64_t(numbers.size() / width), int64_t(width)},
                    .data = std::vector<uint8_t>(numbers.size() * sizeof(double)),
                    .place = place};
  std::memcpy(array.data.data(), numbers.data(), array.data.size());
  file.arrays.emplace_back("", std::move(array));
  return file;
}

}  // namespace nacre::tools
