// Tests options of every command that take a count. They are found in the commands' help, so a new option is tested
// too.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "tests/run_tool.h"

namespace nacre::tools {
namespace {

using Strings = std::vector<std::string>;

// Words that help shows for a count.
const std::set<std::string> kCounts = {"N", "RANK"};

Strings lines_of(const std::string& text) {
  Strings lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Returns the first group of the pattern for every line that matches it.
Strings matches(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  Strings found;
  for (const std::string& line : lines_of(text))
    if (std::smatch match; std::regex_search(line, match, expression)) found.push_back(match[1]);
  return found;
}

Strings commands() {
  const std::string help = run_tool({"--help"}).out;
  return matches(help, "^  ([a-z]+)  ");
}

Strings counting_options(const std::string& command) {
  Strings options;
  const std::regex option("^  (--[a-z-]+) ([A-Z]+)( |$)");
  for (const std::string& line : lines_of(run_tool({command, "--help"}).out)) {
    std::smatch match;
    if (std::regex_search(line, match, option) && kCounts.contains(match[2])) options.push_back(match[1]);
  }
  return options;
}

TEST(number_options, take_decimal_digits_within_their_range_and_nothing_else) {
  const Strings texts = {"-1",
                         "-0",
                         "+1",
                         "1e3",
                         "1.5",
                         "0x10",
                         "12x",
                         "x",
                         " 1",
                         "1 ",
                         "nan",
                         "1'000",
                         "1K",
                         "18446744073709551616",
                         "99999999999999999999999"};
  size_t options = 0;
  for (const std::string& command : commands())
    for (const std::string& option : counting_options(command)) {
      ++options;
      for (const std::string& text : texts) {
        const ToolRun run = run_tool({command, option + "=" + text});
        const std::string what = command + " " + option + " '" + text + "': " + run.err;
        EXPECT_EQ(run.exit_code, 2) << what;
        EXPECT_TRUE(run.err.starts_with("nacre: " + command + ": " + option)) << what;
        EXPECT_NE(run.err.find("is no whole number from "), std::string::npos) << what;
      }
    }
  EXPECT_GE(options, 16u);
  std::printf("%zu options that count, %zu texts each, all refused\n", options, texts.size());
}

TEST(number_options, take_the_whole_range_of_a_seed) {
  const TemporaryDirectory directory;
  const std::string model = directory / "m.nacre";
  ASSERT_EQ(run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", model}).exit_code, 0);
  const auto json = [&](const std::string& seed) {
    const ToolRun run = run_tool({"run", model, "--seed", seed, "--output", directory / ("of" + seed)});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return read_bytes(directory / ("of" + seed + "/probabilities.npy"));
  };
  EXPECT_EQ(json("010"), json("10")) << "a leading zero is no octal number";
  EXPECT_NE(json("18446744073709551615"), json("0"));
}

}  // namespace
}  // namespace nacre::tools
