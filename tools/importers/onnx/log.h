// Keeps the log of an ONNX import: refusals, and facts that the graph does not show. Private to tools/importers/onnx.
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

  void add(const std::string& what);  // logs `what` about the current node
  void add(const std::string& place, const std::string& what);
  void note(const std::string& what);  // logs `what` about the current node as a note on training
  // Logs what became of a node. `steps` and `lines` count the graph's nodes and log lines before it was imported.
  void add_node(Scope& scope, const Source& source, size_t steps, size_t lines);
  void add_order(const Nodes& nodes, const NodeList& order, const NodeList& live);
  void add_unread(const Scope& scope);

  void note_refusal(const Error& error);
  std::vector<std::string>& refusals() { return refusals_; }

 private:
  Import& import_;
  Graph& graph_;
  std::vector<std::string> refusals_;
  std::set<std::string> said_, logged_;  // said_: refusals so far; logged_: log lines so far
};

}  // namespace nacre::tools::onnx_import
