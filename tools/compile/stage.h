// Stage lists the stages, in order, from a network's file to a graph that can be written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nacre::tools {

enum class Stage : uint8_t {
  kImport,
  kKeepStates,
  kRewrite,
  kSimplify,
  kResolvePolicies,
  kCalibrate,
  kQuantizeStatic,
  kApplyPolicy,
  kPadFeatures,
  kJoinFrontEnd,
  kFuse,  // the first stage that depends on the target
  kCutPatches,
  kUseConvolutions,
  kPackWeights,
  kSchedule,
  kPlanMemory
};

const char* name_of(Stage stage);  // "keep_states"
std::vector<std::string> stage_names();
std::optional<Stage> stage_named(std::string_view name);

}  // namespace nacre::tools
