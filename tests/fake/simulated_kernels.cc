#include "tests/fake/simulated_kernels.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine/kernels/training.h"
#include "tests/fake/simulated_threads.h"

namespace nacre::reference {

#define NACRE_ENTRY(name, ...) extern const cuda::SimulatedKernel simulated_##name;
#include "engine/kernels/reference/all.inc"
#include "engine/kernels/training/all.inc"
#include "ports/cuda/product_kernels.inc"
#include "ports/cuda/sum_kernels.inc"
#include "ports/cuda/turned_kernels.inc"

}  // namespace nacre::reference

namespace nacre::fake {

thread_local SimulatedThread simulated_thread = {0, 1};

namespace {

struct NamedKernel {
  const char* name;
  const cuda::SimulatedKernel* kernel;
};

constexpr NamedKernel kKernels[] = {
#undef NACRE_ENTRY
#define NACRE_ENTRY(name, ...) {"nacre_" #name, &reference::simulated_##name},
#include "engine/kernels/reference/all.inc"
#include "engine/kernels/training/all.inc"
#include "ports/cuda/product_kernels.inc"
#include "ports/cuda/sum_kernels.inc"
};

constexpr NamedKernel kOfMany[] = {
#undef NACRE_ENTRY
#define NACRE_ENTRY(name, ...) {"nacre_" #name "Many", &reference::simulated_##name},
#include "ports/cuda/many_entries.inc"
#include "ports/cuda/turned_kernels.inc"
#undef NACRE_ENTRY
};

}  // namespace

const cuda::SimulatedKernel* simulated_kernel(const char* name) {
  const auto found =
      std::ranges::find_if(kKernels, [&](const NamedKernel& k) { return std::strcmp(k.name, name) == 0; });
  return found == std::end(kKernels) ? nullptr : found->kernel;
}

const cuda::SimulatedKernel* simulated_kernel_of_many(const std::string& name) {
  const auto found = std::ranges::find_if(kOfMany, [&](const NamedKernel& k) { return name == k.name; });
  return found == std::end(kOfMany) ? nullptr : found->kernel;
}

uint32_t run_threads(const cuda::SimulatedKernel& kernel, const void* image, uint32_t most, Simulation& simulation) {
  const uint32_t count = std::min(most, 1 + simulation.random() % simulation.most_threads);
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (uint32_t i = count; i > 1; --i) std::swap(order[i - 1], order[simulation.random() % i]);
  for (const uint32_t index : order) {
    if (simulation.first_thread_alone && index != 0) continue;
    simulated_thread = {index, count};
    kernel.run(image);
  }
  simulated_thread = {0, 1};
  return count;
}

uint32_t Simulation::random() {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return uint32_t(seed >> 33);
}

// ---- Single steps ----

namespace {

constexpr size_t kMostKernels = 1024;
static_assert(std::size(kKernels) <= kMostKernels);
Simulation simulation_of_steps;

template <size_t kIndex>
Code run_step(const Args& args) {
  cuda::StepImage<cuda::kMostOperands> image;
  uint32_t failure = 0;
  cuda::write_image(args, cuda::kMostOperands, &failure, &image.head);
  run_threads(*kKernels[kIndex].kernel, &image, ~0u, simulation_of_steps);
  return Code(failure);
}

struct Steps {
  std::vector<KernelEntry> entries;
  std::vector<const KernelEntry*> list;
  KernelSet set;

  template <size_t... kIndex>
  explicit Steps(std::index_sequence<kIndex...>) {
    const Kernel run[] = {run_step<kIndex>...};
    for (const auto& named : {reference::list(), reference::training_list()})
      for (const auto& [name, entry] : named) {
        const std::string symbol = std::string("nacre_") + name;
        const auto is = [&](const NamedKernel& kernel) { return symbol == kernel.name; };
        entries.push_back(*entry);
        entries.back().run = run[std::ranges::find_if(kKernels, is) - kKernels];
      }
    std::ranges::stable_sort(entries, {}, &KernelEntry::op);
    for (const KernelEntry& entry : entries) list.push_back(&entry);
    set = {"simulated", list};
  }
};

}  // namespace

const KernelSet& simulated_kernels(const Simulation& simulation) {
  static const Steps steps(std::make_index_sequence<std::size(kKernels)>{});
  simulation_of_steps = simulation;
  return steps.set;
}

}  // namespace nacre::fake
