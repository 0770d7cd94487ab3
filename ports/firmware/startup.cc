// From reset to app_main() on a Cortex-M4F, and the end of every fault: exit status 99.
// No libc; no static constructors (the linker script refuses them).

#include <cstdint>

#include "ports/firmware/hardware_register.h"
#include "ports/firmware/print.h"
#include "ports/firmware/semihosting.h"
#include "ports/firmware/stack_use.h"

extern "C" {

extern uint32_t nacre_stack_limit[], nacre_stack_top[];  // mps2_an386.ld
extern uint32_t nacre_data_begin[], nacre_data_end[], nacre_bss_begin[], nacre_bss_end[];
extern const uint32_t nacre_data_image[];

// In assembler, because the compiler may use the FPU anywhere in a C++ function, and until CPACR
// (0xE000ED88) grants full access to CP10 and CP11 that is a UsageFault. sp is set again for
// debuggers that jump here without a reset.
[[gnu::naked, noreturn]] void reset() {
  asm volatile(R"(
    ldr   r0, =nacre_stack_top
    mov   sp, r0
    ldr   r0, =0xE000ED88
    ldr   r1, [r0]
    orr   r1, r1, #0xF00000
    str   r1, [r0]
    dsb
    isb
    b     start
  )");
}

// After a stack overflow sp points outside RAM: a handler that pushed there would lock the core up.
// So sp goes to r0 for the report, and back to the top unless it leaves 256 bytes for the handler.
[[gnu::naked, noreturn]] void fault() {
  asm volatile(R"(
    mov   r0, sp
    ldr   r1, =nacre_stack_limit + 256
    ldr   r2, =nacre_stack_top
    cmp   r0, r1
    it    lo
    movlo sp, r2
    cmp   r0, r2
    it    hi
    movhi sp, r2
    b     report_fault
  )");
}

// One region of the memory protection unit: 2^(log2_bytes) bytes, aligned to their size.
static void protect(uint32_t region, uint32_t begin, uint32_t log2_bytes, uint32_t access) {
  using nacre::firmware::hardware_register;
  hardware_register(0xE000ED98) = region;                              // MPU_RNR
  hardware_register(0xE000ED9C) = begin;                               // MPU_RBAR
  hardware_register(0xE000EDA0) = access | (log2_bytes - 1) << 1 | 1;  // MPU_RASR
}

// The M4 has no stack limit register, and neither what lies below RAM nor the flash need fault by
// themselves: in QEMU the one reads as 0 and ignores writes, the other is writable. The rest keeps
// the default map.
static void protect_memory() {
  constexpr uint32_t kNoAccess = 1u << 28;             // XN, AP = 0
  constexpr uint32_t kReadOnly = 6u << 24 | 1u << 17;  // AP = 6, C
  protect(0, 0x1FF00000, 20, kNoAccess);               // 1 MB below the stack: also frames that skip some of it
  protect(1, 0x00000000, 22, kReadOnly);               // the 4 MB of flash: a write through a null pointer, too
  nacre::firmware::hardware_register(0xE000ED94) = 5;  // MPU_CTRL: PRIVDEFENA, ENABLE
  asm volatile("dsb \n isb" ::: "memory");
}

// `<`, not `!=`: gcc takes two symbols for two addresses and would enter the loop when a section is
// empty.
[[noreturn, gnu::used]] void start() {
  protect_memory();
  nacre::firmware::paint_stack();
  const uint32_t* image = nacre_data_image;
  for (uint32_t* word = nacre_data_begin; word < nacre_data_end; ++word) *word = *image++;
  for (uint32_t* word = nacre_bss_begin; word < nacre_bss_end; ++word) *word = 0;
  nacre::semihosting::exit(app_main());
}

[[noreturn, gnu::used]] void report_fault(const uint32_t* frame) {
  using namespace nacre::firmware;
  constexpr uint32_t kStackingErrors = 1u << 12 | 1u << 4;  // STKERR, MSTKERR: there is no frame
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

// Arm DDI 0403E, B1.5.2. No interrupt is ever enabled, so the table ends after SysTick.
[[gnu::section(".vectors"), gnu::used]] const VectorTable kVectorTable = {
    nacre_stack_top,
    {reset, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault},
};

}  // extern "C"
