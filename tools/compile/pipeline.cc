#include "tools/compile/pipeline.h"

#include "tools/base/caller.h"
#include "tools/calibration/quantize_static.h"
#include "tools/differentiate/integer/policy.h"
#include "tools/passes/memory/plan_memory.h"

namespace nacre::tools {
namespace {

// Runs the stages from import to apply_policy on the front end's file, without any policy of the user.
Graph typed_front_end(const CompileOptions& options) {
  Graph graph;
  Job job = {.network = options.front_end.network, .compiling = {.rounding = options.rounding}};
  run_stages(graph, job, Stage::kImport, Stage::kApplyPolicy);
  return graph;
}

// Runs one stage. Policies follow simplify, which handles real-valued ops only. fuse follows policies, because it
// fuses clamps and casts into steps whose types are known.
void run_stage(Stage stage, Graph& graph, Job& job) {
  CompileOptions& options = job.compiling;
  switch (stage) {
    case Stage::kImport:
      graph = job.bytes ? import_network(*job.bytes, job.network, job.importing)
                        : import_network(job.network, job.importing);
      return;
    case Stage::kKeepStates: return keep_states(graph, job.states);
    case Stage::kRewrite:
      if (job.rewrite) job.rewrite(graph);
      return;
    case Stage::kSimplify: return simplify(graph, job.simplifying);
    case Stage::kResolvePolicies:
      resolve_policies(graph, options.policies);
      if (!job.importing.train) run_full_as_static(graph);
      return;
    case Stage::kCalibrate:
      if (job.measure) options.calibration = job.measure(graph);
      return;
    case Stage::kQuantizeStatic: return quantize_static(graph, options.calibration);
    case Stage::kApplyPolicy: return apply_policy(graph, {.rounding = options.rounding, .io_types = options.io_types});
    case Stage::kPadFeatures:
      if (options.pad_features) pad_features(graph);
      return;
    case Stage::kJoinFrontEnd:
      if (!options.front_end.network.empty()) join_front_end(graph, typed_front_end(options), options.front_end);
      return;
    case Stage::kFuse:
      if (options.fuse) fuse(graph, options.target);
      return;
    case Stage::kCutPatches: return cut_patches(graph, options.patches, options.target);
    case Stage::kUseConvolutions: return use_convolutions(graph, options.target);
    case Stage::kPackWeights: return pack_weights(graph, options.target);
    case Stage::kSchedule: return schedule(graph, options.target);
    case Stage::kPlanMemory: plan_memory(graph, options.target); return;
  }
}

}  // namespace

void run_stages(Graph& graph, Job& job, Stage first, Stage last,
                const std::function<void(Stage, const Graph&)>& after) {
  for (int i = int(first); i <= int(last); ++i) {
    require_not_interrupted();
    run_stage(Stage(i), graph, job);
    check(graph);
    if (after) after(Stage(i), graph);
  }
}

}  // namespace nacre::tools
