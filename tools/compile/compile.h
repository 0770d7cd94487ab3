// The converter as functions, which turn a network's file and policies into the bytes of a model. `nacre convert`,
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

// Writes the passes' log to standard error: only the lines that begin with "policy" or "training", or with `all` every
// line.
void print_log(std::span<const std::string> log, bool all);
// Returns the log as a JSON array of objects such as {"pass": "simplify", "change": "folded bn1 into conv1"}. Equal
// lines become one.
Json log_json(const std::vector<std::string>& log);

// Loads the network as a simplified graph with real-valued ops, which calibration measures and policies apply to.
// `rewrite` changes the graph right after import. It may be null.
Graph load_network(const std::string& path, const ImportOptions& importing = {},
                   const SimplifyOptions& simplifying = {}, const std::function<void(Graph&)>& rewrite = {});
// Loads the network from `bytes` as if they were the file; `path` names it.
Graph load_network(std::span<const uint8_t> bytes, const std::string& path, const ImportOptions& importing,
                   const SimplifyOptions& simplifying, const std::function<void(Graph&)>& rewrite = {});

// Returns whether `is` holds for the policy of any layer for which a policy was asked. resolve_policies must have run
// on `resolved`.
bool any_policy(const Graph& resolved, const std::function<bool(const Policy&)>& is);

struct Compiled {
  Graph graph;                 // after the last pass, with its log and its fallbacks
  std::vector<uint8_t> bytes;  // a model of one program, `infer`, with the graph's metadata
};
// Compiles a simplified graph, whose policies may be resolved already.
Compiled compile(Graph simplified, const CompileOptions& options);
// These are the two halves of compile(). Between them a caller can add results of the stages to the graph's metadata.
Graph compile_graph(Graph simplified, const CompileOptions& options);
std::vector<uint8_t> write_compiled(const Graph& graph, const Target& target);

}  // namespace nacre::tools
