#include "firmware/board/stack_use.h"

extern "C" uint32_t nacre_stack_limit[], nacre_stack_top[];  // sections.ld

namespace nacre::firmware {
namespace {

constexpr uint32_t kPaint = 0xC5C5C5C5;

uint32_t bytes_between(const volatile uint32_t* low, const volatile uint32_t* high) {
  return reinterpret_cast<uint32_t>(high) - reinterpret_cast<uint32_t>(low);
}

}  // namespace

// Fills the memory below sp with the pattern. Neither Arm nor RISC-V has a red zone, so that memory is unused. The
// pointer is volatile, because gcc would otherwise call memset, which would overwrite its own frame.
void paint_stack() {
  const volatile uint32_t* sp;
#ifdef __riscv
  asm volatile("mv %0, sp" : "=r"(sp));
#else
  asm volatile("mov %0, sp" : "=r"(sp) : : "lr");  // the clobber makes gcc save lr before this, not below sp
#endif
  for (volatile uint32_t* word = nacre_stack_limit; word < sp; ++word) *word = kPaint;
}

uint32_t stack_use_bytes() {
  const volatile uint32_t* word = nacre_stack_limit;
  while (word < nacre_stack_top && *word == kPaint) ++word;
  return bytes_between(word, nacre_stack_top);
}

uint32_t stack_bytes() { return bytes_between(nacre_stack_limit, nacre_stack_top); }

}  // namespace nacre::firmware
