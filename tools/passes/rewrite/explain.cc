// Makes the text and the JSON of --explain from the decisions of the rewrite.
#include <map>

#include "tools/base/table.h"
#include "tools/passes/rewrite/rewrite.h"

namespace nacre::tools {
namespace {

// Returns "ALLOW: on the allow list", "not painted: infer, no allow op before it", and the like.
std::string sentence(const RewriteDecision& d) {
  return (d.paint == Paint::kUnpainted ? "not painted" : name_of(d.paint)) + std::string(": ") + d.reason;
}

Json node_json(const RewriteDecision& d) {
  return {{"layer", d.layer},
          {"node", d.node},
          {"op", d.op},
          {"tensorflow_op", d.tensorflow_op},
          {"list", d.list == RewriteList::kUnlisted ? Json() : Json(name_of(d.list))},
          {"paint", d.paint == Paint::kUnpainted ? Json() : Json(name_of(d.paint))},
          {"step", d.step == 0 ? Json() : Json(d.step)},
          {"reason", sentence(d)},
          {"runs_as", d.runs_as},
          {"decides", d.decides}};
}

}  // namespace

std::string explain_text(const Graph& graph, const RewriteOptions& options,
                         const std::vector<RewriteDecision>& decisions, size_t width) {
  Table table({{"node", Align::kLeft, 20},
               {"TensorFlow's op", Align::kLeft},
               {"list", Align::kLeft},
               {"runs as", Align::kLeft},
               {"step", Align::kRight},
               {"paint and reason", Align::kLeft}});
  for (const RewriteDecision& d : decisions)
    table.add(
        {d.node, d.tensorflow_op, name_of(d.list), d.runs_as, d.step == 0 ? "-" : std::to_string(d.step), sentence(d)});
  return table.text(width) + rewrite_summary(graph, options, decisions) + "\n";
}

Json explain_json(const Graph& graph, const RewriteOptions& options, const std::vector<RewriteDecision>& decisions) {
  Json nodes = Json::array();
  std::map<std::string, int> counts = {{"ALLOW", 0}, {"DENY", 0}, {"-", 0}};
  for (const RewriteDecision& d : decisions) {
    nodes.push_back(node_json(d));
    ++counts[name_of(d.paint)];
  }
  return {{"rewrite", rewrite_name(options)},
          {"lists", options.tf2_lists ? "tf2" : "tf1"},
          {"level", options.level == RewriteLevel::kStandard ? Json() : Json(name_of(options.level))},
          {"allow", counts["ALLOW"]},
          {"deny", counts["DENY"]},
          {"not_painted", counts["-"]},
          {"summary", rewrite_summary(graph, options, decisions)},
          {"nodes", nodes}};
}

}  // namespace nacre::tools
