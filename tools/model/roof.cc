#include "tools/model/roof.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

namespace nacre::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSums = 12, kBursts = 9;
constexpr double kBurstSeconds = 2e-3;

// Returns the rounds per second of `run(n)`, which does n rounds. Takes the best burst, since disturbances only slow.
template <class Run>
double rate(Run run) {
  uint64_t rounds = 1;
  double best = 0;
  for (int burst = 0; burst < kBursts;) {
    const Clock::time_point start = Clock::now();
    run(rounds);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (seconds < kBurstSeconds) {
      rounds *= 2;
      continue;
    }
    best = std::max(best, double(rounds) / seconds);
    ++burst;
  }
  return best;
}

#if defined(__x86_64__)

// One round is one or a few instructions for each of 12 sums. They are written in assembly so that no compiler
// spills, fuses or drops one. Registers 12 to 15 hold zeros, which take as long as any normal number.
#define NACRE_SUMS(one) \
  one("0") one("1") one("2") one("3") one("4") one("5") one("6") one("7") one("8") one("9") one("10") one("11")
#define NACRE_CLEARED(n) "vpxor %%xmm" n ", %%xmm" n ", %%xmm" n "\n\t"
#define NACRE_LOOP(name, one)                                                                                     \
  void name(uint64_t rounds) {                                                                                    \
    asm volatile(NACRE_SUMS(NACRE_CLEARED) NACRE_CLEARED("12") NACRE_CLEARED("13") NACRE_CLEARED("14")            \
                     NACRE_CLEARED("15") "1:\n\t" NACRE_SUMS(one) "dec %0\n\tjnz 1b\n\tvzeroupper\n\t"            \
                 : "+r"(rounds)                                                                                   \
                 :                                                                                                \
                 : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
                   "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");                                                  \
  }

#define NACRE_FMA_Y(n) "vfmadd231ps %%ymm14, %%ymm15, %%ymm" n "\n\t"
#define NACRE_FMA_Z(n) "vfmadd231ps %%zmm14, %%zmm15, %%zmm" n "\n\t"
#define NACRE_DOT_Y(n) "%{vex%} vpdpbusd %%ymm14, %%ymm15, %%ymm" n "\n\t"
#define NACRE_DOT_Z(n) "vpdpbusd %%zmm14, %%zmm15, %%zmm" n "\n\t"
#define NACRE_BF16_Z(n) "vdpbf16ps %%zmm14, %%zmm15, %%zmm" n "\n\t"
#define NACRE_PAIRS_Y(n)                     \
  "vpmaddubsw %%ymm14, %%ymm15, %%ymm12\n\t" \
  "vpmaddwd %%ymm12, %%ymm13, %%ymm12\n\t"   \
  "vpaddd %%ymm12, %%ymm" n ", %%ymm" n "\n\t"
#define NACRE_PAIRS_Z(n)                     \
  "vpmaddubsw %%zmm14, %%zmm15, %%zmm12\n\t" \
  "vpmaddwd %%zmm12, %%zmm13, %%zmm12\n\t"   \
  "vpaddd %%zmm12, %%zmm" n ", %%zmm" n "\n\t"
#define NACRE_SSE(n) "movaps %%xmm14, %%xmm12\n\tmulps %%xmm15, %%xmm12\n\taddps %%xmm12, %%xmm" n "\n\t"

NACRE_LOOP(fma_y, NACRE_FMA_Y)
NACRE_LOOP(fma_z, NACRE_FMA_Z)
NACRE_LOOP(dot_y, NACRE_DOT_Y)
NACRE_LOOP(dot_z, NACRE_DOT_Z)
NACRE_LOOP(bf16_z, NACRE_BF16_Z)
NACRE_LOOP(pairs_y, NACRE_PAIRS_Y)
NACRE_LOOP(pairs_z, NACRE_PAIRS_Z)

void sse(uint64_t rounds) {
  asm volatile("1:\n\t" NACRE_SUMS(NACRE_SSE) "dec %0\n\tjnz 1b\n\t"
               : "+r"(rounds)
               :
               : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                 "xmm12", "xmm14", "xmm15");
}

