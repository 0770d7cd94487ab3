#include "tools/policies/pattern.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "tools/base/nearest.h"
#include "tools/base/print.h"

namespace nacre::tools {
namespace {

constexpr const char* kRemedy = "patterns are RE2's: https://github.com/google/re2/wiki/Syntax";

// Names of constructs that RE2 does not have. The first row that the pattern has where RE2 reports its error counts.
struct Construct {
  const char* start;
  const char* name;
};
constexpr Construct kConstructs[] = {
    {"(?=", "look-ahead, (?=...)"},
    {"(?!", "negative look-ahead, (?!...)"},
    {"(?<=", "look-behind, (?<=...)"},
    {"(?<!", "negative look-behind, (?<!...)"},
    {"(?<", "group named without P: write (?P<name>...)"},
    {"(?P=", "back-reference, (?P=name)"},
    {"(?>", "atomic group, (?>...)"},
    {"(?(", "conditional, (?(...)...)"},
    {"(?#", "comment, (?#...)"},
};

bool digit(char c) { return c >= '0' && c <= '9'; }

// Returns the name of the construct that begins with `where`, the text that RE2 reports; else `where` in quotes.
std::string construct_at(const std::string& text, const std::string& where) {
  for (size_t at = text.find(where); at != std::string::npos; at = text.find(where, at + 1))
    for (const Construct& c : kConstructs)
      if (text.compare(at, std::strlen(c.start), c.start) == 0) return c.name;
  if (where.size() >= 2 && where[0] == '\\' && digit(where[1])) return "back-reference, " + where;
  return in_quotes(where);
}

std::string refusal(const std::string& text, const re2::RE2& compiled) {
  using re2::RE2;
  const std::string& where = compiled.error_arg();
  switch (compiled.error_code()) {
    case RE2::ErrorBadPerlOp:
    case RE2::ErrorBadNamedCapture:
    case RE2::ErrorBadEscape: return "RE2 has no " + construct_at(text, where);
    case RE2::ErrorRepeatOp: return fmt::format("RE2 has no repetition {}, possessive or doubled", in_quotes(where));
    case RE2::ErrorRepeatSize:
      return fmt::format("the repetition {} is out of order or larger than RE2's 1000", in_quotes(where));
    case RE2::ErrorPatternTooLarge: return fmt::format("it compiles to more than {} bytes", kPatternMemory);
    case RE2::ErrorBadCharClass:
    case RE2::ErrorBadCharRange: return fmt::format("no set of characters is written {}", in_quotes(where));
    case RE2::ErrorMissingBracket: return "missing ] of a set of characters";
    case RE2::ErrorMissingParen: return "missing ) of a group";
    case RE2::ErrorTrailingBackslash: return "it ends with a backslash that escapes nothing";
    case RE2::ErrorRepeatArgument: return fmt::format("nothing stands before the repetition {}", in_quotes(where));
    case RE2::ErrorBadUTF8: return "it is not UTF-8";
    default: return "it is no regular expression" + (where.empty() ? "" : ": " + in_quotes(where));
  }
}

// Returns a construct that RE2 reads in another sense than Python, null if there is none. Python's re reads "{,3}" as a
// repetition and "[[:alpha:]]" as a set of characters and a ']'. RE2 reads the first as text and the second as a class.
// A silent difference would be worse than a refusal.
const char* differs_from_python(std::string_view text) {
  bool in_set = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
      continue;
    }
    if (in_set && text.substr(i).starts_with("[:"))
      return "a class like [:alpha:], which Python has not: write [a-zA-Z]";
    if (text[i] == '[' && !in_set) {
      in_set = true;
      if (text.substr(i + 1).starts_with("^")) ++i;
      if (text.substr(i + 1).starts_with("]")) ++i;  // the first ']' is a member
    } else if (text[i] == ']') {
      in_set = false;
    } else if (!in_set && text.substr(i).starts_with("{,")) {
      return "a repetition without its least number, {,n}: write {0,n}";
    }
  }
  return nullptr;
}

// Unicode sets for Python's \w (str.isalnum() or '_'), \d (str.isdecimal()) and \s (str.isspace()).
constexpr const char
    *kWord = R"(\p{L}\p{N}_)",
    *kDigit = R"(\p{Nd})",
    *kSpace = R"(\t-\r\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

