#include "tools/differentiate/trained_constants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/base/format.h"
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

std::string trained_text(const std::vector<TrainedConstant>& constants) {
  constexpr size_t kMost = 8;
  int64_t numbers = 0;
  std::vector<std::string> names;
  for (const TrainedConstant& constant : constants) {
    numbers += constant.numbers;
    if (names.size() < kMost) names.push_back(constant.name);
  }
  const size_t more = constants.size() - names.size();
  return fmt::format("trained: {}, {} {}: {}{}", counted(constants.size(), "constant"), grouped(uint64_t(numbers)),
                     numbers == 1 ? "number" : "numbers", fmt::join(names, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace nacre::tools
