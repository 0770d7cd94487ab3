// Counts the calls of a Functional model, and finds the order in which Keras runs them. Keras orders by depth: the
// largest number of calls between a call and the outputs (keras/src/ops/function.py: map_graph, _run_through_graph;
// 3.15). The order matters if a call changes what another one reads: MultiHeadAttention takes the masks of its
// operands. Models without it, and those of Keras 2, keep the order of their file.
#include <algorithm>
#include <map>

#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {
namespace {

// For each call the calls that it reads, in the order of its arguments.
using Reads = std::vector<std::vector<size_t>>;

bool has_heads(const Json& json) {
  if (json.is_string()) return json.text() == "MultiHeadAttention";
  if (json.is_array() || json.is_object())
    for (const Json& each : json)
      if (has_heads(each)) return true;
  return false;
}

// Returns the calls that the roots need, each after the calls that it reads, in the order of a depth-first search.
std::vector<size_t> needed(const Reads& reads, const std::vector<size_t>& roots) {
  std::vector<size_t> order;
  std::vector<bool> seen(reads.size(), false);
  std::vector<std::pair<size_t, size_t>> open;  // a call, and how many of its reads were visited
  const auto begin = [&](size_t call) {
    if (seen[call]) return;
    seen[call] = true;
    open.emplace_back(call, 0);
  };
  for (const size_t root : roots) {
    begin(root);
    while (!open.empty()) {
      auto& [call, next] = open.back();
      if (next < reads[call].size()) {
        begin(reads[call][next++]);
      } else {
        order.push_back(call);
        open.pop_back();
      }
    }
  }
  return order;
}

}  // namespace

// Numbers the calls as the file does, and returns the outputs by these numbers. Keras 3 counts calls of a nested
// Functional model from 1 in its list of outputs, and from 0 elsewhere (functional.py: get_tensor, serialize_node).
// Other models count from 1 if the number after the last call is read.
std::vector<Reference> Importer::number_calls(std::vector<Entry>& all, const Json& of_model) const {
  std::vector<Reference> outputs = references(of_model);
  std::set<std::string> from_one;
  for (const Entry& entry : all)
    if (!keras2() && entry.class_name != "Sequential" && entry.config.is_object() &&
        entry.config.contains("input_layers"))
      from_one.insert(entry.name);
  for (Reference& of : outputs)
    if (of.node > 0 && from_one.contains(of.layer)) of.node -= 1;
  std::set<Reference> reads;
  for (const Reference& of : outputs) reads.insert({of.layer, of.node, 0});
  for (const Entry& entry : all)
    for (const Json& node : entry.nodes) add_reads(node, reads);
  for (Entry& entry : all)
    if (is_model(entry.class_name, entry.config) && reads.contains({entry.name, int64_t(entry.nodes.size()), 0}))
      entry.first = 1;
  return outputs;
}

void Importer::order_calls(std::vector<Waiting>& waiting, const std::vector<Reference>& outputs,
                           const Json& config) const {
  if (keras2() || !has_heads(config)) return;
  std::map<Reference, size_t> places;
  for (size_t k = 0; k < waiting.size(); ++k)
    places[{waiting[k].entry->name, waiting[k].entry->first + int64_t(waiting[k].node), 0}] = k;
  const auto places_of = [&](const std::vector<Reference>& references) {
    std::vector<size_t> found;
    for (const Reference& of : references)
      if (const auto place = places.find({of.layer, of.node, 0}); place != places.end()) found.push_back(place->second);
    return found;
  };
  Reads reads;
  for (const Waiting& call : waiting) reads.push_back(places_of(references(call.entry->nodes[call.node])));

  std::vector<size_t> order;  // in the order in which their depths are first asked for
  std::vector<bool> met(waiting.size(), false);
  std::vector<int64_t> depths(waiting.size(), 0);
  std::map<const Entry*, int64_t> layers;  // largest depth of a layer's calls so far
  const auto meet = [&](size_t call) {
    if (!met[call]) order.push_back(call);
    met[call] = true;
  };
  std::vector<size_t> all = needed(reads, places_of(outputs));
  std::reverse(all.begin(), all.end());
  for (const size_t call : all) {
    meet(call);
    int64_t& most = layers[waiting[call].entry];
    depths[call] = most = std::max(most, depths[call]);
    for (const size_t read : reads[call]) {
      meet(read);
      depths[read] = std::max(depths[read], depths[call] + 1);
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return depths[a] > depths[b]; });
  for (size_t k = 0; k < waiting.size(); ++k) meet(k);  // calls that no output needs, which Keras does not run
  std::vector<Waiting> sorted;
  for (const size_t call : order) sorted.push_back(waiting[call]);
  waiting = std::move(sorted);
}

}  // namespace nacre::tools::keras
