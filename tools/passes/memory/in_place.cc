#include "tools/passes/memory/plan_memory.h"

namespace nacre::tools {

uint32_t in_place_inputs(const Graph& graph, const Node& node, KernelSets kernels) {
  const KernelEntry* entry = find_kernel(graph, node, kernels);
  return entry == nullptr ? 0 : entry->in_place;
}

KernelSets kernels_of(const Target& target) {
  return target.kernels.empty() ? reference_sets() : KernelSets(target.kernels);
}

}  // namespace nacre::tools
