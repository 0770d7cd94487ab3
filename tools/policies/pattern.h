// A regular expression over names of layers, in RE2's syntax. Matching takes time linear in the name, whatever the
// pattern, and memory below a bound. A construct that RE2 lacks is refused by its name; so are the few constructs that
// RE2 reads in another sense than Python's re, from which such patterns come.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tools/policies/policy_error.h"

namespace re2 {
class RE2;
}

namespace nacre::tools {

inline constexpr size_t kLongestPattern = 4096;     // bytes
inline constexpr int64_t kPatternMemory = 1 << 19;  // bytes, of the compiled pattern and its automaton

class Pattern {
 public:
  // Throws PolicyError "BadPattern".
  Pattern(const std::string& text, const Place& place);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  // Whether the whole name does. Throws PolicyError "BadPattern" where RE2 takes the pattern in another sense than
  // Python's re, for a name with letters or digits beyond ASCII.
  bool matches(const std::string& name) const;
  int64_t cost() const;  // most work per character of a name, in instructions of the automaton

 private:
  std::unique_ptr<re2::RE2> compiled_;
  // \w, \d, \s are of Unicode in Python and of ASCII in RE2, which is the same for names in ASCII. For others, where
  // the pattern has one of them: the pattern with Unicode's sets, or why there is none.
  std::unique_ptr<re2::RE2> unicode_;
  std::string no_unicode_;
  Place place_;
};

// Throws as a Pattern of it does.
void require_pattern(const std::string& text, const Place& place);

// Whether a text matches only itself, as a regular expression.
bool literal(const std::string& text);

// The one text that a regular expression matches, where '\\' stands before every character that is none of a literal;
// nothing for other patterns.
std::optional<std::string> only_match(const std::string& text);

// Bytes that are no UTF-8 become U+FFFD, which JSON can write and a pattern's '.' matches.
std::string mended(const std::string& name);

}  // namespace nacre::tools
