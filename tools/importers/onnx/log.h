// The log of an ONNX import: refusals, and facts that no step shows (log.cc). Private to tools/importers/onnx.
#pragma once

#include <set>

#include "tools/base/error.h"
#include "tools/importers/onnx/order.h"
#include "tools/importers/onnx/source.h"

namespace nacre::tools::onnx_import {

class Import;

class ImportLog {
 public:
  ImportLog(Import& import, Graph& graph) : import_(import), graph_(graph) {}

  void add(const std::string& what);  // says it of the current node
  void add(const std::string& place, const std::string& what);
  void note(const std::string& what);  // tells the user in any case, about a graph to be trained
  // Notes what became of a node. `steps` and `lines` are their counts before the node.
  void add_node(Scope& scope, const Source& source, size_t steps, size_t lines);
  void add_order(const Nodes& nodes, const NodeList& order, const NodeList& live);
  void add_unread(const Scope& scope);

  void note_refusal(const Error& error);
  std::vector<std::string>& refusals() { return refusals_; }

 private:
  Import& import_;
  Graph& graph_;
  std::vector<std::string> refusals_;
  std::set<std::string> said_, logged_;  // refusals and log lines so far
};

}  // namespace nacre::tools::onnx_import
