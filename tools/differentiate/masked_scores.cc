#include "tools/differentiate/masked_scores.h"

#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "tools/calibration/softmax_masks.h"

namespace nacre::tools {

ValueId add_unmasked(Graph& graph, const Node& near, ValueId x) {
  const Value scores = graph.values[size_t(x)];
  const auto append = [&](Op op, const char* suffix, std::vector<ValueId> inputs, int64_t width) -> Node& {
    Value v;
    v.name = scores.name + suffix;
    v.dims = scores.dims;
    v.dims.back() = width;
    v.batched = scores.batched;
    const std::string name = v.name;
    const ValueId y = graph.add(std::move(v));
    graph.nodes.push_back(make_step(op, near, name, std::move(inputs), {y}));
    return graph.nodes.back();
  };
  const int64_t width = scores.dims.back();
  Node& peak = append(Op::kReduce, "/peak", {x}, 1);
  set_integer(peak, "function", int(Reduce::kMax));
  set_integer(peak, "axes", 1 << (scores.dims.size() - 1));
  set_integer(peak, "keep_dims", 1);
  const ValueId highest = peak.outputs[0];
  const ValueId depth =
      graph.constant(scores.name + "/depth", {1}, std::vector<float>{float(-mask_depth(double(width)))});
  const ValueId lowest = append(Op::kAdd, "/lowest", {highest, depth}, 1).outputs[0];
  Node& unmasked = append(Op::kBinary, "/unmasked", {x, lowest}, width);
  set_integer(unmasked, "function", int(Binary::kMaximum));
  return unmasked.outputs[0];
}

}  // namespace nacre::tools
