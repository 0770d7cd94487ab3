// The tables of the tiers: ports/vector/tables.h.
#include "ports/vector/tables.h"
#include "ports/x86/x86.h"

namespace nacre::tier_of {
#define NACRE_FOURS_OFFSET 128
#define NACRE_PAIRS 0

#ifdef NACRE_WITH_PORTABLE_TIER
#define NACRE_RUNS
#endif
#define NACRE_GROUP 1
namespace portable_tier {
#define NACRE_LANES 4
#define NACRE_OFFSET 0
#include "engine/kernels/fast/entries.inc"
#undef NACRE_LANES
#undef NACRE_OFFSET
}  // namespace portable_tier

#undef NACRE_RUNS
#ifdef NACRE_WITH_AVX2
#define NACRE_RUNS
#endif
namespace avx2 {
#define NACRE_LANES 8
#define NACRE_OFFSET 0
#undef NACRE_PAIRS
#define NACRE_PAIRS 16
#include "engine/kernels/fast/entries.inc"
#undef NACRE_PAIRS
#define NACRE_PAIRS 0
#undef NACRE_OFFSET
}  // namespace avx2
#undef NACRE_RUNS
#ifdef NACRE_WITH_AVX2_VNNI
#define NACRE_RUNS
#endif
namespace avx2_vnni {
#define NACRE_OFFSET 128
#include "engine/kernels/fast/entries.inc"
#undef NACRE_LANES
#undef NACRE_OFFSET
}  // namespace avx2_vnni
#undef NACRE_RUNS
#ifdef NACRE_WITH_AVX512
#define NACRE_RUNS
#endif
namespace avx512 {
#define NACRE_LANES 16
#define NACRE_OFFSET 0
#include "engine/kernels/fast/entries.inc"
#undef NACRE_OFFSET
}  // namespace avx512
#undef NACRE_RUNS
#ifdef NACRE_WITH_AVX512_VNNI
#define NACRE_RUNS
#endif
namespace avx512_vnni {
#define NACRE_OFFSET 128
#include "engine/kernels/fast/entries.inc"
}  // namespace avx512_vnni
#undef NACRE_GROUP
#define NACRE_GROUP 2
#define NACRE_BASE avx512_vnni
#undef NACRE_RUNS
#ifdef NACRE_WITH_AVX512_BF16
#define NACRE_RUNS
#endif
namespace avx512_bf16 {
#include "engine/kernels/fast/entries.inc"
}  // namespace avx512_bf16
#undef NACRE_RUNS
#ifdef NACRE_WITH_AMX
#define NACRE_RUNS
#endif
namespace amx {
#include "engine/kernels/fast/entries.inc"
}  // namespace amx
#undef NACRE_LANES
#undef NACRE_OFFSET
#undef NACRE_GROUP
#undef NACRE_BASE

#undef NACRE_FOURS_OFFSET
#undef NACRE_PAIRS
}  // namespace nacre::tier_of

namespace nacre::x86 {
namespace {

constexpr KernelSet kSets[] = {tier_set<tier_of::portable_tier::kList>("x86/portable"),
                               tier_set<tier_of::avx2::kList>("x86/avx2"),
                               tier_set<tier_of::avx2_vnni::kList>("x86/avx2_vnni"),
                               tier_set<tier_of::avx512::kList>("x86/avx512"),
                               tier_set<tier_of::avx512_vnni::kList>("x86/avx512_vnni"),
                               tier_set<tier_of::avx512_bf16::kList>("x86/avx512_bf16"),
                               tier_set<tier_of::amx::kList>("x86/amx")};
constexpr Port kPorts[] = {tier_port(kSets[0]), tier_port(kSets[1]), tier_port(kSets[2]), tier_port(kSets[3]),
                           tier_port(kSets[4]), tier_port(kSets[5]), tier_port(kSets[6])};
constexpr std::span<const reference::NamedEntry> kLists[] = {tier_of::portable_tier::kList.named,
                                                             tier_of::avx2::kList.named,
                                                             tier_of::avx2_vnni::kList.named,
                                                             tier_of::avx512::kList.named,
                                                             tier_of::avx512_vnni::kList.named,
                                                             tier_of::avx512_bf16::kList.named,
                                                             tier_of::amx::kList.named};
constexpr int kLanes[] = {4, 8, 8, 16, 16, 16, 16};
static_assert(std::size(kSets) == size_t(Tier::kCount));

}  // namespace

const char* name(Tier tier) { return kSets[size_t(tier)].name + sizeof "x86/" - 1; }
int lanes(Tier tier) { return kLanes[size_t(tier)]; }
const KernelSet& kernels(Tier tier) { return kSets[size_t(tier)]; }
const Port& port(Tier tier) { return kPorts[size_t(tier)]; }
std::span<const reference::NamedEntry> list(Tier tier) { return kLists[size_t(tier)]; }

}  // namespace nacre::x86
