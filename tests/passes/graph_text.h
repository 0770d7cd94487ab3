// Graphs as text, for tests that compare the result of a pass.
#pragma once

#include <sstream>
#include <string>

#include "tools/base/error.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

enum class StepText { kWhole, kWithoutNames };  // the name and the layer come last in a line

// Returns the steps of a graph, one line each.
inline std::string steps(const Graph& graph, StepText form = StepText::kWhole) {
  std::istringstream text(dump(graph));
  std::string line, out;
  while (std::getline(text, line))
    if (line.starts_with('%')) out += line.substr(0, form == StepText::kWhole ? line.npos : line.find(" name=")) + '\n';
  return out;
}

inline const Value& value(const Graph& graph, const std::string& name) {
  for (const Value& v : graph.values)
    if (v.name == name) return v;
  throw Error(kFailed, name, "no such value");
}

}  // namespace nacre::tools
