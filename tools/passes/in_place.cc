#include "tools/graph/operands.h"
#include "tools/passes/plan_memory.h"

namespace nacre::tools {

uint32_t in_place_inputs(const Graph& graph, const Node& node) {
  const KernelEntry* entry = find_kernel(graph, node);
  return entry == nullptr ? 0 : entry->in_place;
}

}  // namespace nacre::tools
