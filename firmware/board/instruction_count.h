// Counts the instructions executed under QEMU with `-icount shift=N` (qemu_run.sh: N = 0). The counts are exactly
// repeatable.
//
// With icount an instruction takes 2^N ns of virtual time. SysTick counts the processor clock of an Arm board. On the
// MPS2 boards, except AN505, it has 25 MHz, 40 ns a tick:
//
//   instructions = ticks * 40 / 2^N
//
// SysTick has 24 bits, so N is a choice between range and resolution:
//
//   N   range, instructions   step, instructions
//   0   671 088 600           40
//   5    20 971 518           1.25
//   10      655 359           0.04
//
// A RISC-V has mcycle, which in QEMU counts nanoseconds of virtual time. Readings go up to 2^32.
//
// This does not count cycles: QEMU has no pipeline and no wait states (and, as of 7.2, no DWT cycle counter). Without
// icount, or on a board, the ticks are time. start_ticks() and read_ticks() themselves add about 10 instructions.
#pragma once

#include <cstdint>

namespace nacre::firmware {

constexpr uint32_t kTooManyTicks = UINT32_MAX;

// Nanoseconds of a tick, in quarters because AN547 has 32 MHz.
#ifdef __riscv
constexpr uint32_t kFourthsOfNanosecond = 4;
#elif defined(NACRE_TICK_FOURTHS)
constexpr uint32_t kFourthsOfNanosecond = NACRE_TICK_FOURTHS;
#else
constexpr uint32_t kFourthsOfNanosecond = 160;
#endif

// Starts counting, always at the same phase of a tick, so that equal work gives equal ticks.
void start_ticks();

// Returns the ticks since start_ticks(), or kTooManyTicks after 2^24 (RISC-V: 2^32). One start serves any number of
// readings.
uint32_t read_ticks();

// Converts ticks to instructions. SysTick counts fewer than 2^24 `ticks`, so the product fits 32 bits. kTooManyTicks
// stays as it is.
constexpr uint32_t instructions(uint32_t ticks, int icount_shift = 0) {
  if (ticks == kTooManyTicks) return ticks;
  return kFourthsOfNanosecond == 4 ? ticks >> icount_shift : ticks * kFourthsOfNanosecond >> (2 + icount_shift);
}

}  // namespace nacre::firmware
