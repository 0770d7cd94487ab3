#include "tools/compile/compile.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "tools/base/caller.h"
#include "tools/base/print.h"
#include "tools/calibration/quantize_static.h"
#include "tools/differentiate/integer_policy.h"
#include "tools/passes/plan_memory.h"

namespace nacre::tools {
namespace {

// Under the policies that its file has; its types are then those that the network's input may have.
Graph typed_front_end(const CompileOptions& options) {
  Graph graph = load_network(options.front_end.network);
  resolve_policies(graph, {});
  quantize_static(graph, nullptr);
  apply_policy(graph, {.rounding = options.rounding});
  check(graph);
  return graph;
}

}  // namespace

// The table of contents of the converter. Policies come after simplify, which sees real-valued ops only; fuse comes
// after them, so that clamps and casts melt into steps whose types are known.
std::vector<NamedPass> compile_passes(const CompileOptions& options) {
  std::vector<NamedPass> passes = {
      {"resolve_policies",
       [&](Graph& graph) {
         resolve_policies(graph, options.policies);
         run_full_as_static(graph);
       }},
      {"quantize_static", [&](Graph& graph) { quantize_static(graph, options.calibration); }},
      {"apply_policy",
       [&](Graph& graph) { apply_policy(graph, {.rounding = options.rounding, .io_types = options.io_types}); }},
      {"pad_features",
       [&](Graph& graph) {
         if (options.pad_features) pad_features(graph);
       }},
      {"join_front_end",
       [&](Graph& graph) {
         if (!options.front_end.network.empty()) join_front_end(graph, typed_front_end(options), options.front_end);
       }},
  };
  for (NamedPass& pass : target_passes(options)) passes.push_back(std::move(pass));
  return passes;
}

std::vector<NamedPass> target_passes(const CompileOptions& options) {
  return {
      {"fuse",
       [&](Graph& graph) {
         if (options.fuse) fuse(graph, options.target);
       }},
      {"cut_patches", [&](Graph& graph) { cut_patches(graph, options.patches, options.target); }},
      {"use_convolutions", [&](Graph& graph) { use_convolutions(graph, options.target); }},
      {"pack_weights", [&](Graph& graph) { pack_weights(graph, options.target); }},
      {"schedule", [&](Graph& graph) { schedule(graph, options.target); }},
      {"plan_memory", [&](Graph& graph) { plan_memory(graph, options.target); }},
  };
}

void print_log(const Graph& graph, bool all) {
  for (const std::string& line : graph.log)
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

Graph load_network(const std::string& path, const ImportOptions& importing, const SimplifyOptions& simplifying,
                   const std::function<void(Graph&)>& rewrite) {
  return load_network(read_network(path), path, importing, simplifying, rewrite);
}

Graph load_network(std::span<const uint8_t> bytes, const std::string& path, const ImportOptions& importing,
                   const SimplifyOptions& simplifying, const std::function<void(Graph&)>& rewrite) {
  Graph graph = import_network(bytes, path, importing);
  check(graph);
  if (rewrite) rewrite(graph);
  simplify(graph, simplifying);
  check(graph);
  return graph;
}

bool any_policy(Graph simplified, const PolicyRequest& policies, const std::function<bool(const Policy&)>& is) {
  resolve_policies(simplified, policies);
  return std::ranges::any_of(simplified.layers, [&](const Layer& layer) { return layer.asked && is(layer.policy); });
}

Compiled compile(Graph simplified, const CompileOptions& options) {
  Compiled result{std::move(simplified), {}};
  for (const NamedPass& pass : compile_passes(options)) {
    require_not_interrupted();
    pass.run(result.graph);
    check(result.graph);
  }
  const ProgramSource source = {.graph = &result.graph,
                                .entry = Entry::kInfer,
                                .target = options.target.name,
                                .kernels = kernels_of(options.target)};
  result.bytes = write_model({&source, 1}, {});
  return result;
}

}  // namespace nacre::tools
