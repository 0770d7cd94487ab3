// Reset and faults of a 32-bit RISC-V in machine mode. Every fault ends with exit status 99.

#include "firmware/board/print.h"
#include "firmware/board/semihosting.h"
#include "firmware/board/startup.h"

// This must come before all functions, because -march names no instructions for CSRs, nor do gcc's multilibs.
asm(".option arch, +zicsr");

// mstatus.FS (bits 13, 14) switches the FPU on. fcsr 0 means round to nearest even.
#ifdef __riscv_flen
#define NACRE_ENABLE_FPU "li t0, 0x6000 \n csrs mstatus, t0 \n csrw fcsr, zero \n"
#else
#define NACRE_ENABLE_FPU ""
#endif

extern "C" {

// The board starts at the first byte of .vectors. tp points at libm's errno. gp is not used, because the linker
// scripts define no __global_pointer$.
[[gnu::naked, noreturn, gnu::section(".vectors"), gnu::used]] void reset() {
  asm volatile(
      "la sp, nacre_stack_top \n"
      "la tp, nacre_thread_begin \n"
      "la t0, fault \n"
      "csrw mtvec, t0 \n" NACRE_ENABLE_FPU "j start \n");
}

// After a stack overflow sp points outside RAM. If it leaves less than 256 bytes for the report, it is set back to
// the top.
[[gnu::naked, noreturn, gnu::aligned(4), gnu::used]] void fault() {
  asm volatile(R"(
    la    t0, nacre_stack_limit + 256
    la    t1, nacre_stack_top
    bltu  sp, t0, 1f
    bgeu  t1, sp, 2f
1:  mv    sp, t1
2:  j     report_fault
  )");
}

[[noreturn, gnu::used]] void report_fault() {
  using namespace nacre::firmware;
  uint32_t cause, address, pc;
  asm volatile("csrr %0, mcause \n csrr %1, mtval \n csrr %2, mepc" : "=r"(cause), "=r"(address), "=r"(pc));
  print("fault: mcause ");
  print_hex(cause);
  print(", address ");
  print_hex(address);
  print(", pc ");
  print_hex(pc);
  print("\n");
  nacre::semihosting::exit(99);
}

}  // extern "C"

namespace nacre::firmware {
namespace {

// Returns pmpaddr for 2^n bytes, aligned to their size: the address in words, then n - 3 ones. RISC-V privileged
// architecture 1.12, section 3.7.1.
constexpr uint32_t aligned_power(uint32_t begin, uint32_t bytes) { return begin >> 2 | ((bytes >> 3) - 1); }
uint32_t address_of(const uint32_t* place) { return reinterpret_cast<uint32_t>(place); }

}  // namespace

// Sets two locked entries, which bind machine mode too. Memory outside of both keeps all access.
void protect_memory() {
  constexpr uint32_t kLocked = 1u << 7, kAlignedPower = 3u << 3, kRead = 1, kRun = 4;
  constexpr uint32_t kFlash = kLocked | kAlignedPower | kRead | kRun, kNoAccess = kLocked | kAlignedPower;
  constexpr uint32_t kGuardBytes = 1 << 20;  // large enough for frames that skip some of it
  const uint32_t begin = address_of(nacre_flash_begin), end = address_of(nacre_flash_end);
  const uint32_t guard = aligned_power(address_of(nacre_stack_limit) - kGuardBytes, kGuardBytes);
  asm volatile("csrw pmpaddr0, %0 \n csrw pmpaddr1, %1 \n csrw pmpcfg0, %2"
               :
               : "r"(aligned_power(begin, end - begin)), "r"(guard), "r"(kNoAccess << 8 | kFlash)
               : "memory");
}

}  // namespace nacre::firmware
