#include "tools/policies/policy_map.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/policies/refusal.h"

namespace nacre::tools {
namespace {

PolicyMap map_of(const std::vector<std::string>& keys) {
  PolicyMap map;
  for (const std::string& key : keys) map.insert(key, {"key " + key, kBadInput});
  return map;
}

// Returns the index found, -1 for the default, or -2 for two matches.
int find(const PolicyMap& map, const std::string& name) {
  int found = -1;
  const Refusal r = refusal([&] {
    if (const std::optional<size_t> hit = map.find(name)) found = int(*hit);
  });
  EXPECT_TRUE(r.label.empty() || r.label == "MultipleMatches") << r.text;
  return r.label.empty() ? found : -2;
}

std::string bad_pattern(const std::string& pattern) {
  const Refusal r = refusal([&] { Pattern(pattern, {"--set X", kUsage}); });
  EXPECT_TRUE(r.label.empty() || r.label == "BadPattern") << r.text;
  EXPECT_LT(r.text.size(), 1000u);
  return r.text;
}

// The cases of the golden page: enc/l0 = A, enc/.* = B, enc/att/.* = C, dec = D.
TEST(policy_map, looks_up_exact_names_then_whole_matches_then_nothing) {
  const PolicyMap map = map_of({"enc/l0", "enc/.*", "enc/att/.*", "dec"});
  EXPECT_EQ(find(map, "enc/l0"), 0);
  EXPECT_EQ(find(map, "enc/x"), 1);
  EXPECT_EQ(find(map, "enc/att/q"), -2);
  EXPECT_EQ(find(map, "dec"), 3);
  EXPECT_EQ(find(map, "dec/x"), -1);
  EXPECT_EQ(find(map, "encX"), -1);
  EXPECT_EQ(find(map, "xenc/l1"), -1);
  EXPECT_EQ(find(map, "enc/.*"), 1);  // the key itself
}

TEST(policy_map, two_matches_name_the_layer_and_every_place) {
  const Refusal r = refusal([] { map_of({"enc/.*", "enc/att/.*", ".*q"}).find("enc/att/q"); });
  EXPECT_EQ(
      r.text,
      "key enc/.*: layer 'enc/att/q' matches 3 rules: 'enc/.*' (key enc/.*), 'enc/att/.*' (key enc/att/.*) and '.*q' "
      "(key .*q)\n    make them disjoint, or give the layer a rule with its exact name");
}

TEST(policy_map, names_with_characters_of_patterns_are_found_as_they_are) {
  const PolicyMap map = map_of({"model/dense_1/MatMul;model/dense_1/Relu", "conv+bn", "a.b"});
  EXPECT_EQ(find(map, "model/dense_1/MatMul;model/dense_1/Relu"), 0);
  EXPECT_EQ(find(map, "conv+bn"), 1);
  EXPECT_EQ(find(map, "convvbn"), 1);
  EXPECT_EQ(find(map, "a.b"), 2);
  EXPECT_EQ(find(map, "axb"), 2);
}

// Names in PyTorch's exports have dots. A file with a policy for every layer has a pattern for each.
TEST(policy_map, escaped_names_are_no_patterns_to_be_counted) {
  PolicyMap map;
  for (int i = 0; i < 3000; ++i) map.insert("layers\\." + std::to_string(i) + "\\.conv\\(x\\)", {});
  EXPECT_EQ(map.cost(), 0);
  EXPECT_EQ(map.find("layers.2999.conv(x)"), std::optional<size_t>(2999));
  EXPECT_EQ(map.find("layersX2999.conv(x)"), std::nullopt);
  map.insert("layers\\.7\\..*", {});
  EXPECT_EQ(map.matches("layers.7.conv(x)"), (std::vector<size_t>{7, 3000}));
  EXPECT_EQ(refusal([&] { map.find("layers.7.conv(x)"); }).label, "MultipleMatches");
  // An escaped letter is a class of characters or invalid, so the pattern is not a plain name.
  EXPECT_EQ(only_match("a\\d"), std::nullopt);
  EXPECT_EQ(only_match("a.b"), std::nullopt);
  EXPECT_EQ(only_match("a\\"), std::nullopt);
  EXPECT_EQ(only_match("a\\.b\\\\"), "a.b\\");
}

TEST(policy_map, a_key_twice_is_refused) {
  PolicyMap map = map_of({"dense"});
  const Refusal r = refusal([&] { map.insert("dense", {"--set 2", kUsage}); });
  EXPECT_EQ(r.label, "DuplicateKey");
  EXPECT_EQ(r.text, "--set 2: 'dense' has a policy already, from key dense");
}

TEST(pattern, what_re2_cannot_take_is_named) {
  const std::pair<const char*, const char*> rows[] = {
      {R"((a)\1)", "RE2 has no back-reference, \\1"},
      {"(?P<x>a)(?P=x)", "RE2 has no back-reference, (?P=name)"},
      {"(?=a)b", "RE2 has no look-ahead, (?=...)"},
      {"a(?!b).*", "RE2 has no negative look-ahead, (?!...)"},
      {"(?<=a)b", "RE2 has no look-behind, (?<=...)"},
      {"(?<!a)b", "RE2 has no negative look-behind, (?<!...)"},
      {"(?<n>a)", "write (?P<name>...)"},
      {"(?>a+)b", "RE2 has no atomic group, (?>...)"},
      {"(?(1)a|b)", "RE2 has no conditional"},
      {"(?#why)a", "RE2 has no comment"},
      {"a++", "RE2 has no repetition '++', possessive or doubled"},
      {"a{5,2}", "'{5,2}' is out of order"},
      {"a{1001}", "'{1001}' is out of order or larger than RE2's 1000"},
      {"((a{100}){100}){100}", "larger than RE2's 1000"},
      {"[a", "missing ]"},
      {"(a", "missing )"},
      {"a\\", "it ends with a backslash that escapes nothing"},
      {"*", "nothing stands before the repetition '*'"},
      {"\\Z", "'\\Z'"},
      {"a{,3}", "write {0,n}"},
      {"[[:alpha:]]+", "write [a-zA-Z]"},
      {"\xff", "UTF-8"},
  };
  for (const auto& [pattern, says] : rows) {
    const std::string text = bad_pattern(pattern);
    EXPECT_TRUE(text.starts_with("--set X: pattern ")) << text;
    EXPECT_NE(text.find(says), std::string::npos) << pattern << " -> " << text;
  }
  for (const char* good : {"", "a|b", "[]a]", "[^]:]", "\\{,3}", "a{0,3}", "(?i)DENSE.*", "[a:]", "x{2,}", "\\[:"})
    EXPECT_EQ(bad_pattern(good), "") << good;
}

TEST(pattern, matches_the_whole_name_only) {
  const Pattern p("dense|conv.", {});
  EXPECT_TRUE(p.matches("dense"));
  EXPECT_TRUE(p.matches("conv1"));
  EXPECT_FALSE(p.matches("dense_1"));
  EXPECT_FALSE(p.matches("my_dense"));
  EXPECT_TRUE(Pattern("caf.", {}).matches("caf\xc3\xa9"));
  EXPECT_TRUE(
      Pattern("a.b", {}).matches(mended("a\xff"
                                        "b")));
}

// \w, \d and \s mean the sets of Python's re, for names in any script. `matches` is the result of re.fullmatch in
// Python 3.11.
TEST(pattern, sets_of_characters_are_pythons) {
  const struct {
    const char *pattern, *name;
    bool matches;
  } rows[] = {
      {R"(\w+)", "na\u00efve", true},   {R"(dense\d)", "dense\u0663", true},
      {R"(\w+)", "na\u00efve!", false}, {R"([\w/]+)", "b\u00f6/\u7d20", true},
      {R"(\W+)", "\u00ef", false},      {R"(\W)", "\u20ac", true},
      {R"(\d+)", "\u00b2", false},      {R"(\w+)", "\u00b2\u00bd", true},
      {R"(a\sb)", "a\u00a0b", true},    {R"(a\sb)", "a\u200bb", false},
      {R"(a\Sb)", "a\u3000b", false},   {R"([^\d]+)", "\u0663", false},
      {R"([]\d]+)", "]\u0663", true},   {R"(\\\\w)", "\\\\w", true},
      {R"(.)", "\u7d20", true},         {R"(\w+\w+\w+\w+\w+)", "\u00e4\u00e4\u00e4\u00e4\u00e4", true},
      {R"(\bdense\b)", "dense", true},  {R"([\W]+)", "!", true},
  };
  for (const auto& row : rows)
    EXPECT_EQ(Pattern(row.pattern, {}).matches(row.name), row.matches) << row.pattern << ' ' << row.name;
  for (const char* pattern : {R"(.*\bdense)", R"([\W]+)"}) {
    const Refusal r = refusal([&] { Pattern(pattern, {"--set X"}).matches("\u00ef dense"); });
    EXPECT_EQ(r.label, "BadPattern") << pattern;
    EXPECT_NE(r.text.find("for ASCII alone, and '\u00ef dense' is a name"), std::string::npos) << r.text;
  }
}

// A backtracking matcher takes 2^25 steps or more for each of these. If one hangs, the time limit of tests/run.sh
// ends the test.
TEST(pattern, hostile_patterns_end_in_bounded_time) {
  const std::string name(2000, 'a');
  for (const char* pattern :
       {"a(a|b)*c", "(a*)*b", "(a|aa)+$b", "(.*)*(.*)*(.*)*x", "(a?){500}a{500}b", "(x+x+)+y", "(a|b|ab)*c"})
    EXPECT_FALSE(Pattern(pattern, {}).matches(name)) << pattern;
  EXPECT_TRUE(Pattern("a(a|b)*", {}).matches(name));
  for (const std::string piece : {"a", "(", "(a", "a*", "[", "[a", "\\", "a|", "(?i)", "a{1000}", "(a{9}){9}", ".*"}) {
    std::string pattern;
    while (pattern.size() < 100 * 1024) pattern += piece;
    EXPECT_NE(bad_pattern(pattern).find("at most 4096 are allowed"), std::string::npos);
    pattern.resize(4096);
    bad_pattern(pattern);
  }
}

TEST(pattern, random_bytes_are_a_pattern_or_one_error) {
  std::mt19937 random(5);
  const std::string alphabet = "ab.*+?()[]{}|\\^$,0123456789:P<>=!-\n\xff\xc3\xa9";
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (auto n = random() % 24; n > 0; --n) text += alphabet[random() % alphabet.size()];
    const Refusal r = refusal([&] { Pattern(text, {}).matches("ab01ab"); });
    EXPECT_TRUE(r.label.empty() || r.label == "BadPattern") << r.text;
  }
}

}  // namespace
}  // namespace nacre::tools
