// A regular expression for names of layers, in RE2's syntax. Matching takes time linear in the name, whatever the
// pattern, and bounded memory. A construct that RE2 lacks is refused. Keras's patterns come from Python, so two that
// RE2 reads in another sense than Python's re, {,n} and classes like [:alpha:], are refused too.
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
inline constexpr int64_t kPatternMemory = 1 << 19;  // bytes that the compiled pattern and its automaton may take

class Pattern {
 public:
  // Compiles the pattern. Throws PolicyError "BadPattern".
  Pattern(const std::string& text, const Place& place);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  // Returns whether the pattern matches the whole name. Throws PolicyError "BadPattern" if the name has characters
  // beyond ASCII and RE2 cannot express the pattern in Python's sense.
  bool matches(const std::string& name) const;
  int64_t cost() const;  // greatest work per character of a name, in instructions of the automaton

 private:
  std::unique_ptr<re2::RE2> compiled_;
  // The pattern for names beyond ASCII. \w, \d, \s stand for sets of Unicode in Python, but of ASCII in RE2, so this
  // pattern has Unicode's sets written out. null if the pattern has none of the three, or cannot be written so.
  std::unique_ptr<re2::RE2> unicode_;
  std::string no_unicode_;
  Place place_;
};

// Throws the error that Pattern's constructor would throw for `text`.
void require_pattern(const std::string& text, const Place& place);

// Returns whether a text has no special character, so that as a regular expression it matches only itself.
bool literal(const std::string& text);

// Returns the only text that a regular expression matches, if all its special characters are escaped with '\\'. Returns
// nullopt for other patterns.
std::optional<std::string> only_match(const std::string& text);

// Returns the name with U+FFFD, which JSON can write and a pattern's '.' matches, for bytes that are not UTF-8.
std::string mended(const std::string& name);

}  // namespace nacre::tools
