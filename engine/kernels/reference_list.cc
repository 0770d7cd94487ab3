// Apart from reference.cc: whoever links this file links every reference kernel.
#include "engine/kernels/reference.h"

namespace nacre::reference {
namespace {

constexpr NamedEntry kList[] = {
#define NACRE_ENTRY(name, ...) {#name, &name},
#include "engine/kernels/reference.inc"
};

constexpr const KernelEntry* kEntries[] = {
#define NACRE_ENTRY(name, ...) &name,
#include "engine/kernels/reference.inc"
};

constexpr KernelSet kKernels = {"reference", kEntries};

}  // namespace

const KernelSet& kernels() { return kKernels; }
std::span<const NamedEntry> list() { return kList; }

}  // namespace nacre::reference
