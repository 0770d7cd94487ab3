// The one way from a network's file to a graph that can be written.
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

// Options of the stages behind kSimplify.
struct CompileOptions {
  PolicyRequest policies = {};
  const Calibration* calibration = nullptr;  // of the simplified graph; null: none was measured
  std::string range_remedy = {};             // of a training that lacks a range; "": that of nacre convert
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
  std::optional<std::span<const uint8_t>> bytes = {};  // as if these were the file
  ImportOptions importing = {};                        // `train`: layers under int8/full stay so for compile_training
  std::vector<std::string> states = {};                // keep_states'
  std::function<void(Graph&)> rewrite = {};            // null: none
  SimplifyOptions simplifying = {};
  std::function<const Calibration*(const Graph&)> measure = {};  // what the resolved policies read; null: nothing
  CompileOptions compiling = {};
};

// Stages [first, last] of a graph that is behind those before; it is checked behind each, and then shown to `after`.
void run_stages(Graph& graph, Job& job, Stage first, Stage last,
                const std::function<void(Stage, const Graph&)>& after = {});

}  // namespace nacre::tools
