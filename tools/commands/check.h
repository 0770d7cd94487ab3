// nacre check: checks a model file without other data: its structure, weights, programs and golden pairs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/model/golden.h"
#include "tools/model/loaded_model.h"
#include "tools/model/program_cost.h"

namespace nacre::tools {

struct CheckOptions {
  std::string model;
  bool json = false;
};

struct GoldenResult {
  uint32_t pair;
  float tolerance;
  Difference difference;
  bool ok() const { return difference.within(tolerance); }
};

// Checks a model: its weights, that every program binds or can be measured, its golden pairs. Throws the first
// refusal; else returns the result of every golden pair.
std::vector<GoldenResult> check_loaded(const LoadedModel& model);
void require_golden(const LoadedModel& model, const std::vector<GoldenResult>& results);

// Writes a model that was just made from `network`, once the model read from these bytes passes all checks above.
void write_checked(const std::string& path, std::span<const uint8_t> bytes, const std::string& network);

void check_model(const CheckOptions& options);

}  // namespace nacre::tools
