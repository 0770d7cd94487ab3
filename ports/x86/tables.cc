#include "ports/vector/tables.h"
#include "ports/x86/x86.h"

namespace nacre::tier_of {

struct portable_tier {
  static constexpr const char* kName = "x86/portable";
  static constexpr bool kRuns = NACRE_WITH_PORTABLE_TIER;
  static constexpr int kLanes = 4, kDotOffset = 0, kFoursOffset = 128, kPairs = 0, kRealGroup = 1;
  using Base = void;
};
struct avx2 {
  static constexpr const char* kName = "x86/avx2";
  static constexpr bool kRuns = NACRE_WITH_AVX2;
  static constexpr int kLanes = 8, kDotOffset = 0, kFoursOffset = 128, kPairs = 16, kRealGroup = 1;
  using Base = void;
};
struct avx2_vnni {
  static constexpr const char* kName = "x86/avx2_vnni";
  static constexpr bool kRuns = NACRE_WITH_AVX2_VNNI;
  static constexpr int kLanes = 8, kDotOffset = 128, kFoursOffset = 128, kPairs = 0, kRealGroup = 1;
  using Base = void;
};
struct avx512 {
  static constexpr const char* kName = "x86/avx512";
  static constexpr bool kRuns = NACRE_WITH_AVX512;
  static constexpr int kLanes = 16, kDotOffset = 0, kFoursOffset = 128, kPairs = 0, kRealGroup = 1;
  using Base = void;
};
struct avx512_vnni {
  static constexpr const char* kName = "x86/avx512_vnni";
  static constexpr bool kRuns = NACRE_WITH_AVX512_VNNI;
  static constexpr int kLanes = 16, kDotOffset = 128, kFoursOffset = 128, kPairs = 0, kRealGroup = 1;
  using Base = void;
};
struct avx512_bf16 {
  static constexpr const char* kName = "x86/avx512_bf16";
  static constexpr bool kRuns = NACRE_WITH_AVX512_BF16;
  static constexpr int kLanes = 16, kDotOffset = 128, kFoursOffset = 128, kPairs = 0, kRealGroup = 2;
  using Base = avx512_vnni;
};
struct amx {
  static constexpr const char* kName = "x86/amx";
  static constexpr bool kRuns = NACRE_WITH_AMX;
  static constexpr int kLanes = 16, kDotOffset = 128, kFoursOffset = 128, kPairs = 0, kRealGroup = 2;
  using Base = avx512_vnni;
};

}  // namespace nacre::tier_of

namespace nacre::x86 {
namespace {

using namespace tier_of;
using Tables = PortTables<portable_tier, avx2, avx2_vnni, avx512, avx512_vnni, avx512_bf16, amx>;
static_assert(Tables::kCount == size_t(Tier::kCount));

}  // namespace

const char* name(Tier tier) { return kernels(tier).name + sizeof "x86/" - 1; }
int lanes(Tier tier) { return Tables::kLanes[size_t(tier)]; }
const KernelSet& kernels(Tier tier) { return *Tables::kSets[size_t(tier)]; }
const Port& port(Tier tier) { return Tables::kPorts[size_t(tier)]; }
std::span<const reference::NamedEntry> list(Tier tier) { return Tables::kLists[size_t(tier)]; }

}  // namespace nacre::x86
