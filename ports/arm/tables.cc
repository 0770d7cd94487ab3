// The tables of the tiers: ports/vector/tables.h.
#include "ports/vector/tables.h"
#include "ports/arm/arm.h"

namespace nacre::tier_of {
#define NACRE_LANES 4
#define NACRE_OFFSET 0
#define NACRE_FOURS_OFFSET 0
#define NACRE_PAIRS 0
#define NACRE_GROUP 1

#ifdef __arm__
#define NACRE_RUNS
#endif
namespace armv7 {
#include "engine/kernels/fast/entries.inc"
}  // namespace armv7
#undef NACRE_RUNS

#ifdef __aarch64__
#define NACRE_RUNS
#endif
namespace neon {
#include "engine/kernels/fast/entries.inc"
}  // namespace neon
namespace dotprod {
#include "engine/kernels/fast/entries.inc"
}  // namespace dotprod
#undef NACRE_GROUP
#define NACRE_GROUP 2
#define NACRE_BASE dotprod
namespace i8mm {
#include "engine/kernels/fast/entries.inc"
}  // namespace i8mm
#undef NACRE_BASE

#undef NACRE_LANES
#undef NACRE_OFFSET
#undef NACRE_FOURS_OFFSET
#undef NACRE_PAIRS
#undef NACRE_GROUP
}  // namespace nacre::tier_of

namespace nacre::arm {
namespace {

constexpr KernelSet kSets[] = {tier_set<tier_of::armv7::kList>("arm/armv7"), tier_set<tier_of::neon::kList>("arm/neon"),
                               tier_set<tier_of::dotprod::kList>("arm/dotprod"),
                               tier_set<tier_of::i8mm::kList>("arm/i8mm")};
constexpr Port kPorts[] = {tier_port(kSets[0]), tier_port(kSets[1]), tier_port(kSets[2]), tier_port(kSets[3])};
constexpr std::span<const reference::NamedEntry> kLists[] = {tier_of::armv7::kList.named, tier_of::neon::kList.named,
                                                             tier_of::dotprod::kList.named,
                                                             tier_of::i8mm::kList.named};
static_assert(std::size(kSets) == size_t(Tier::kCount));

}  // namespace

const char* name(Tier tier) { return kSets[size_t(tier)].name + sizeof "arm/" - 1; }
int lanes(Tier) { return 4; }
const KernelSet& kernels(Tier tier) { return kSets[size_t(tier)]; }
const Port& port(Tier tier) { return kPorts[size_t(tier)]; }
std::span<const reference::NamedEntry> list(Tier tier) { return kLists[size_t(tier)]; }

}  // namespace nacre::arm
