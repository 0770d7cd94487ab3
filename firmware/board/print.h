// Prints text and numbers on the host's console without stdio, because newlib's printf needs a heap. There are no
// 64-bit numbers: their division is a 770-byte helper on a 32-bit machine.
#pragma once

#include <cstdint>

namespace nacre::firmware {

void print(const char* text);
void print_unsigned(uint32_t value);  // 1234
void print_hex(uint32_t value);       // 0x000004d2; always eight digits, so that columns align

}  // namespace nacre::firmware
