// The log of what the importer changed that no step tells of: nodes that were computed, left out or put in order, and
// those of which one became several steps.
#include <algorithm>

#include "tools/importers/onnx/import.h"

namespace nacre::tools::onnx_import {

void Import::log(const std::string& place, const std::string& what) {
  std::string line = "import: " + place + ": " + what;
  if (logged_.insert(line).second) graph_.log.push_back(std::move(line));  // once for all turns of a loop
}

void Import::log(const std::string& what) { log(source_->place, what); }

void Import::note(const std::string& what) { graph_.log.push_back("training: " + source_->place + ": " + what); }

// `steps`, `lines`: how many there were before the node: what its importer said is enough. Nodes of a body that an
// importer made tell nothing of the file, and codes that only got their scale are what they were.
void Import::log_node(Scope& scope, const Source& source, size_t steps, size_t lines) {
  if (!layer_op_.empty() || source.proto.op_type() == "Constant") return;
  const auto same = [](const OperandPtr& x, const OperandPtr& y) {
    return x && (x == y || (x->plain != kNone && x->plain == y->plain) ||
                 (x->channels_last != kNone && x->channels_last == y->channels_last) ||
                 (x->constant && x->constant == y->constant));
  };
  bool constant = true;
  OperandPtr passed;
  for (const std::string& name : source.proto.output()) {
    const OperandPtr y = name.empty() ? nullptr : find(scope, name);
    if (!y) continue;
    const auto x = std::ranges::find_if(source.inputs, [&](const OperandPtr& input) { return same(input, y); });
    constant = constant && y->constant && !y->constant->quantizer;
    if (x != source.inputs.end()) passed = *x;
  }
  const size_t made = graph_.nodes.size() - std::min(steps, graph_.nodes.size());
  if (made > 1) return log(source.place, "is " + std::to_string(made) + " steps");
  if (made == 1 || graph_.log.size() > lines) return;
  if (passed) return log(source.place, "is left out: it gives what it reads");
  if (constant) log(source.place, "is computed at import: what it reads is constant");
}

void Import::log_order(const Nodes& nodes, const NodeList& order, const NodeList& live) {
  int moved = 0;
  for (int i = 0; i < nodes.size(); ++i) moved += order[size_t(i)] != &nodes[i];
  if (moved > 0) log(graph_.source, std::to_string(moved) + " nodes stood before what they read: sorted");
  auto next = live.begin();
  for (const ::onnx::NodeProto* node : order) {
    if (next != live.end() && *next == node) ++next;
    else log(Source(*node, 0, nullptr).place, "is left out: no output depends on it");
  }
}

void Import::log_unread(const Scope& scope) {
  std::vector<std::string> unread;
  for (const auto& [name, tensor] : scope.initializers)
    if (!scope.uses.contains(name)) unread.push_back(name);
  std::ranges::sort(unread);
  for (const std::string& name : unread) log(name, "is left out: nothing reads it");
}

}  // namespace nacre::tools::onnx_import
