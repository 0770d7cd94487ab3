// This file is separate from the kernels, because a program that links it links every training kernel.
#include "engine/kernels/sorted_list.h"
#include "engine/kernels/training.h"

namespace nacre::reference {
namespace {

constexpr OpEntry kListed[] = {
#define NACRE_ENTRY(name, op, ...) {Op::op, {#name, &name}},
#include "engine/kernels/training/all.inc"
#undef NACRE_ENTRY
};
constexpr auto kList = sorted(kListed);
constexpr KernelSet kKernels = {"training", kList.entries};

}  // namespace

const KernelSet& training_kernels() { return kKernels; }
std::span<const NamedEntry> training_list() { return kList.named; }

}  // namespace nacre::reference
