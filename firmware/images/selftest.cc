// The port's own test image. test_port.sh runs it and checks what it prints.
//
//   selftest check               arithmetic, memory functions, the model's place
//   selftest invert INPUT OUTPUT writes the complement of every byte of a host file, up to 64 KB
//   selftest count SHIFT TURNS   prints, twice, the instructions counted in a loop that has 2 a turn
//   selftest restart             .bss is filled, and zero again after a second start-up
//   selftest exit STATUS | fault (undefined instruction) | overflow (of the stack) | flash (writes to it) | hang |
//            flood LINES (prints them)

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#include "firmware/board/instruction_count.h"
#include "firmware/board/print.h"
#include "firmware/board/semihosting.h"
#include "firmware/board/stack_use.h"
#include "firmware/board/startup.h"
#include "firmware/images/model_image.h"

extern "C" volatile uint32_t nacre_last_word;  // the last word of RAM, which no section and no start-up code uses

namespace nacre::firmware {
namespace {

constinit std::array<uint8_t, 65536> g_bytes{};  // .bss: zero until a command fills it

// Initialised only if the linker may create .data. It shows that startup.cc copies .data.
#ifdef NACRE_SELFTEST_DATA
volatile uint32_t g_initialised = 0x600DDA7A;
#else
constexpr uint32_t g_initialised = 0x600DDA7A;
#endif

bool same_text(const char* a, const char* b) {
  for (; *a == *b; ++a, ++b)
    if (*a == 0) return true;
  return false;
}

uint32_t number(const char* digits) {
  uint32_t value = 0;
  for (; *digits >= '0' && *digits <= '9'; ++digits) value = 10 * value + static_cast<uint32_t>(*digits - '0');
  return value;
}

void report(const char* name, uint32_t value) {
  print(name);
  print(" ");
  print_unsigned(value);
  print("\n");
}

bool claim(const char* what, bool holds) {
  print(holds ? "ok   " : "FAIL ");
  print(what);
  print("\n");
  return holds;
}

// Operands are volatile, so that the machine computes and not the compiler. Expected values are exact in float32.
bool fpu_is_right() {
#if defined(__ARM_FEATURE_FMA) || defined(__riscv_flen)
  volatile float third = 1.0f / 3, nine = 9;
  return __builtin_fmaf(third, 3, -1) == 0x1p-25f &&  // a rounded product has lost this
         __builtin_sqrtf(nine) == 3;
#else
  return true;  // these would call libm
#endif
}

bool floats_are_right() {
  volatile float third = 1.0f / 3, seven = 7;
  return std::bit_cast<uint32_t>(third * seven) == 0x40155556 && static_cast<int32_t>(seven / -2.0f) == -3 &&
         std::bit_cast<uint32_t>(0x1p-100f * (seven * 0x1p-49f)) == 7;  // subnormals are kept
}

uint8_t pattern(size_t i) { return static_cast<uint8_t>(i * 37 + 11); }

bool same_bytes(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// Tests copies of up to 40 bytes between all pairs of offsets below 16, and fills, against byte-wise loops.
bool memory_functions_are_right() {
  std::array<uint8_t, 64> bytes, copy, expected;
  for (size_t size = 0; size <= 40; ++size) {
    for (size_t to = 0; to < 16; ++to) {
      for (size_t from = 0; from < 16; ++from) {
        for (size_t i = 0; i < 64; ++i) expected[i] = bytes[i] = copy[i] = pattern(i);
        for (size_t i = 0; i < size; ++i) expected[to + i] = pattern(from + i);
        std::memcpy(&copy[to], &bytes[from], size);
        std::memmove(&bytes[to], &bytes[from], size);
        if (!same_bytes(bytes, expected) || !same_bytes(copy, expected)) return false;
      }
      const uint8_t value = static_cast<uint8_t>(size + 200);
      for (size_t i = 0; i < 64; ++i) expected[i] = i - to < size ? value : bytes[i];
      std::memset(&bytes[to], value, size);
      if (!same_bytes(bytes, expected)) return false;
    }
  }
  return true;
}

bool comparisons_are_right() {
  volatile size_t three = 3;
  return std::memcmp("ab\x80", "ab\x7f", three) > 0 && std::memcmp("abc", "abd", three) < 0 &&
         std::memcmp("abcd", "abce", three) == 0 && std::strlen(&"abc\0d"[three - 3]) == three;
}

[[gnu::noinline]] void touch_1000_bytes() {
  volatile uint8_t frame[1000];
  frame[0] = 0;
  frame[999] = frame[0];
  asm volatile("" : : "r"(frame) : "memory");  // else clang would keep two bytes of it
}

bool stack_paint_shows_a_frame() {
  paint_stack();
  const uint32_t before = stack_use_bytes();
  touch_1000_bytes();
  const uint32_t deeper = stack_use_bytes() - before;
  return deeper >= 1000 - 100 && deeper <= 1000 + 100;  // the calls themselves use up to 100
}

int check(char*&) {
  bool good = claim("initialised data has its value", g_initialised == 0x600DDA7A);
  good &= claim("float32 arithmetic, fma and sqrt are exact", floats_are_right() && fpu_is_right());
  good &= claim("memcpy, memmove and memset at every alignment", memory_functions_are_right());
  good &= claim("memcmp and strlen", comparisons_are_right());

  const std::span<const std::byte> model = model_image();
  const auto* const place = reinterpret_cast<const uint32_t*>(model.data());
  good &= claim("the model is in flash, 64-byte aligned",
                place >= nacre_flash_begin && place < nacre_flash_end && reinterpret_cast<uint32_t>(place) % 64 == 0);
  uint32_t sum = 0;
  for (const std::byte byte : model) sum = std::rotl(sum, 5) + std::to_integer<uint32_t>(byte);
  report("model bytes", model.size());
  print("model sum ");
  print_hex(sum);
  print("\n");

  report("stack bytes", stack_bytes());
  report("stack use", stack_use_bytes());
  good &= claim("the stack was painted at the start", stack_use_bytes() < stack_bytes() / 2);
  good &= claim("the painted stack shows a frame of 1000 bytes", stack_paint_shows_a_frame());
  return good ? 0 : 1;
}

int invert(char*& rest) {
  const char* const input = semihosting::next_word(rest);
  const char* const output = semihosting::next_word(rest);
  if (output == nullptr) return 2;
  const int source = semihosting::open(input, semihosting::Mode::kRead);
  if (source < 0) return 3;
  const int length = semihosting::length(source);
  const uint32_t got = semihosting::read(source, g_bytes);  // asks for more bytes than the file has
  if (static_cast<uint32_t>(length) != got || !semihosting::close(source)) return 4;

  const std::span<uint8_t> bytes(g_bytes.data(), got);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(~byte);
  const int target = semihosting::open(output, semihosting::Mode::kWrite);
  if (target < 0) return 5;
  return semihosting::write(target, bytes) == got && semihosting::close(target) ? 0 : 6;
}

// Runs a loop of two instructions per turn.
uint32_t ticks_of_loop(uint32_t turns) {
  start_ticks();
#ifdef __riscv
  asm volatile("1: addi %0, %0, -1 \n bnez %0, 1b" : "+r"(turns));
#else
  asm volatile("1: subs %0, #1 \n bne 1b" : "+r"(turns) : : "cc");
#endif
  return read_ticks();
}

int count(char*& rest) {
  const char* const shift = semihosting::next_word(rest);
  const char* const turns = semihosting::next_word(rest);
  if (turns == nullptr) return 2;
  for (int i = 0; i < 2; ++i) {
    const uint32_t ticks = ticks_of_loop(number(turns));
    report("instructions", instructions(ticks, static_cast<int>(number(shift))));
  }
  return 0;
}

// QEMU's RAM is zero at first, so only a second start shows that start-up clears .bss. The last word of RAM tells
// that this is the second start.
int restart(char*&) {
  constexpr uint32_t kSecond = 0x5EC02D;
  constexpr auto is_zero = [](uint8_t byte) { return byte == 0; };
  if (nacre_last_word == kSecond) return std::ranges::all_of(g_bytes, is_zero) ? 0 : 1;
  nacre_last_word = kSecond;
  for (uint8_t& byte : g_bytes) byte = 0xFF;
  reset();
}

int exit_with(char*& rest) { return static_cast<int>(number(semihosting::next_word(rest))); }

int fault(char*&) {
#ifdef __riscv
  asm volatile("unimp");
#else
  asm volatile("udf #0");
#endif
  return 0;
}

// gcc sees no bound of the recursion. The sum after the call keeps gcc from turning it into a loop.
[[gnu::noinline]] uint32_t depth(volatile uint32_t* above) {
  volatile uint32_t here = *above + 1;
  return here == 0 ? 0 : depth(&here) + here;
}

int overflow(char*&) {
  volatile uint32_t zero = 0;
  return static_cast<int>(depth(&zero));
}

int flash(char*&) {
  *const_cast<volatile std::byte*>(model_image().data()) = std::byte{1};
  return 0;
}

int hang(char*&) {
  for (;;) asm volatile("");
}

int flood(char*& rest) {
  for (uint32_t line = number(semihosting::next_word(rest)); line > 0; --line)
    print("sixty-four bytes a line, to fill a pipe that nobody reads yet..\n");
  return 0;
}

struct Command {
  const char* name;
  int (*run)(char*& rest);
};

constexpr Command kCommands[] = {{"check", check},    {"restart", restart}, {"invert", invert}, {"count", count},
                                 {"exit", exit_with}, {"fault", fault},     {"flash", flash},   {"overflow", overflow},
                                 {"hang", hang},      {"flood", flood}};

}  // namespace
}  // namespace nacre::firmware

int app_main() {
  using namespace nacre;
  char line[200];
  if (!semihosting::read_command_line(line)) return 9;
  firmware::print("hello from ");
  firmware::print(line);
  firmware::print("\n");

  char* rest = line;
  semihosting::next_word(rest);
  const char* const name = semihosting::next_word(rest);
  if (name == nullptr) return 8;
  for (const firmware::Command& command : firmware::kCommands)
    if (firmware::same_text(name, command.name)) return command.run(rest);
  return 8;
}
