// The converter as a function: a network's file, a policy, the bytes of a model. What `nacre convert` and `nacre
// search` run.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tools/base/json.h"
#include "tools/calibration/calibrate.h"
#include "tools/importers/importer.h"
#include "tools/model/writer.h"
#include "tools/passes/front_end.h"
#include "tools/passes/passes.h"
#include "tools/passes/patches.h"
#include "tools/passes/rewrite.h"
#include "tools/policies/policy_request.h"

namespace nacre::tools {

struct CompileOptions {
  PolicyRequest policies;
  const Calibration* calibration = nullptr;  // of the simplified graph; null: none was measured
  std::string range_remedy = {};             // of a training that lacks a range; "": that of nacre convert
  Rounding rounding = Rounding::kDouble;
  IoTypes io_types = IoTypes::kSource;
  bool pad_features = false;
  FrontEndRequest front_end;
  bool fuse = true;
  PatchRequest patches;
  Target target;
};

struct NamedPass {
  const char* name;
  std::function<void(Graph&)> run;
};

// What follows simplify, in order. The options must outlive the passes.
std::vector<NamedPass> compile_passes(const CompileOptions& options);
// Of these the last, which depend on the target: of a network for several, they run once for each.
std::vector<NamedPass> target_passes(const CompileOptions& options);

// The log of the passes on standard error: what came of the user's rules, and what training makes of a file that can be
// read in two ways, in any case; all of it where it is asked for.
void print_log(const Graph& graph, bool all);
// The same for machines: {"pass": "simplify", "change": "folded bn1 (batch_norm) into conv1 (conv2d)"}, each line once.
Json log_json(const std::vector<std::string>& log);

// The network's graph with real-valued ops, simplified: what calibration measures and policies are applied to.
// `rewrite`: what is done with it as it was imported; null: nothing.
Graph load_network(const std::string& path, const ImportOptions& importing = {},
                   const SimplifyOptions& simplifying = {}, const std::function<void(Graph&)>& rewrite = {});
// The same as if these bytes were the file.
Graph load_network(std::span<const uint8_t> bytes, const std::string& path, const ImportOptions& importing,
                   const SimplifyOptions& simplifying, const std::function<void(Graph&)>& rewrite = {});

// Whether a layer that these policies, or the graph itself, give a policy has one for which `is` holds.
bool any_policy(Graph simplified, const PolicyRequest& policies, const std::function<bool(const Policy&)>& is);

struct Compiled {
  Graph graph;                 // after the last pass: its log, its fallbacks
  std::vector<uint8_t> bytes;  // a model of one program, `infer`, without metadata but what the passes leave
};
Compiled compile(Graph simplified, const CompileOptions& options);

}  // namespace nacre::tools
