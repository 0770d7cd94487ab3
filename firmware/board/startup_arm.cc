// Reset and faults of a Cortex-M, from M0+ to M55. Every fault ends with exit status 99.

#include "firmware/board/hardware_register.h"
#include "firmware/board/print.h"
#include "firmware/board/semihosting.h"
#include "firmware/board/startup.h"

#if __ARM_ARCH >= 8
#define NACRE_FORGET_STACK_LIMIT "movs r1, #0 \n msr msplim, r1 \n"  // below the limit the handler could not push
#else
#define NACRE_FORGET_STACK_LIMIT ""
#endif

// The compiler may use the FPU anywhere in a C++ function. That is a UsageFault until CPACR (0xE000ED88) grants full
// access to CP10 and CP11.
#ifdef __ARM_FP
#define NACRE_ENABLE_FPU "ldr r0, =0xE000ED88 \n ldr r1, [r0] \n orr r1, r1, #0xF00000 \n str r1, [r0] \n dsb \n isb \n"
#else
#define NACRE_ENABLE_FPU ""
#endif

// CCR.LOB (0xE000ED14) lets the core cache the branch of a counted loop, for which Armv8.1-M has instructions.
#ifdef __ARM_FEATURE_MVE
#define NACRE_ENABLE_LOOPS "ldr r0, =0xE000ED14 \n ldr r1, [r0] \n orr r1, r1, #0x80000 \n str r1, [r0] \n"
#else
#define NACRE_ENABLE_LOOPS ""
#endif

extern "C" {

// Sets sp again for debuggers that jump here without a reset.
[[gnu::naked, noreturn]] void reset() {
  asm volatile(
      "ldr r0, =nacre_stack_top \n"
      "mov sp, r0 \n" NACRE_ENABLE_LOOPS NACRE_ENABLE_FPU
      "ldr r0, =start \n"
      "bx r0 \n");
}

// After a stack overflow sp points outside RAM, and a handler that pushed there would lock the core up. So sp is kept
// in r0 for the report. If it leaves less than 256 bytes for the handler, it is set back to the top.
[[gnu::naked, noreturn]] void fault() {
  asm volatile(NACRE_FORGET_STACK_LIMIT R"(
    mov   r0, sp
    ldr   r1, =nacre_stack_limit + 256
    ldr   r2, =nacre_stack_top
    cmp   r0, r1
    blo   1f
    cmp   r0, r2
    bls   2f
1:  mov   sp, r2
2:  ldr   r1, =report_fault
    bx    r1
  )");
}

[[noreturn, gnu::used]] void report_fault(const uint32_t* frame) {
  using namespace nacre::firmware;
  constexpr uint32_t kStackingErrors = 1u << 20 | 1u << 12 | 1u << 4;  // STKOF, STKERR, MSTKERR: no frame was stacked
  const uint32_t cfsr = hardware_register(0xE000ED28);
  const bool has_frame = (cfsr & kStackingErrors) == 0 && frame >= nacre_stack_limit && frame + 8 <= nacre_stack_top;
  print("fault: CFSR ");
  print_hex(cfsr);
  print(", HFSR ");
  print_hex(hardware_register(0xE000ED2C));
  print(", address ");
  print_hex(hardware_register(0xE000ED34));
  print(has_frame ? ", pc " : ", no frame on the stack");
  if (has_frame) print_hex(frame[6]);  // r0 r1 r2 r3 r12 lr pc xpsr
  print("\n");
  nacre::semihosting::exit(99);
}

struct VectorTable {
  uint32_t* stack_top;
  void (*handlers[15])();
};

// The vector table: Arm DDI 0403E, B1.5.2. No interrupt is ever enabled, so the table ends after SysTick.
[[gnu::section(".vectors"), gnu::used]] const VectorTable kVectorTable = {
    nacre_stack_top,
    {reset, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault},
};

}  // extern "C"

namespace nacre::firmware {
namespace {

constexpr uint32_t kRegion = 0xE000ED98, kBase = 0xE000ED9C, kLimit = 0xE000EDA0;  // MPU_RNR, _RBAR, _RASR or _RLAR
uint32_t address_of(const uint32_t* place) { return reinterpret_cast<uint32_t>(place); }

#if __ARM_ARCH >= 8
// Sets one region, and a register for the stack's end. Armv8-M, Arm DDI 0553, D1.2.160 to D1.2.171.
void set_regions() {
  constexpr uint32_t kReadOnly = 3u << 1;  // AP
  hardware_register(0xE000EDC0) = 0x44;    // MPU_MAIR0: normal memory, not cached
  hardware_register(kRegion) = 0;
  hardware_register(kBase) = address_of(nacre_flash_begin) | kReadOnly;
  hardware_register(kLimit) = (address_of(nacre_flash_end) - 32) | 1;
  asm volatile("msr msplim, %0" : : "r"(nacre_stack_limit));
}
#else
// Sets a region of 2^log2_bytes bytes, aligned to its size.
void set_region(uint32_t region, uint32_t begin, uint32_t log2_bytes, uint32_t access) {
  hardware_register(kRegion) = region;
  hardware_register(kBase) = begin;
  hardware_register(kLimit) = access | (log2_bytes - 1) << 1 | 1;
}

// These cores have no stack limit register, and memory below RAM need not fault by itself: in QEMU it reads as 0 and
// ignores writes, and flash is writable.
void set_regions() {
  constexpr uint32_t kNoAccess = 1u << 28;                                  // XN, AP = 0
  constexpr uint32_t kReadOnly = 6u << 24 | 1u << 17;                       // AP = 6, C
  set_region(0, address_of(nacre_stack_limit) - (1 << 20), 20, kNoAccess);  // 1 MB: also frames that skip some of it
  set_region(1, address_of(nacre_flash_begin), 22, kReadOnly);              // 4 MB: a write through a null pointer, too
}
#endif

}  // namespace

// All other memory keeps the default map.
void protect_memory() {
  set_regions();
  hardware_register(0xE000ED94) = 5;  // MPU_CTRL: PRIVDEFENA, ENABLE
  asm volatile("dsb \n isb" ::: "memory");
}

}  // namespace nacre::firmware
