// Which method finds the range of which value: CalibrationOptions::overrides, matched.
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
  // Throws Error for a pattern that RE2 cannot take and for one that matches no layer and no input of the graph.
  MethodRules(const Graph& graph, const CalibrationOptions& options);
  ~MethodRules();

  // `name`: of a layer, or of an input of the network.
  RangeMethod method(const std::string& name) const;

 private:
  bool matches(size_t rule, const std::string& name) const;

  const CalibrationOptions& options_;
  std::vector<std::unique_ptr<re2::RE2>> patterns_;
};

}  // namespace nacre::tools
