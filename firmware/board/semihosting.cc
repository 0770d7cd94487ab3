#include "firmware/board/semihosting.h"

#include <cstring>

namespace nacre::semihosting {
namespace {

enum Operation : uint32_t {
  kOpen = 0x01,
  kClose = 0x02,
  kWrite0 = 0x04,
  kWrite = 0x05,
  kRead = 0x06,
  kSeek = 0x0A,
  kLength = 0x0C,
  kGetCommandLine = 0x15,
  kExitExtended = 0x20,  // used because SYS_EXIT (0x18) carries no status on a 32-bit machine
};

constexpr uint32_t kApplicationExit = 0x20026;  // ADP_Stopped_ApplicationExit

uint32_t word(const void* pointer) { return reinterpret_cast<uint32_t>(pointer); }

// The first two registers of a call hold the operation and its argument, or the address of the argument block. The
// first register then holds the result. The host accesses memory without the compiler's knowledge, so the asm
// clobbers memory.
#ifdef __riscv
// Three instructions of four bytes each, within a page, mark a call: RISC-V semihosting, 1.0.
uint32_t call(Operation operation, const void* argument) {
  register uint32_t a0 asm("a0") = operation;
  register const void* a1 asm("a1") = argument;
  asm volatile(
      ".option push \n .balign 16 \n .option norvc \n"
      "slli x0, x0, 0x1f \n ebreak \n srai x0, x0, 7 \n"
      ".option pop"
      : "+r"(a0)
      : "r"(a1)
      : "memory");
  return a0;
}
#else
// 0xAB is the immediate that hosts of M-profile cores look for.
uint32_t call(Operation operation, const void* argument) {
  register uint32_t r0 asm("r0") = operation;
  register const void* r1 asm("r1") = argument;
  asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}
#endif

}  // namespace

void write_text(const char* text) { call(kWrite0, text); }

void exit(int status) {
  const uint32_t block[] = {kApplicationExit, static_cast<uint32_t>(status)};
  for (;;) call(kExitExtended, block);  // a debugger may resume the program
}

bool read_command_line(std::span<char> line) {
  const uint32_t block[] = {word(line.data()), line.size()};
  return call(kGetCommandLine, block) == 0;
}

char* next_word(char*& rest) {
  while (*rest == ' ') ++rest;
  if (*rest == 0) return nullptr;
  char* const begin = rest;
  while (*rest != 0 && *rest != ' ') ++rest;
  if (*rest == ' ') *rest++ = 0;
  return begin;
}

int open(const char* path, Mode mode) {
  const uint32_t block[] = {word(path), static_cast<uint32_t>(mode), std::strlen(path)};
  return static_cast<int>(call(kOpen, block));
}

int length(int handle) {
  const uint32_t block[] = {static_cast<uint32_t>(handle)};
  return static_cast<int>(call(kLength, block));
}

bool seek(int handle, uint32_t offset) {
  const uint32_t block[] = {static_cast<uint32_t>(handle), offset};
  return call(kSeek, block) == 0;
}

bool close(int handle) {
  const uint32_t block[] = {static_cast<uint32_t>(handle)};
  return call(kClose, block) == 0;
}

// SYS_READ and SYS_WRITE return the number of bytes that were not moved.
uint32_t read(int handle, std::span<uint8_t> bytes) {
  const uint32_t block[] = {static_cast<uint32_t>(handle), word(bytes.data()), bytes.size()};
  return bytes.size() - call(kRead, block);
}

uint32_t write(int handle, std::span<const uint8_t> bytes) {
  const uint32_t block[] = {static_cast<uint32_t>(handle), word(bytes.data()), bytes.size()};
  return bytes.size() - call(kWrite, block);
}

}  // namespace nacre::semihosting
