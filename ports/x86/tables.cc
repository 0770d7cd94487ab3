// What the kernels of each tier take, in plain C++: every machine can ask what a model for one of them needs.
#include "engine/kernels/fast_depthwise.h"
#include "engine/kernels/fast_entry.h"
#include "engine/kernels/fast_gradient.h"
#include "engine/kernels/fast_layer_gradient.h"
#include "engine/kernels/fast_matmul.h"
#include "engine/kernels/fast_optimizer.h"
#include "engine/kernels/fast_pointwise.h"
#include "engine/kernels/fast_reduction.h"
#include "engine/kernels/fast_row_major.h"
#include "engine/kernels/fast_window_gradient.h"
#include "engine/kernels/sorted_list.h"
#include "ports/x86/x86.h"

namespace nacre::x86 {
namespace tier_of {

#define NACRE_RUNS
#define NACRE_GROUP 1
namespace portable_tier {
#define NACRE_LANES 4
#define NACRE_OFFSET 0
#include "engine/kernels/fast_entries.inc"
#undef NACRE_LANES
#undef NACRE_OFFSET
}  // namespace portable_tier

#ifndef __x86_64__
#undef NACRE_RUNS
#endif

namespace avx2 {
#define NACRE_LANES 8
#define NACRE_OFFSET 0
#include "engine/kernels/fast_entries.inc"
#undef NACRE_OFFSET
}  // namespace avx2
namespace avx2_vnni {
#define NACRE_OFFSET 128
#include "engine/kernels/fast_entries.inc"
#undef NACRE_LANES
#undef NACRE_OFFSET
}  // namespace avx2_vnni
namespace avx512 {
#define NACRE_LANES 16
#define NACRE_OFFSET 0
#include "engine/kernels/fast_entries.inc"
#undef NACRE_OFFSET
}  // namespace avx512
namespace avx512_vnni {
#define NACRE_OFFSET 128
#include "engine/kernels/fast_entries.inc"
}  // namespace avx512_vnni
#undef NACRE_GROUP
#define NACRE_GROUP 2
#define NACRE_BASE avx512_vnni
namespace avx512_bf16 {
#include "engine/kernels/fast_entries.inc"
}  // namespace avx512_bf16
namespace amx {
#include "engine/kernels/fast_entries.inc"
}  // namespace amx
#undef NACRE_LANES
#undef NACRE_OFFSET
#undef NACRE_GROUP
#undef NACRE_BASE

}  // namespace tier_of

namespace {

template <const auto& kList>
constexpr KernelSet set_of(const char* name) {
  return {name, kList.entries};
}
constexpr KernelSet kSets[] = {
    set_of<tier_of::portable_tier::kList>("x86/portable"), set_of<tier_of::avx2::kList>("x86/avx2"),
    set_of<tier_of::avx2_vnni::kList>("x86/avx2_vnni"), set_of<tier_of::avx512::kList>("x86/avx512"),
    set_of<tier_of::avx512_vnni::kList>("x86/avx512_vnni"), set_of<tier_of::avx512_bf16::kList>("x86/avx512_bf16"),
    set_of<tier_of::amx::kList>("x86/amx")};
constexpr Port port_of(const KernelSet& set) {
  return {.name = set.name,
          .set = &set,
          .context = nullptr,
          .begin = nullptr,
          .finish = nullptr,
          .copy = nullptr,
          .fill = nullptr,
          .alignment = 64};
}
constexpr Port kPorts[] = {port_of(kSets[0]), port_of(kSets[1]), port_of(kSets[2]), port_of(kSets[3]),
                           port_of(kSets[4]), port_of(kSets[5]), port_of(kSets[6])};
constexpr std::span<const reference::NamedEntry> kLists[] = {
    tier_of::portable_tier::kList.named, tier_of::avx2::kList.named, tier_of::avx2_vnni::kList.named,
    tier_of::avx512::kList.named, tier_of::avx512_vnni::kList.named, tier_of::avx512_bf16::kList.named,
    tier_of::amx::kList.named};
static_assert(std::size(kSets) == size_t(Tier::kCount));

}  // namespace

const char* name(Tier tier) { return kSets[size_t(tier)].name + sizeof "x86/" - 1; }
const KernelSet& kernels(Tier tier) { return kSets[size_t(tier)]; }
const Port& port(Tier tier) { return kPorts[size_t(tier)]; }
std::span<const reference::NamedEntry> list(Tier tier) { return kLists[size_t(tier)]; }

}  // namespace nacre::x86
