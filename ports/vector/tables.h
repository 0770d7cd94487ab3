// The tables of a port's tiers (instruction sets) of fast kernels. They say in plain C++ which steps the kernels of
// each tier take, so that every machine can ask what a model needs on a tier. family.cc has the kernels' functions.
#pragma once

#include <string_view>

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/sorted_list.h"
#include "ports/vector/families.h"

namespace nacre {

// engine/run/weight_packing.cc packs weights for these kernels when a program is bound. The name is used here so that
// an image with the tables links that file.
extern const char kWeightPacking;
[[gnu::used]] constinit static const char* const kPacking = &kWeightPacking;

// A tier is a struct. kName is its port's and its own name; the numbers of its vectors follow (fast/lines.h). Base is
// void, or, if the tier has only products of its own, the tier that gives all other kernels.

// Says whether the functions of a tier are compiled: NACRE_TIERS is a list " x86/avx2 x86/avx512 ".
template <class Tier>
constexpr bool kCompiled = [] {
  const std::string_view compiled = NACRE_TIERS, name = Tier::kName;
  for (size_t at = compiled.find(name); at != compiled.npos; at = compiled.find(name, at + 1))
    if (compiled[at - 1] == ' ' && compiled[at + name.size()] == ' ') return true;
  return false;
}();

// Lists the names of a family's entries, which are the same in every tier.
template <class Family>
struct FamilyNames {
  struct AnyTier {
    static constexpr int kLanes = 4, kDotOffset = 0, kFoursOffset = 0, kPairs = 0, kRealGroup = 1, kDecodedGroup = 1;
  };
  template <int... kIndex>
  static constexpr auto names(std::integer_sequence<int, kIndex...>) {
    constexpr auto kLines = Family::template lines<AnyTier>();
    struct Names {
      EntryName name[sizeof...(kIndex)];
    };
    return Names{{kLines.line[kIndex].name...}};
  }
  static constexpr auto kNames = names(std::make_integer_sequence<int, Family::template lines<AnyTier>().kCount>());
};

// Lists the entries of a family in a tier.
template <class Tier, class Family>
struct FamilyTable {
  static constexpr auto kLines = Family::template lines<Tier>();
  static constexpr int kCount = kLines.kCount;

  struct Entries {
    KernelEntry entry[kCount];
  };
  template <int kIndex>
  static constexpr KernelEntry entry() {
    using List = std::remove_const_t<decltype(kLines)>;
    constexpr Line line = kLines.line[kIndex];
    Kernel run = nullptr;
    if constexpr (kCompiled<Tier>) run = &run_line<Tier, Family, kIndex>;
    return fast_entry<typename FormOf<kIndex, List>::Type>(line.op, line.rounding, line.in_place, line.shapes, run);
  }
  template <int... kIndex>
  static constexpr Entries entries(std::integer_sequence<int, kIndex...>) {
    return {{entry<kIndex>()...}};
  }
  static constexpr Entries kEntries = entries(std::make_integer_sequence<int, kCount>());
};

// All entries of a tier, sorted by op, with their names.
template <class Tier>
struct TierTable {
  template <class Family>
  using Of = FamilyTable<
      std::conditional_t<Family::kOfProducts || std::is_void_v<typename Tier::Base>, Tier, typename Tier::Base>,
      Family>;

  template <class Family>
  static constexpr int put(reference::OpEntry* to) {
    const auto& entries = Of<Family>::kEntries;
    for (int i = 0; i < Of<Family>::kCount; ++i)
      to[i] = {entries.entry[i].op, {FamilyNames<Family>::kNames.name[i].text, &entries.entry[i]}};
    return Of<Family>::kCount;
  }

  // Programs hold weights as the tier below packs them if they were made before this tier packed them in pairs. So the
  // entries of that tier which read other layouts are listed behind this tier's own.
  template <class Family>
  static constexpr bool kHasBelow = Family::kOfProducts && !std::is_void_v<typename Tier::Base>;
  template <class Family>
  using Below = FamilyTable<std::conditional_t<kHasBelow<Family>, typename Tier::Base, Tier>, Family>;
  template <class Family>
  struct UnpairedNames {
    EntryName name[Of<Family>::kCount];
  };
  template <class Family>
  static constexpr auto kUnpaired = [] {
    UnpairedNames<Family> made = {};
    for (int i = 0; i < Of<Family>::kCount; ++i)
      made.name[i] = EntryName(FamilyNames<Family>::kNames.name[i].text + 1, "Unpaired");
    return made;
  }();
  template <class Family>
  static constexpr bool reads_other_layouts(int i) {
    const KernelEntry &own = Of<Family>::kEntries.entry[i], &below = Below<Family>::kEntries.entry[i];
    for (int k = 0; k < own.operand_count; ++k)
      if (own.operands[k].layout != below.operands[k].layout) return true;
    return false;
  }
  template <class Family>
  static constexpr int put_unpaired(reference::OpEntry* to) {
    int count = 0;
    if constexpr (kHasBelow<Family>)
      for (int i = 0; i < Of<Family>::kCount; ++i) {
        if (!reads_other_layouts<Family>(i)) continue;
        const KernelEntry& entry = Below<Family>::kEntries.entry[i];
        if (to != nullptr) to[count] = {entry.op, {kUnpaired<Family>.name[i].text, &entry}};
        ++count;
      }
    return count;
  }

  template <class... Family>
  static constexpr auto list() {
    constexpr int kCount = ((Of<Family>::kCount + put_unpaired<Family>(nullptr)) + ...);
    reference::OpEntry listed[kCount] = {};
    int at = 0;
    ((at += put<Family>(listed + at)), ...);
    ((at += put_unpaired<Family>(listed + at)), ...);
    return reference::sorted(listed);
  }
  static constexpr auto kList = family::with_families([]<class... Family>() { return list<Family...>(); });
  static constexpr KernelSet kSet = {Tier::kName, kList.entries};
};

// The tiers of a port, in the order of its enum Tier.
template <class... Tier>
struct PortTables {
  static constexpr Port port(const KernelSet& set) {
    return {.name = set.name,
            .set = &set,
            .context = nullptr,
            .begin = nullptr,
            .finish = nullptr,
            .copy = nullptr,
            .fill = nullptr,
            .alignment = 64};
  }
  static constexpr size_t kCount = sizeof...(Tier);
  static constexpr const KernelSet* kSets[] = {&TierTable<Tier>::kSet...};
  static constexpr Port kPorts[] = {port(TierTable<Tier>::kSet)...};
  static constexpr std::span<const reference::NamedEntry> kLists[] = {TierTable<Tier>::kList.named...};
  static constexpr int kLanes[] = {Tier::kLanes...};
};

}  // namespace nacre