// Tiles 0 to 3 are sums of 16 by 16; tiles 6 and 7 are 16 rows of 64 bytes.
#define NACRE_TILES(name, dot)                                                                                    \
  void name(uint64_t rounds) {                                                                                    \
    struct Config {                                                                                               \
      uint8_t palette = 1, unused[15] = {};                                                                       \
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};                                                  \
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};                                                        \
    } config;                                                                                                     \
    asm volatile("ldtilecfg %1\n\t1:\n\t" dot " %%tmm7, %%tmm6, %%tmm0\n\t" dot " %%tmm7, %%tmm6, %%tmm1\n\t" dot \
                 " %%tmm7, %%tmm6, %%tmm2\n\t" dot " %%tmm7, %%tmm6, %%tmm3\n\tdec %0\n\tjnz 1b\n\ttilerelease"   \
                 : "+r"(rounds)                                                                                   \
                 : "m"(config)                                                                                    \
                 : "cc");                                                                                         \
  }
NACRE_TILES(tiles_i8, "tdpbusd")
NACRE_TILES(tiles_bf16, "tdpbf16ps")

// `each`: multiply-accumulates that a round does for one sum.
template <class Run>
double operations(Run run, int each) {
  return rate(run) * kSums * each * 2;
}

Arithmetic measured(x86::Tier tier) {
  Arithmetic a;
  switch (tier) {
    // Plain C++ has no instruction for four products of int8: float32's roof is taken.
    case x86::Tier::kPortable: a.float32 = a.int8 = operations(sse, 4); break;
    case x86::Tier::kAvx2: a.float32 = operations(fma_y, 8), a.int8 = operations(pairs_y, 32); break;
    case x86::Tier::kAvx2Vnni: a.float32 = operations(fma_y, 8), a.int8 = operations(dot_y, 32); break;
    case x86::Tier::kAvx512: a.float32 = operations(fma_z, 16), a.int8 = operations(pairs_z, 64); break;
    default: a.float32 = operations(fma_z, 16), a.int8 = operations(dot_z, 64); break;
  }
  if (tier == x86::Tier::kAmx) {
    a.int8 = rate(tiles_i8) * 4 * 16 * 16 * 64 * 2;
    a.bfloat16 = rate(tiles_bf16) * 4 * 16 * 16 * 32 * 2;
    return a;
  }
  // On some processors vdpbf16ps has a quarter of the rate of fma. Then bfloat16 is faster computed as float32.
  a.bfloat16 = a.float32;
  if (tier > x86::Tier::kAvx512 && has_bfloat16()) a.bfloat16 = std::max(a.bfloat16, operations(bf16_z, 32));
  return a;
}

#else

Arithmetic measured(x86::Tier) { return {}; }

#endif

// read_block() reads the first `bytes` of a block, a multiple of kTurn, at most kMostBytes, in the widest loads.
constexpr size_t kTurn = 1024, kMostBytes = size_t{256} << 20;

#if defined(__x86_64__)

#define NACRE_LOADS_4(move, reg, width, at)                                                               \
  move " " at "(%0), %%" reg "0\n\t" move " " width "+" at "(%0), %%" reg "1\n\t" move " 2*" width "+" at \
       "(%0), %%" reg "2\n\t" move " 3*" width "+" at "(%0), %%" reg "3\n\t"
#define NACRE_READ(name, reg, width, turns)                                                  \
  void name(const char* from, size_t bytes) {                                                \
    asm volatile("1:\n\t" turns "add $1024, %0\n\tsub $1024, %1\n\tjnz 1b\n\tvzeroupper\n\t" \
                 : "+r"(from), "+r"(bytes)                                                   \
                 :                                                                           \
                 : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3");                          \
  }
#define NACRE_Y(at) NACRE_LOADS_4("vmovups", "ymm", "32", at)
#define NACRE_Z(at) NACRE_LOADS_4("vmovups", "zmm", "64", at)
NACRE_READ(read_ymm, "ymm", "32",
           NACRE_Y("0") NACRE_Y("128") NACRE_Y("256") NACRE_Y("384") NACRE_Y("512") NACRE_Y("640") NACRE_Y("768")
               NACRE_Y("896"))
NACRE_READ(read_zmm, "zmm", "64", NACRE_Z("0") NACRE_Z("256") NACRE_Z("512") NACRE_Z("768"))

void read_block(const char* from, size_t bytes) {
  if (x86::runs_here(x86::Tier::kAvx512)) return read_zmm(from, bytes);
  if (x86::runs_here(x86::Tier::kAvx2)) return read_ymm(from, bytes);
  volatile const uint64_t* numbers = reinterpret_cast<const uint64_t*>(from);
  for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) numbers[i];
}

#else

void read_block(const char* from, size_t bytes) {
  volatile const uint64_t* numbers = reinterpret_cast<const uint64_t*>(from);
  for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) numbers[i];
}

