// MethodRules finds which method makes the range of a value: it matches CalibrationOptions::overrides.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/calibration/calibrate.h"

namespace re2 {
class RE2;
}

namespace nacre::tools {

class MethodRules {
 public:
  // Throws Error if a pattern that is no exact name is not valid RE2, or matches no layer and no input of the graph.
  MethodRules(const Graph& graph, const CalibrationOptions& options);
  ~MethodRules();

  // Returns the method for the layer or input of this name. Throws if two patterns with different methods match it.
  RangeMethod method(const std::string& name) const;

 private:
  bool matches(size_t rule, const std::string& name) const;

  const CalibrationOptions& options_;
  std::vector<std::unique_ptr<re2::RE2>> patterns_;
};

}  // namespace nacre::tools
