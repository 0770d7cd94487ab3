#include "tools/compile/stage.h"

#include <algorithm>
#include <iterator>

namespace nacre::tools {
namespace {

constexpr const char* kNames[] = {
    "import",     "keep_states",     "rewrite",          "simplify",     "resolve_policies",
    "calibrate",  "quantize_static", "apply_policy",     "pad_features", "join_front_end",
    "fuse",       "cut_patches",     "use_convolutions", "pack_weights", "schedule",
    "plan_memory"};
static_assert(std::size(kNames) == size_t(Stage::kPlanMemory) + 1);

}  // namespace

const char* name_of(Stage stage) { return kNames[int(stage)]; }

std::vector<std::string> stage_names() { return {std::begin(kNames), std::end(kNames)}; }

std::optional<Stage> stage_named(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == std::end(kNames)) return {};
  return Stage(found - std::begin(kNames));
}

}  // namespace nacre::tools
