// Graphs as text, simplified, for the tests of simplify.
#pragma once

#include <algorithm>
#include <string>

#include "tools/graph/graph.h"
#include "tools/passes/passes.h"

namespace nacre::tools::simplified_text {

inline Graph simplified(const std::string& text, const SimplifyOptions& options = {}) {
  Graph g = parse(text);
  check(g);
  simplify(g, options);
  check(g);
  return g;
}

// Returns the simplified graph as text, without its banks and log.
inline std::string after(const std::string& text, const SimplifyOptions& options = {}) {
  Graph g = simplified(text, options);
  g.log.clear();
  std::string out = dump(g);
  out.erase(out.find("bank"), out.find('\n', out.find("bank")) - out.find("bank") + 1);
  return out;
}

inline int count(const Graph& g, Op op) {
  return int(std::count_if(g.nodes.begin(), g.nodes.end(), [op](const Node& n) { return n.op == op; }));
}

}  // namespace nacre::tools::simplified_text
