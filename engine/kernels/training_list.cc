// Apart from the kernels: whoever links this file links every training kernel.
#include "engine/kernels/training.h"

namespace nacre::reference {
namespace {

constexpr NamedEntry kList[] = {
#define NACRE_ENTRY(name, ...) {#name, &name},
#include "engine/kernels/training.inc"
};

constexpr const KernelEntry* kEntries[] = {
#define NACRE_ENTRY(name, ...) &name,
#include "engine/kernels/training.inc"
};

constexpr KernelSet kKernels = {"training", kEntries};

}  // namespace

const KernelSet& training_kernels() { return kKernels; }
std::span<const NamedEntry> training_list() { return kList; }

}  // namespace nacre::reference
