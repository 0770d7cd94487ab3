#include "firmware/board/print.h"

#include "firmware/board/semihosting.h"

namespace nacre::firmware {

void print(const char* text) { semihosting::write_text(text); }

void print_unsigned(uint32_t value) {
  char text[11];  // 4294967295 and the zero byte
  char* first = text + 10;
  *first = 0;
  do {
    *--first = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  print(first);
}

void print_hex(uint32_t value) {
  char text[11] = "0x";
  for (int i = 0; i < 8; ++i) text[2 + i] = "0123456789abcdef"[value >> (28 - 4 * i) & 15];
  print(text);
}

}  // namespace nacre::firmware
