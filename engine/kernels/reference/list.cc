// This file is separate from the kernels, because a program that links it links every reference kernel.
#include "engine/kernels/sorted_list.h"

namespace nacre::reference {
namespace {

constexpr OpEntry kListed[] = {
#define NACRE_ENTRY(name, op, ...) {Op::op, {#name, &name}},
#include "engine/kernels/reference/all.inc"
#undef NACRE_ENTRY
};
constexpr auto kList = sorted(kListed);
constexpr KernelSet kKernels = {"reference", kList.entries};

}  // namespace

const KernelSet& kernels() { return kKernels; }
std::span<const NamedEntry> list() { return kList.named; }

}  // namespace nacre::reference
