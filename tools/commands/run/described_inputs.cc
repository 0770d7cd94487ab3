#include "tools/commands/run/described_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tools/base/error.h"
#include "tools/base/nearest.h"
#include "tools/files/input_file.h"

namespace nacre::tools {
namespace {

constexpr uint64_t kMostLabelBytes = uint64_t{1} << 20;

void set_metadata(Graph& graph, const std::string& key, const std::string& value) {
  std::erase_if(graph.metadata, [&](const auto& pair) { return pair.first == key; });
  graph.metadata.emplace_back(key, value);
}

std::string lines_of_labels(const std::string& path) {
  std::string text;
  for (const uint8_t c : read_file(path, kMostLabelBytes)) {
    if (c == 0) throw Error(kBadInput, path, "is no text", "give a file with a class on each line");
    if (c != '\r') text += char(c);
  }
  while (text.ends_with('\n')) text.pop_back();
  if (text.empty()) throw Error(kBadInput, path, "names no class", "give a class on each line");
  return text;
}

// Returns "127.5:127.5:127.5" as "127.5,127.5,127.5". Throws unless numbers are finite and, if `divides`, not 0.
std::string listed_numbers(const std::string& option, const std::string& text, bool divides) {
  std::string made;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(':', at), text.size());
    float number = 0;
    const auto [rest, error] = std::from_chars(text.data() + at, text.data() + end, number);
    if (error != std::errc() || rest != text.data() + end || !std::isfinite(number) || (divides && number == 0))
      throw Error(kUsage, option,
                  fmt::format("{} is no {}", in_quotes(text.substr(at, end - at)), divides ? "divisor" : "number"),
                  "write --normalize INPUT=MEAN,STD, as pixels=127.5,127.5");
    made += fmt::format("{}{}", made.empty() ? "" : ",", number);
    at = end + 1;
  }
  return made;
}

}  // namespace

void describe_inputs(Graph& graph, const std::string& labels, const std::vector<std::string>& normalize) {
  if (!labels.empty()) set_metadata(graph, "labels", lines_of_labels(labels));
  for (const std::string& text : normalize) {
    const std::string option = "--normalize " + text;
    const size_t equals = text.find('='), comma = text.find(',', equals == text.npos ? 0 : equals);
    if (equals == text.npos || comma == text.npos)
      throw Error(kUsage, option, "is not INPUT=MEAN,STD", "write it as pixels=127.5,127.5");
    const std::string name = text.substr(0, equals);
    if (std::ranges::none_of(graph.inputs, [&](const Binding& b) { return b.name == name; }))
      throw Error(kUsage, option, fmt::format("the network has no input {}", in_quotes(name)),
                  "nacre inspect names its inputs");
    const std::string mean = text.substr(equals + 1, comma - equals - 1), std = text.substr(comma + 1);
    set_metadata(graph, "input." + name + ".mean", listed_numbers(option, mean, false));
    set_metadata(graph, "input." + name + ".std", listed_numbers(option, std, true));
  }
}

}  // namespace nacre::tools
