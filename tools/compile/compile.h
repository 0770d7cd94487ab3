// The converter as functions: a network's file and policies go in, the bytes of a model come out. `nacre convert`,
// `nacre search` and other commands call them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tools/base/json.h"
#include "tools/compile/pipeline.h"
#include "tools/model/writer.h"
#include "tools/passes/rewrite/rewrite.h"

namespace nacre::tools {

// The log of the passes on standard error: what came of the user's rules, and what training makes of a file that can be
// read in two ways, in any case; all of it where it is asked for.
void print_log(std::span<const std::string> log, bool all);
// The log as JSON: {"pass": "simplify", "change": "folded bn1 (batch_norm) into conv1 (conv2d)"}, each line once.
Json log_json(const std::vector<std::string>& log);

// The network's graph with real-valued ops, simplified: what calibration measures and policies are applied to.
// `rewrite`: what is done with it as it was imported; null: nothing.
Graph load_network(const std::string& path, const ImportOptions& importing = {},
                   const SimplifyOptions& simplifying = {}, const std::function<void(Graph&)>& rewrite = {});
// Loads the network from `bytes` as if they were the file; `path` names it.
Graph load_network(std::span<const uint8_t> bytes, const std::string& path, const ImportOptions& importing,
                   const SimplifyOptions& simplifying, const std::function<void(Graph&)>& rewrite = {});

// Whether a layer that was given a policy has one for which `is` holds. `resolved`: resolve_policies has run.
bool any_policy(const Graph& resolved, const std::function<bool(const Policy&)>& is);

struct Compiled {
  Graph graph;                 // after the last pass: its log, its fallbacks
  std::vector<uint8_t> bytes;  // a model of one program, `infer`, without metadata but what the passes leave
};
// `simplified`: its policies may be resolved already.
Compiled compile(Graph simplified, const CompileOptions& options);
// In two steps, for those who add to the graph's metadata what came of the stages.
Graph compile_graph(Graph simplified, const CompileOptions& options);
std::vector<uint8_t> write_compiled(const Graph& graph, const Target& target);

}  // namespace nacre::tools
