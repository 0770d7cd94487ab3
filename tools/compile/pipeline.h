// run_stages() leads from a network's file to a graph that can be written. Training (compile_training) and calibration
// (float_network.h) run passes of their own on the simplified graph.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/calibration/calibrate.h"
#include "tools/compile/stage.h"
#include "tools/importers/importer.h"
#include "tools/passes/front_end.h"
#include "tools/passes/passes.h"
#include "tools/passes/patches/patches.h"
#include "tools/policies/policy_request.h"

namespace nacre::tools {

// Options of the stages after kSimplify.
struct CompileOptions {
  PolicyRequest policies = {};
  const Calibration* calibration = nullptr;  // of the simplified graph; null if there is none
  // The remedy that the error names if int8 training lacks a range. "" stands for the default of StaticOptions.
  std::string range_remedy = {};
  Rounding rounding = Rounding::kDouble;
  IoTypes io_types = IoTypes::kSource;
  bool pad_features = false;
  FrontEndRequest front_end = {};
  bool fuse = true;
  PatchRequest patches = {};
  Target target = {};
};

struct Job {
  std::string network = {};                            // the file's path
  std::optional<std::span<const uint8_t>> bytes = {};  // read in place of the file
  ImportOptions importing = {};                        // `train` keeps int8/full policies, for compile_training
  std::vector<std::string> states = {};                // for keep_states
  std::function<void(Graph&)> rewrite = {};            // may be null
  SimplifyOptions simplifying = {};
  std::function<const Calibration*(const Graph&)> measure = {};  // returns the calibration; may be null
  CompileOptions compiling = {};
};

// Runs stages [first, last]. The graph must be the result of the stages before `first`. After each stage the graph is
// checked and passed to `after`.
void run_stages(Graph& graph, Job& job, Stage first, Stage last,
                const std::function<void(Stage, const Graph&)>& after = {});

}  // namespace nacre::tools
