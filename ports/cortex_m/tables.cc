// The tables are apart from the kernels, because a program that links this file links all kernels.
#include "engine/kernels/sorted_list.h"
#include "ports/cortex_m/cortex_m.h"

namespace nacre::cortex_m {
namespace {

using reference::OpEntry;

constexpr OpEntry kListed[] = {
#define NACRE_ENTRY(name, op, ...) {Op::op, {#name, &name}},
#include "ports/cortex_m/kernels.inc"
#undef NACRE_ENTRY
};
constexpr auto kList = reference::sorted(kListed);
constexpr KernelSet kKernels = {"cortex_m", kList.entries};

constexpr Port port(const char* target) {
  return {.name = target,
          .set = &kKernels,
          .context = nullptr,
          .begin = nullptr,
          .finish = nullptr,
          .copy = nullptr,
          .fill = nullptr};
}
constexpr Port kPorts[] = {port("arm/m0plus"), port("arm/m3"),  port("arm/m4"),         port("arm/m7"),
                           port("arm/m33"),    port("arm/m55"), port("riscv/rv32imac"), port("riscv/rv32imafc")};

}  // namespace

const KernelSet& kernels() { return kKernels; }
std::span<const reference::NamedEntry> list() { return kList.named; }
std::span<const Port> ports() { return kPorts; }

}  // namespace nacre::cortex_m
