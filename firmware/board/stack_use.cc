#include "firmware/board/stack_use.h"

extern "C" uint32_t nacre_stack_limit[], nacre_stack_top[];  // sections.ld

namespace nacre::firmware {
namespace {

constexpr uint32_t kPaint = 0xC5C5C5C5;

uint32_t bytes_between(const volatile uint32_t* low, const volatile uint32_t* high) {
  return reinterpret_cast<uint32_t>(high) - reinterpret_cast<uint32_t>(low);
}

}  // namespace

// Neither Arm nor RISC-V has a red zone: what lies below sp belongs to nobody. Volatile, because gcc would call
// memset, which would paint over its own frame.
void paint_stack() {
  const volatile uint32_t* sp;
#ifdef __riscv
  asm volatile("mv %0, sp" : "=r"(sp));
#else
  asm volatile("mov %0, sp" : "=r"(sp) : : "lr");  // lr: is saved before, not below what sp is here
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
