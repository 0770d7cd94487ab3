#include "ports/firmware/stack_use.h"

extern "C" uint32_t nacre_stack_limit[], nacre_stack_top[];  // mps2_an386.ld

namespace nacre::firmware {
namespace {

constexpr uint32_t kPaint = 0xC5C5C5C5;

uint32_t bytes_between(const volatile uint32_t* low, const volatile uint32_t* high) {
  return reinterpret_cast<uint32_t>(high) - reinterpret_cast<uint32_t>(low);
}

}  // namespace

// Arm has no red zone: what lies below sp belongs to nobody. Volatile, because gcc would call
// memset, which would paint over its own frame.
void paint_stack() {
  const volatile uint32_t* sp;
  asm volatile("mov %0, sp" : "=r"(sp));
  for (volatile uint32_t* word = nacre_stack_limit; word < sp; ++word) *word = kPaint;
}

uint32_t stack_use_bytes() {
  const volatile uint32_t* word = nacre_stack_limit;
  while (word < nacre_stack_top && *word == kPaint) ++word;
  return bytes_between(word, nacre_stack_top);
}

uint32_t stack_bytes() { return bytes_between(nacre_stack_limit, nacre_stack_top); }

}  // namespace nacre::firmware
