#include "tools/compile/compile.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "tools/base/print.h"

namespace nacre::tools {
void print_log(std::span<const std::string> log, bool all) {
  for (const std::string& line : log)
    if (all || line.starts_with("policy") || line.starts_with("training")) note(line);
}

Json log_json(const std::vector<std::string>& log) {
  std::set<std::string_view> said;
  Json lines = Json::array();
  for (const std::string& line : log) {
    if (!said.insert(line).second) continue;
    const size_t colon = std::min(line.find(": "), line.size());
    lines.push_back({{"pass", line.substr(0, colon)}, {"change", line.substr(std::min(colon + 2, line.size()))}});
  }
  return lines;
}

namespace {

Graph simplified_network(Job job) {
  Graph graph;
  run_stages(graph, job, Stage::kImport, Stage::kSimplify);
  return graph;
}

}  // namespace

Graph load_network(const std::string& path, const ImportOptions& importing, const SimplifyOptions& simplifying,
                   const std::function<void(Graph&)>& rewrite) {
  return simplified_network({.network = path, .importing = importing, .rewrite = rewrite, .simplifying = simplifying});
}

Graph load_network(std::span<const uint8_t> bytes, const std::string& path, const ImportOptions& importing,
                   const SimplifyOptions& simplifying, const std::function<void(Graph&)>& rewrite) {
  return simplified_network(
      {.network = path, .bytes = bytes, .importing = importing, .rewrite = rewrite, .simplifying = simplifying});
}

bool any_policy(const Graph& resolved, const std::function<bool(const Policy&)>& is) {
  return std::ranges::any_of(resolved.layers, [&](const Layer& layer) { return layer.asked && is(layer.policy); });
}

Graph compile_graph(Graph simplified, const CompileOptions& options) {
  Job job = {.network = simplified.source, .compiling = options};
  run_stages(simplified, job, Stage::kResolvePolicies, Stage::kPlanMemory);
  return simplified;
}

std::vector<uint8_t> write_compiled(const Graph& graph, const Target& target) {
  const ProgramSource source = {
      .graph = &graph, .entry = Entry::kInfer, .target = target.name, .kernels = kernels_of(target)};
  return write_model({&source, 1}, {});
}

Compiled compile(Graph simplified, const CompileOptions& options) {
  Compiled result{compile_graph(std::move(simplified), options), {}};
  result.bytes = write_compiled(result.graph, options.target);
  return result;
}

}  // namespace nacre::tools
