// pack_weights: makes weights in the layouts that the target's kernels read.
#include <map>
#include <utility>

#include "engine/run/find_entry.h"
#include "tools/graph/layouts.h"
#include "tools/graph/operands.h"
#include "tools/passes/memory/plan_memory.h"

namespace nacre::tools {
namespace {

class Packer {
 public:
  Packer(Graph& graph, KernelSets kernels) : graph_(graph), kernels_(kernels) {}

  void run() {
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : nodes) {
      const std::vector<Layout> wanted = layouts_for(graph_, node, kernels_);
      for (size_t i = 0; i < wanted.size(); ++i)
        if (node.inputs[i] != kNone && wanted[i] != graph_.values[size_t(node.inputs[i])].layout)
          node.inputs[i] = packed(node, node.inputs[i], wanted[i]);
      graph_.nodes.push_back(std::move(node));
    }
  }

 private:
  // Returns the value in that layout. A constant gives a constant. For any other value a step in front of `reader`
  // makes it.
  ValueId packed(const Node& reader, ValueId id, Layout layout) {
    const auto [found, first] = packed_.try_emplace({id, layout}, kNone);
    if (!first) return found->second;
    Value copy = graph_.values[size_t(id)];
    const Value original = copy;
    copy.name += "/" + layout_name(layout);
    copy.layout = layout;
    copy.data = copy.initial = nullptr;
    copy.stored = ElementType::kNone;
    copy.region = Region::kArena;
    copy.trainable = false;
    const ValueId made = found->second = graph_.add(std::move(copy));
    Node pack = make_step(Op::kPack, reader, original.name, {id}, {made});
    if (original.constant()) {
      Value& constant = graph_.values[size_t(made)];
      constant.data = std::make_shared<const std::vector<uint8_t>>(std::move(evaluate(graph_, pack)[0]));
      constant.stored = constant.type;
      constant.region = Region::kWeights;
    } else {
      graph_.nodes.push_back(std::move(pack));
    }
    graph_.log.push_back("pack_weights: " + original.name + " as " + layout_name(layout));
    return made;
  }

  Graph& graph_;
  KernelSets kernels_;
  std::map<std::pair<ValueId, Layout>, ValueId> packed_;
};

}  // namespace

void pack_weights(Graph& graph, const Target& target) { Packer(graph, kernels_of(target)).run(); }

}  // namespace nacre::tools
