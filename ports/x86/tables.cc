#include "ports/vector/tables.h"
#include "ports/x86/tiers.h"
#include "ports/x86/x86.h"

namespace nacre::x86 {
namespace {

template <class>
struct TablesOf;
template <class... Row>
struct TablesOf<tier_of::TierList<Row...>> {
  using Tables = PortTables<Row...>;
};
using Tables = TablesOf<tier_of::X86Tiers>::Tables;

}  // namespace

const char* name(Tier tier) { return kernels(tier).name + sizeof "x86/" - 1; }
int lanes(Tier tier) { return Tables::kLanes[size_t(tier)]; }
const KernelSet& kernels(Tier tier) { return *Tables::kSets[size_t(tier)]; }
const Port& port(Tier tier) { return Tables::kPorts[size_t(tier)]; }
std::span<const reference::NamedEntry> list(Tier tier) { return Tables::kLists[size_t(tier)]; }

}  // namespace nacre::x86
