// Names that the start-up files share: startup_arm.cc and startup_riscv.cc hold a machine's reset and faults;
// startup.cc holds the code between reset and app_main().
#pragma once

#include <cstdint>

extern "C" {

extern uint32_t nacre_stack_limit[], nacre_stack_top[];  // these names are from sections.ld
extern uint32_t nacre_data_begin[], nacre_data_end[], nacre_bss_begin[], nacre_bss_end[];
extern const uint32_t nacre_data_image[], nacre_flash_begin[], nacre_flash_end[];

[[noreturn]] void reset();  // where the core begins; sets sp and goes to start()
[[noreturn]] void start();
}

namespace nacre::firmware {

// Makes writes to flash, and a stack that outgrows its memory, cause faults.
void protect_memory();

}  // namespace nacre::firmware
