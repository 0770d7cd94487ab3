#include "ports/vector/tables.h"
#include "ports/arm/arm.h"

namespace nacre::tier_of {

struct armv7 {
  static constexpr const char* kName = "arm/armv7";
  static constexpr int kLanes = 4, kDotOffset = 0, kFoursOffset = 0, kPairs = 0, kRealGroup = 1, kDecodedGroup = 1;
  using Base = void;
};
struct neon {
  static constexpr const char* kName = "arm/neon";
  static constexpr int kLanes = 4, kDotOffset = 0, kFoursOffset = 0, kPairs = 0, kRealGroup = 1, kDecodedGroup = 1;
  using Base = void;
};
struct dotprod {
  static constexpr const char* kName = "arm/dotprod";
  static constexpr int kLanes = 4, kDotOffset = 0, kFoursOffset = 0, kPairs = 0, kRealGroup = 1, kDecodedGroup = 1;
  using Base = void;
};
struct i8mm {
  static constexpr const char* kName = "arm/i8mm";
  static constexpr int kLanes = 4, kDotOffset = 0, kFoursOffset = 0, kPairs = 0, kRealGroup = 2, kDecodedGroup = 1;
  using Base = dotprod;
};

}  // namespace nacre::tier_of

namespace nacre::arm {
namespace {

using namespace tier_of;
using Tables = PortTables<armv7, neon, dotprod, i8mm>;
static_assert(Tables::kCount == size_t(Tier::kCount));

}  // namespace

const char* name(Tier tier) { return kernels(tier).name + sizeof "arm/" - 1; }
int lanes(Tier tier) { return Tables::kLanes[size_t(tier)]; }
const KernelSet& kernels(Tier tier) { return *Tables::kSets[size_t(tier)]; }
const Port& port(Tier tier) { return Tables::kPorts[size_t(tier)]; }
std::span<const reference::NamedEntry> list(Tier tier) { return Tables::kLists[size_t(tier)]; }

}  // namespace nacre::arm
