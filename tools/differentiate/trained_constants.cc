#include "tools/differentiate/trained_constants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/base/format.h"
#include "tools/base/table.h"
#include "tools/differentiate/parameters.h"

namespace nacre::tools {

std::vector<TrainedConstant> trained_constants(Graph graph, const TrainedParameters& options) {
  separate_statistics(graph);
  make_parameters(graph, options);
  std::vector<TrainedConstant> constants;
  for (const Value& v : graph.values)
    if (v.trainable) constants.push_back({v.name, v.elements()});
  return constants;
}

std::vector<std::string> trained_lines(const std::vector<TrainedConstant>& constants) {
  constexpr size_t kMost = 8, kColumns = 88;
  int64_t numbers = 0;
  for (const TrainedConstant& constant : constants) numbers += constant.numbers;
  std::vector<std::string> lines = {fmt::format("trained: {}, {} {}:", counted(constants.size(), "constant"),
                                                grouped(uint64_t(numbers)), numbers == 1 ? "number" : "numbers")};
  const size_t named = std::min(constants.size(), kMost), more = constants.size() - named;
  std::vector<std::string> names;
  for (size_t i = 0; i < named; ++i) names.push_back(constants[i].name);
  names = shorten_apart(names, kMostOfName);
  for (size_t i = 0; i < named; ++i) {
    std::string word = names[i];
    if (i + 1 < named) word += ",";
    else if (more > 0) word += fmt::format(" and {} more", more);
    if (lines.back().size() + 1 + word.size() > kColumns) lines.push_back(std::move(word));
    else lines.back() += " " + word;
  }
  return lines;
}

}  // namespace nacre::tools
