// Reads graphs that TensorFlow itself has rewritten (tests/peers/tensorflow_rewrite.py), and rewrites them with
// rewrite_mixed.
#pragma once

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "tools/base/error.h"
#include "tools/base/json.h"
#include "tools/passes/rewrite/rewrite.h"

namespace nacre::tools {

struct PeerTally {
  std::string release;
  int graphs = 0, nodes = 0, allow = 0, same_nodes = 0;
  std::string first_difference;
};

// Adds "add 0 -1" as a node that reads node 0 and the network's input. Shapes are left out, because rewrite_mixed
// reads none.
inline void add_peer_node(Graph& graph, const std::string& text, std::vector<ValueId>& written) {
  std::istringstream words(text);
  std::string op;
  words >> op;
  Node node;
  node.op = op == "relu" ? Op::kClamp : find_rule(op.c_str())->op;
  if (op == "relu") {
    set_integer(node, "clamp", 1);
    set_real(node, "high", std::numeric_limits<float>::infinity());
  }
  for (int input = 0; words >> input;)
    node.inputs.push_back(input < 0 ? graph.inputs[0].value : written.at(size_t(input)));
  node.name = "n" + std::to_string(graph.nodes.size());
  node.layer = graph.add_layer({.name = node.name, .source_op = op, .policy = {}});
  Value y;
  y.name = node.name;
  written.push_back(graph.add(std::move(y)));
  node.outputs = {written.back()};
  graph.nodes.push_back(std::move(node));
}

inline Graph peer_graph(const nacre::tools::Json& record) {
  Graph graph;
  Value x;
  x.name = "x";
  graph.inputs.push_back({"x", graph.add(std::move(x)), ""});
  std::vector<ValueId> written;
  for (const nacre::tools::Json& node : record.at("nodes")) add_peer_node(graph, node.get<std::string>(), written);
  for (const nacre::tools::Json& n : record.at("outputs"))
    graph.outputs.push_back({"output" + n.dump(), written.at(n.get<size_t>()), ""});
  return graph;
}

inline RewriteOptions peer_options(const nacre::tools::Json& table, const nacre::tools::Json& record) {
  RewriteOptions options;
  options.type = record.at("type") == "float16" ? ElementType::kFloat16 : ElementType::kBfloat16;
  options.tf2_lists = record.at("lists") == "tf2";
  options.infer_after_allow = table.at("infer_after_allow").get<bool>();
  if (options.tf2_lists) options.edits.allow.remove = {"DepthwiseConv2dNative"};
  for (const RewriteLevel level :
       {RewriteLevel::kTensorCoresOnly, RewriteLevel::kUnsafeForceAll, RewriteLevel::kTreatInferAsDeny})
    if (record.at("level") == name_of(level)) options.level = level;
  return options;
}

inline void compare_with_peer(const nacre::tools::Json& record, const RewriteOptions& options, PeerTally& tally) {
  Graph graph = peer_graph(record);
  const std::string expected = record.at("allow");
  const std::vector<RewriteDecision> decisions = rewrite_mixed(graph, options);
  std::string found;
  for (const RewriteDecision& d : decisions) found += d.paint == Paint::kAllow ? '1' : '0';
  ++tally.graphs;
  tally.nodes += int(expected.size());
  for (size_t n = 0; n < expected.size(); ++n) {
    tally.allow += expected[n] == '1' ? 1 : 0;
    tally.same_nodes += n < found.size() && found[n] == expected[n] ? 1 : 0;
  }
  if (found != expected && tally.first_difference.empty())
    tally.first_difference = rewrite_name(options) + (options.tf2_lists ? " tf2 " : " tf1 ") + name_of(options.level) +
                             " " + record.at("nodes").dump() + " outputs " + record.at("outputs").dump() + ": " +
                             found + ", TensorFlow " + expected;
}

inline PeerTally compare_with_peers(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) throw Error(kIo, file.string(), "cannot be read");
  const nacre::tools::Json table = nacre::tools::Json::parse(stream);
  PeerTally tally;
  tally.release = table.at("tensorflow");
  for (const nacre::tools::Json& record : table.at("cases"))
    for (const nacre::tools::Json& graph : record.at("graphs"))
      compare_with_peer(graph, peer_options(table, record), tally);
  return tally;
}

}  // namespace nacre::tools
