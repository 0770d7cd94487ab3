// Defines memcpy, memmove, memset, memcmp and strlen, which gcc calls even in a program without a libc. (gcc 12 may
// call strlen in place of a loop that looks for a zero byte.)
//
// A compiler would turn these loops into calls of these very functions; the pragma prevents that, and test_port.sh
// checks the object. From M3 on, Arm reads and writes unaligned words in hardware with single loads and stores.
// `packed` makes gcc avoid the multiple and double ones, which fault. On M0+ and RISC-V words are moved if all
// addresses are aligned.

#include <cstddef>
#include <cstdint>

#ifdef __clang__
#pragma clang attribute push(__attribute__((no_builtin)), apply_to = function)
#else
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

namespace {

#ifdef __ARM_FEATURE_UNALIGNED
struct [[gnu::packed, gnu::may_alias]] Word {
  uint32_t bits;
};
constexpr bool in_words(uintptr_t) { return true; }
#else
struct [[gnu::may_alias]] Word {
  uint32_t bits;
};
constexpr bool in_words(uintptr_t places) { return places % sizeof(Word) == 0; }
#endif

uintptr_t address_of(const uint8_t* place) { return reinterpret_cast<uintptr_t>(place); }

void copy_up(uint8_t* to, const uint8_t* from, size_t count) {
  if (in_words(address_of(to) | address_of(from)))
    for (; count >= 4; count -= 4, to += 4, from += 4)
      *reinterpret_cast<Word*>(to) = *reinterpret_cast<const Word*>(from);
  for (; count > 0; --count) *to++ = *from++;
}

void copy_down(uint8_t* to, const uint8_t* from, size_t count) {
  if (in_words(address_of(to + count) | address_of(from + count)))
    for (; count >= 4; count -= 4)
      *reinterpret_cast<Word*>(to + count - 4) = *reinterpret_cast<const Word*>(from + count - 4);
  for (; count > 0; --count) to[count - 1] = from[count - 1];
}

void copy(uint8_t* to, const uint8_t* from, size_t count) {
  if (to <= from) copy_up(to, from, count);
  else copy_down(to, from, count);
}

void fill(uint8_t* byte, size_t count, uint8_t value) {
  const uint32_t bits = 0x01010101u * value;
  if (in_words(address_of(byte)))
    for (; count >= 4; count -= 4, byte += 4) reinterpret_cast<Word*>(byte)->bits = bits;
  for (; count > 0; --count) *byte++ = value;
}

}  // namespace

extern "C" {

void* memcpy(void* __restrict to, const void* __restrict from, size_t count) {
  copy_up(static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from), count);
  return to;
}

void* memmove(void* to, const void* from, size_t count) {
  copy(static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from), count);
  return to;
}

void* memset(void* to, int value, size_t count) {
  fill(static_cast<uint8_t*>(to), count, static_cast<uint8_t>(value));
  return to;
}

int memcmp(const void* left, const void* right, size_t count) {
  const uint8_t* a = static_cast<const uint8_t*>(left);
  const uint8_t* b = static_cast<const uint8_t*>(right);
  for (; count > 0; --count, ++a, ++b)
    if (*a != *b) return *a - *b;
  return 0;
}

size_t strlen(const char* text) {
  size_t length = 0;
  while (text[length] != 0) ++length;
  return length;
}

// Clang calls these functions instead (Arm's run-time ABI, RTABI32, 4.3.4). In a memset the count precedes the value.
#if defined(__clang__) && defined(__arm__)
#define NACRE_OF_ALIGNMENT(ALIGNMENT)                                                                          \
  void __aeabi_memcpy##ALIGNMENT(uint8_t* to, const uint8_t* from, size_t count) { copy_up(to, from, count); } \
  void __aeabi_memmove##ALIGNMENT(uint8_t* to, const uint8_t* from, size_t count) { copy(to, from, count); }   \
  void __aeabi_memset##ALIGNMENT(uint8_t* to, size_t count, int value) {                                       \
    fill(to, count, static_cast<uint8_t>(value));                                                              \
  }                                                                                                            \
  void __aeabi_memclr##ALIGNMENT(uint8_t* to, size_t count) { fill(to, count, 0); }
NACRE_OF_ALIGNMENT()
NACRE_OF_ALIGNMENT(4)
NACRE_OF_ALIGNMENT(8)
#endif

}  // extern "C"

#ifdef __clang__
#pragma clang attribute pop
#endif