struct Translated {
  std::string text;
  bool differs = false;            // the pattern has a construct that RE2 restricts to ASCII
  const char* has_none = nullptr;  // a construct that Unicode's sets cannot express; null if there is none
};

// Writes \w, \d and \s of the pattern as Unicode sets, as Python reads them, and finds what cannot be written so.
Translated with_unicode_sets(std::string_view text) {
  Translated made;
  bool in_set = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      if (text[i] == '[' && !in_set) {
        in_set = true;
        made.text += '[';
        for (const char first : {'^', ']'})  // the first ']' is a member
          if (text.substr(i + 1).starts_with(first)) made.text += text[++i];
        continue;
      }
      if (text[i] == ']') in_set = false;
      made.text += text[i];
      continue;
    }
    const char escaped = text[++i], lower = char(escaped | 0x20);
    const char* set = lower == 'w' ? kWord : lower == 'd' ? kDigit : lower == 's' ? kSpace : nullptr;
    if (set != nullptr) {
      made.differs = true;
      if (in_set && escaped != lower) made.has_none = R"(\W, \D or \S in a set of characters)";
      made.text += in_set ? set : (escaped == lower ? "[" : "[^") + std::string(set) + "]";
      continue;
    }
    if (lower == 'b' && !in_set) made.differs = true, made.has_none = R"(\b)";
    made.text += text[i - 1];
    made.text += escaped;
  }
  return made;
}

bool ascii(const std::string& name) {
  return std::ranges::all_of(name, [](char c) { return static_cast<unsigned char>(c) < 128; });
}

}  // namespace

Pattern::Pattern(const std::string& text, const Place& place) : place_(place) {
  if (text.size() > kLongestPattern)
    place.refuse("BadPattern",
                 fmt::format("a pattern of {} bytes, at most {} are allowed", text.size(), kLongestPattern),
                 "use several shorter ones");
  const std::string subject = "pattern " + in_quotes(text) + ": ";
  if (const char* difference = differs_from_python(text)) place.refuse("BadPattern", subject + difference);
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kPatternMemory);
  compiled_ = std::make_unique<re2::RE2>(text, options);
  if (!compiled_->ok()) place.refuse("BadPattern", subject + refusal(text, *compiled_), kRemedy);
  const Translated unicode = with_unicode_sets(text);
  if (!unicode.differs) return;
  if (unicode.has_none == nullptr) unicode_ = std::make_unique<re2::RE2>(unicode.text, options);
  if (unicode_ != nullptr && unicode_->ok()) return;
  unicode_ = nullptr;
  no_unicode_ =
      subject + (unicode.has_none == nullptr
                     ? fmt::format("with all of Unicode's letters it compiles to more than {} bytes", kPatternMemory)
                     : fmt::format("RE2 takes {} for ASCII alone", unicode.has_none));
}

Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

void require_pattern(const std::string& text, const Place& place) { Pattern(text, place); }

bool Pattern::matches(const std::string& name) const {
  if ((unicode_ == nullptr && no_unicode_.empty()) || ascii(name)) return re2::RE2::FullMatch(name, *compiled_);
  if (unicode_ == nullptr)
    place_.refuse("BadPattern", fmt::format("{}, and {} is a name", no_unicode_, in_quotes(name)),
                  "write the characters that are meant");
  return re2::RE2::FullMatch(name, *unicode_);
}

int64_t Pattern::cost() const {
  return std::max(compiled_->ProgramSize(), unicode_ == nullptr ? 0 : unicode_->ProgramSize());
}

bool literal(const std::string& text) { return text.find_first_of("\\^$.|?*+()[]{}") == std::string::npos; }

std::optional<std::string> only_match(const std::string& text) {
  std::string match;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escapes = text[i] == '\\' && i + 1 < text.size();
    if (escapes) ++i;
    if (literal(std::string(1, text[i])) == escapes) return std::nullopt;
    match += text[i];
  }
  return match;
}

std::string mended(const std::string& name) { return Json::parse(Json(name).dump()).get<std::string>(); }

}  // namespace nacre::tools
