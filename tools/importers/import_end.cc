#include "tools/importers/import_end.h"

#include "tools/base/error.h"

namespace nacre::tools {

void report_problems(const std::string& file, const std::vector<std::string>& problems, const std::string& among) {
  constexpr size_t kMostReported = 100;
  if (problems.empty()) return;
  std::string text;
  for (size_t i = 0; i < problems.size() && i < kMostReported; ++i) text += "\n    " + problems[i];
  if (problems.size() > kMostReported) text += "\n    and " + std::to_string(problems.size() - kMostReported) + " more";
  const std::string things = problems.size() == 1 ? "1 thing is" : std::to_string(problems.size()) + " things are";
  throw Error(kUnsupported, file, things + " not supported" + among + ":" + text);
}

void name_image_inputs(Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (node.op != Op::kConv2d && node.op != Op::kDepthwiseConv2d && node.op != Op::kAveragePool &&
        node.op != Op::kMaxPool)
      continue;
    for (Binding& b : graph.inputs)
      if (b.value == node.inputs[0]) b.layout = "NHWC";
  }
}

}  // namespace nacre::tools
