// Makes the masters (int32 copies in state) of parameters that train in integers: NUMERICS.md section 16.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

template <class T>
std::shared_ptr<const std::vector<uint8_t>> as_little_endian(const std::vector<T>& x) {
  const auto* first = reinterpret_cast<const uint8_t*>(x.data());
  return std::make_shared<const std::vector<uint8_t>>(first, first + x.size() * sizeof(T));
}

inline Value named_value(const std::string& name, ElementType type, std::vector<int64_t> dims, Region region) {
  Value v;
  v.name = name;
  v.type = type;
  v.dims = std::move(dims);
  v.region = region;
  return v;
}

// Returns whether a node is a matmul with int8 input, weights and output. apply_policy must have run on the graph.
bool runs_in_int8(const Graph& graph, const Node& node);

// Returns whether a step writes the codes of only some channels. The codes are then state.
inline bool writes_shares(const TrainingOptions& options) { return options.share > 0 && options.share < 1; }

// Makes masters in state for weights and biases of the nodes that `trains` accepts. Their codes become outputs of a
// step that rounds the master, or state too (writes_shares). Returns how many bits a master has below its code, by the
// name of the codes. Throws if steps share a constant.
std::map<std::string, int> make_masters(Graph& infer, const std::function<bool(const Node&)>& trains,
                                        const TrainingOptions& options);

}  // namespace nacre::tools
