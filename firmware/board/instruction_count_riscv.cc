#include "firmware/board/instruction_count.h"

// This must come before all functions, because -march names no instructions for CSRs, nor do gcc's multilibs.
asm(".option arch, +zicsr");

namespace nacre::firmware {
namespace {

uint64_t g_start;  // .bss

// Returns mcycle. Reads both halves again if the upper one changed between the readings.
uint64_t cycles() {
  uint32_t low, high, again;
  do asm volatile("csrr %0, mcycleh \n csrr %1, mcycle \n csrr %2, mcycleh" : "=&r"(high), "=&r"(low), "=r"(again));
  while (high != again);
  return uint64_t{high} << 32 | low;
}

}  // namespace

void start_ticks() { g_start = cycles(); }
uint32_t read_ticks() {
  const uint64_t ticks = cycles() - g_start;
  return ticks < kTooManyTicks ? uint32_t(ticks) : kTooManyTicks;
}

}  // namespace nacre::firmware