#endif

// Memory whose data() begins at a cache line, and whose bytes have all been written.
struct TouchedMemory {
  explicit TouchedMemory(size_t bytes) : memory(bytes + 64, 1) {}
  char* data() { return memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64; }
  std::vector<char> memory;
};

double measured_read(size_t bytes) {
  TouchedMemory block(bytes);
  return double(bytes) * rate([&](uint64_t rounds) {
           for (uint64_t i = 0; i < rounds; ++i) read_block(block.data(), bytes);
         });
}

double measured_copy(size_t bytes) {
  TouchedMemory from(bytes / 2), to(bytes / 2);
  return double(bytes) * rate([&](uint64_t rounds) {
           for (uint64_t i = 0; i < rounds; ++i) {
             std::memcpy(to.data(), from.data(), bytes / 2);
             asm volatile("" : : "r"(to.data()) : "memory");
           }
         });
}

// Rounds the size, so that sizes within 16 % share one measurement. Coarser steps would miss what partly fits a cache.
size_t rounded(size_t bytes) {
  double size = 4 * kTurn;
  while (size * 1.08 < double(bytes)) size *= 1.16;
  return std::min(kMostBytes, size_t(size) / kTurn * kTurn);
}

double once(std::map<size_t, double>& known, size_t bytes, double (*measure)(size_t)) {
  const size_t size = rounded(bytes);
  const auto found = known.find(size);
  return found != known.end() ? found->second : known.emplace(size, measure(size)).first->second;
}

}  // namespace

bool has_bfloat16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

const Arithmetic& arithmetic(x86::Tier tier) {
  static std::array<Arithmetic, size_t(x86::Tier::kCount)> known;
  Arithmetic& a = known[size_t(tier)];
  if (a.float32 == 0) a = measured(tier);
  return a;
}

double read_bandwidth(size_t bytes) {
  static std::map<size_t, double> known;
  return once(known, bytes, measured_read);
}

double copy_bandwidth(size_t bytes) {
  static std::map<size_t, double> known;
  return once(known, bytes, measured_copy);
}

double least_seconds(x86::Tier tier, const StepWork& work) {
  const Arithmetic& a = arithmetic(tier);
  if (a.float32 == 0) return 0;
  double peak = a.float32;
  const ElementType compute = work.compute;
  if (compute == ElementType::kInt8) peak = a.int8;
  if (compute == ElementType::kBfloat16 || compute == ElementType::kFloat8E4M3 || compute == ElementType::kFloat8E5M2)
    peak = a.bfloat16;
  return std::max(work.operations / peak, work.bytes / read_bandwidth(size_t(work.bytes)));
}

x86::Tier tier_of_kernel(const std::string& kernel) {
  for (uint32_t i = 0; i < uint32_t(x86::Tier::kCount); ++i)
    if (kernel.starts_with(std::string(x86::name(x86::Tier(i))) + "/")) return x86::Tier(i);
  return x86::best() == x86::Tier::kCount ? x86::Tier::kPortable : x86::best();
}

void print_roofs() {
  fmt::print("roofs     G operations/s of one core in registers: float32, bfloat16, int8\n");
  for (uint32_t i = 0; i < uint32_t(x86::Tier::kCount); ++i) {
    if (!x86::runs_here(x86::Tier(i))) continue;
    const Arithmetic& a = arithmetic(x86::Tier(i));
    fmt::print("          {:<12} {:8.1f} {:8.1f} {:8.1f}\n", x86::name(x86::Tier(i)), a.float32 / 1e9, a.bfloat16 / 1e9,
               a.int8 / 1e9);
  }
  fmt::print("          GB/s read:");
  for (const size_t bytes : {size_t{16} << 10, size_t{512} << 10, size_t{8} << 20, kMostBytes})
    fmt::print("  {} KiB {:.0f}", bytes >> 10, read_bandwidth(bytes) / 1e9);
  fmt::print("\n\n");
}

}  // namespace nacre::tools
