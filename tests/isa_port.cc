#include "tests/isa_port.h"

#include "engine/kernels/define_entries.h"
#include "engine/kernels/sorted_list.h"
#include "engine/ops/all.h"

namespace nacre::inline NACRE_ISA {
namespace entries {

using reference::Bf16, reference::F16, reference::F32, reference::F64, reference::I16, reference::I32, reference::I64,
    reference::I8, reference::U8;
#include "engine/kernels/reference/matmul.inc"
#include "engine/kernels/reference/pointwise.inc"

constexpr reference::OpEntry kListed[] = {
#undef NACRE_ENTRY
#define NACRE_ENTRY(name, op, ...) {Op::op, {#name, &name}},
#include "engine/kernels/reference/matmul.inc"
#include "engine/kernels/reference/pointwise.inc"
};
constexpr auto kList = reference::sorted(kListed);
constexpr KernelSet kKernels = {"isa_test", kList.entries};

}  // namespace entries
}  // namespace nacre::inline NACRE_ISA

namespace nacre::test {

const KernelSet& isa_kernels() { return entries::kKernels; }

bool isa_runs_here() {
#if defined(__AVX2__)
  return __builtin_cpu_supports("avx2");
#else
  return true;
#endif
}

}  // namespace nacre::test
