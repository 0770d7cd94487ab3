// Logs the changes of the importer that the graph does not show: nodes that were computed at import, left out, put in
// order or split into several nodes, and initializers that nothing reads. Collects the refusals too.
#include <algorithm>

#include "tools/base/unsupported.h"
#include "tools/importers/onnx/import.h"

namespace nacre::tools::onnx_import {

void ImportLog::add(const std::string& place, const std::string& what) {
  std::string line = "import: " + place + ": " + what;
  if (logged_.insert(line).second) graph_.log.push_back(std::move(line));  // a loop logs it once for all turns
}

void ImportLog::add(const std::string& what) { add(import_.current().source->place, what); }

void ImportLog::note(const std::string& what) {
  graph_.log.push_back("training: " + import_.current().source->place + ": " + what);
}

// Logs that a node became several nodes; or, if its importer logged nothing, that it is left out or was computed at
// import. Skips nodes of a Body that an importer made, because the file does not have them.
void ImportLog::add_node(Scope& scope, const Source& source, size_t steps, size_t lines) {
  if (!import_.current().layer_op.empty() || source.proto.op_type() == "Constant") return;
  const auto same = [](const OperandPtr& x, const OperandPtr& y) {
    return x && (x == y || (x->plain != kNone && x->plain == y->plain) ||
                 (x->channels_last != kNone && x->channels_last == y->channels_last) ||
                 (x->constant && x->constant == y->constant));
  };
  bool constant = true;
  OperandPtr passed;
  for (const std::string& name : source.proto.output()) {
    const OperandPtr y = name.empty() ? nullptr : import_.find(scope, name);
    if (!y) continue;
    const auto x = std::ranges::find_if(source.inputs, [&](const OperandPtr& input) { return same(input, y); });
    constant = constant && y->constant && !y->constant->quantizer;
    if (x != source.inputs.end()) passed = *x;
  }
  const size_t made = graph_.nodes.size() - std::min(steps, graph_.nodes.size());
  if (made > 1) return add(source.place, "is " + std::to_string(made) + " steps");
  if (made == 1 || graph_.log.size() > lines) return;
  if (passed) return add(source.place, "is left out: it gives what it reads");
  if (constant) add(source.place, "is computed at import: what it reads is constant");
}

void ImportLog::add_order(const Nodes& nodes, const NodeList& order, const NodeList& live) {
  int moved = 0;
  for (int i = 0; i < nodes.size(); ++i) moved += order[size_t(i)] != &nodes[i];
  if (moved > 0) add(graph_.source, std::to_string(moved) + " nodes stood before what they read: sorted");
  auto next = live.begin();
  for (const ::onnx::NodeProto* node : order) {
    if (next != live.end() && *next == node) ++next;
    else add(Source(*node, 0, nullptr).place, "is left out: no output depends on it");
  }
}

void ImportLog::add_unread(const Scope& scope) {
  std::vector<std::string> unread;
  for (const auto& [name, tensor] : scope.initializers)
    if (!scope.uses.contains(name)) unread.push_back(name);
  std::ranges::sort(unread);
  for (const std::string& name : unread) add(name, "is left out: nothing reads it");
}

// Notes a refusal once, even if a loop or a call repeats it. An error of another kind is thrown again before the first
// refusal. After a refusal it may be a consequence, so it is ignored.
void ImportLog::note_refusal(const Error& error) {
  if (error.code != kUnsupported && refusals_.empty()) throw error;
  const bool added = error.code == kUnsupported && said_.insert(error.what()).second;
  if (added) refusals_.push_back(without_file(error.what(), graph_.source));
}

}  // namespace nacre::tools::onnx_import
