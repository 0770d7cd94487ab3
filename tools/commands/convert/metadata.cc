// Adds metadata about how a model file was made, and defines the values of --emit-policy and --keep.
#include <fmt/format.h>

#include <algorithm>

#include "tools/base/error.h"
#include "tools/base/version.h"
#include "tools/commands/convert/convert.h"
#include "tools/commands/run/described_inputs.h"
#include "tools/files/atomic_file.h"
#include "tools/model/writer.h"
#include "tools/passes/patches/patches.h"

namespace nacre::tools {

void add_metadata(Graph& graph, const ConvertOptions& options) {
  graph.metadata.emplace_back("converter", fmt::format("nacre {}", kVersion));
  graph.metadata.emplace_back("converter_options", options_text(options));
  graph.metadata.emplace_back("source_sha256", sha256(read_file(options.network)));
  if (graph.patches) graph.metadata.emplace_back("patches", patches_text(*graph.patches));
  std::string fallbacks;
  for (const std::string& line : graph.fallbacks) fallbacks += line + "\n";
  if (!fallbacks.empty()) graph.metadata.emplace_back("fallbacks", fallbacks);
  describe_inputs(graph, options.labels, options.normalize);
  std::ranges::sort(graph.metadata);
}

PolicyOutput policy_output(const std::string& value) {
  constexpr std::string_view kKeras = "keras";
  if (!value.starts_with(kKeras) || (value.size() > kKeras.size() && value[kKeras.size()] != '=')) return {value};
  if (value.size() <= kKeras.size() + 1)
    throw Error(kUsage, "--emit-policy " + value, "names no file",
                "write --emit-policy keras=FILE, or ./keras for a file of that name");
  return {value.substr(kKeras.size() + 1), true};
}

std::vector<std::string> kept_rewrites() { return {"division", "gelu", "silu", "hard_swish", "bias"}; }

}  // namespace nacre::tools
