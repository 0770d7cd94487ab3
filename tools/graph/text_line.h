// Line splits one line of the text form into tokens.
#pragma once

#include <bit>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tools/base/error.h"
#include "tools/base/names.h"

namespace nacre::tools {

// Reads one line as tokens: words, "strings", and single punctuation characters. '#' starts a comment.
class Line {
 public:
  Line(std::string_view text, int number) : rest_(text), number_(number) { skip(); }

  [[noreturn]] void fail(const std::string& fact) const {
    throw Error(kBadInput, "line " + std::to_string(number_), fact);
  }

  bool end() const { return rest_.empty(); }
  bool at(char c) const { return !rest_.empty() && rest_[0] == c; }

  bool take(char c) {
    if (!at(c)) return false;
    rest_.remove_prefix(1);
    skip();
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("expected '") + c + "' before '" + std::string(rest_.substr(0, 20)) + "'");
  }

  std::string word() {
    size_t n = 0;
    while (n < rest_.size() && word_character(rest_[n])) ++n;
    if (n == 0) fail("expected a word before '" + std::string(rest_.substr(0, 20)) + "'");
    return cut(n);
  }

  std::string string() {
    if (!at('"')) fail("expected a quoted string before '" + std::string(rest_.substr(0, 20)) + "'");
    std::string out;
    size_t i = 1;
    for (; i < rest_.size() && rest_[i] != '"'; ++i) {
      if (rest_[i] != '\\') {
        out += rest_[i];
      } else if (++i < rest_.size()) {
        out += rest_[i] == 'n' ? '\n' : rest_[i] == 'x' ? byte(i) : rest_[i];
        if (rest_[i] == 'x') i += 2;
      }
    }
    if (i >= rest_.size()) fail("the string has no end");
    cut(i + 1);
    return out;
  }

  std::string name() { return at('"') ? string() : word(); }  // a value's name, after its '%'

  template <class T>
  T number() {
    const std::string text = word();
    T value{};
    const char *first = text.data(), *last = first + text.size();
    std::from_chars_result result{};
    if constexpr (std::is_floating_point_v<T>) {
      uint32_t bits = 0;
      const bool hex = text.starts_with("0x");
      result = hex ? std::from_chars(first + 2, last, bits, 16) : std::from_chars(first, last, value);
      if (hex) value = std::bit_cast<float>(bits);
    } else {
      result = std::from_chars(first, last, value);
    }
    if (result.ec != std::errc() || result.ptr != last)
      fail("'" + text + "' is not " + (std::is_floating_point_v<T> ? "a float32" : "an integer in range"));
    return value;
  }

  template <class T>
  std::vector<T> list(char open = '[', char close = ']') {
    std::vector<T> items;
    expect(open);
    while (!take(close)) {
      if (!items.empty()) expect(',');
      items.push_back(number<T>());
    }
    return items;
  }

  template <class E>
  E one_of(const char* what) {
    const std::string text = word();
    const std::optional<E> found = find_name<E>(text);
    if (!found) fail("'" + text + "' is not " + what);
    return *found;
  }

 private:
  static bool word_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '/' || c == ':' || c == '+' || c == '-';
  }

  char byte(size_t x) const {  // reads the two hex digits after the x of \x
    uint8_t value = 0;
    const char* first = rest_.data() + x + 1;
    if (x + 2 >= rest_.size() || std::from_chars(first, first + 2, value, 16).ptr != first + 2)
      fail("\\x needs two hex digits");
    return char(value);
  }

  std::string cut(size_t n) {
    std::string out(rest_.substr(0, n));
    rest_.remove_prefix(n);
    skip();
    return out;
  }
  void skip() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t' || rest_[0] == '\r')) rest_.remove_prefix(1);
    if (at('#')) rest_ = {};
  }

  std::string_view rest_;
  int number_;
};

}  // namespace nacre::tools
