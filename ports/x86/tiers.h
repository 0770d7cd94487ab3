// The tiers of x86-64, lowest first: an enumerator and a row each. A further tier needs its vectors (vec_*.h, or those
// of another tier), both lines here, and its flags in ports/vector/tiers.txt.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace nacre::x86 {

enum class Tier : uint8_t {
  kPortable,    // plain C++, for every machine but AArch64, which always has NEON
  kAvx2,        // AVX2, FMA, F16C, BMI1, BMI2
  kAvx2Vnni,    // kAvx2 and AVX-VNNI
  kAvx512,      // kAvx2 and AVX-512 F, BW, DQ, VL
  kAvx512Vnni,  // kAvx512 and VNNI
  kAvx512Bf16,  // kAvx512Vnni and BF16: products of bfloat16 in pairs
  kAmx,         // kAvx512Bf16 and AMX-INT8, AMX-BF16: products in tiles
  kCount
};

// A bit of CPUID: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, CPUID.
struct CpuidBit {
  uint32_t leaf, subleaf;
  char word;  // 'a' to 'd' for eax to edx
  int bit;
};
// Says on which processors a tier runs only if the user names it.
enum class ByName : uint8_t { kNowhere, kOnIntel, kEverywhere };

// States that the system saves for a process: bits of XCR0. A process must ask Linux for kTiles.
constexpr uint32_t kYmm = 0x6, kZmm = 0xE6, kTiles = 0x60000;

}  // namespace nacre::x86

namespace nacre::tier_of {

// A row has these members, and kName. ports/vector/tables.h and engine/kernels/fast/lines.h say what the numbers of
// its vectors are.
struct X86Tier {
  static constexpr int kDotOffset = 0, kFoursOffset = 128, kPairs = 0, kRealGroup = 1, kDecodedGroup = 1;
  using Base = void;   // gives all kernels but products, if the tier has products alone
  using Above = void;  // the tier whose instructions this one has too
  static constexpr std::array<x86::CpuidBit, 0> kNeeds = {};  // beside those of Above
  static constexpr uint32_t kStates = 0;
  static constexpr x86::ByName kByName = x86::ByName::kNowhere;
};

struct portable_tier : X86Tier {
  static constexpr const char* kName = "x86/portable";
  static constexpr int kLanes = 4;
};
struct avx2 : X86Tier {
  static constexpr const char* kName = "x86/avx2";
  static constexpr int kLanes = 8, kPairs = 16;
  static constexpr std::array<x86::CpuidBit, 6> kNeeds = {
      {{1, 0, 'c', 12}, {1, 0, 'c', 28}, {1, 0, 'c', 29}, {7, 0, 'b', 3}, {7, 0, 'b', 5}, {7, 0, 'b', 8}}};
  static constexpr uint32_t kStates = x86::kYmm;  // FMA, AVX, F16C, BMI1, AVX2, BMI2
};
struct avx2_vnni : X86Tier {
  static constexpr const char* kName = "x86/avx2_vnni";
  static constexpr int kLanes = 8, kDotOffset = 128;
  using Above = avx2;
  static constexpr std::array<x86::CpuidBit, 1> kNeeds = {{{7, 1, 'a', 4}}};
};
struct avx512 : X86Tier {
  static constexpr const char* kName = "x86/avx512";
  static constexpr int kLanes = 16;
  using Above = avx2;
  static constexpr std::array<x86::CpuidBit, 4> kNeeds = {
      {{7, 0, 'b', 16}, {7, 0, 'b', 17}, {7, 0, 'b', 30}, {7, 0, 'b', 31}}};  // F, DQ, BW, VL
  static constexpr uint32_t kStates = x86::kZmm;
};
struct avx512_vnni : X86Tier {
  static constexpr const char* kName = "x86/avx512_vnni";
  static constexpr int kLanes = 16, kDotOffset = 128;
  using Above = avx512;
  static constexpr std::array<x86::CpuidBit, 1> kNeeds = {{{7, 0, 'c', 11}}};
};
// By name on Intel: vdpbf16ps of Sapphire Rapids has a quarter of the rate of fma, that of Zen 4 and 5 twice the rate.
struct avx512_bf16 : X86Tier {
  static constexpr const char* kName = "x86/avx512_bf16";
  static constexpr int kLanes = 16, kDotOffset = 128, kRealGroup = 2, kDecodedGroup = 2;
  using Base = avx512_vnni;
  using Above = avx512_vnni;
  static constexpr std::array<x86::CpuidBit, 2> kNeeds = {{{7, 1, 'a', 5}, {7, 0, 'c', 1}}};  // BF16, VBMI
  static constexpr x86::ByName kByName = x86::ByName::kOnIntel;
};
// By name: the tiles cost each thread 8 KiB of state.
struct amx : X86Tier {
  static constexpr const char* kName = "x86/amx";
  static constexpr int kLanes = 16, kDotOffset = 128, kRealGroup = 2, kDecodedGroup = 2;
  using Base = avx512_vnni;
  using Above = avx512_bf16;
  static constexpr std::array<x86::CpuidBit, 3> kNeeds = {
      {{7, 0, 'd', 22}, {7, 0, 'd', 24}, {7, 0, 'd', 25}}};  // BF16, TILE, INT8
  static constexpr uint32_t kStates = x86::kTiles;
  static constexpr x86::ByName kByName = x86::ByName::kEverywhere;
};

// The rows in the order of Tier.
template <class... Row>
struct TierList {
  static constexpr size_t kCount = sizeof...(Row);
};
using X86Tiers = TierList<portable_tier, avx2, avx2_vnni, avx512, avx512_vnni, avx512_bf16, amx>;
static_assert(X86Tiers::kCount == size_t(x86::Tier::kCount));

}  // namespace nacre::tier_of
