// Lets an image of this folder run main() of a C program with newlib. app_main() calls main(). Text that it writes and
// its exit status go to the host; it can read no files. This is for NAME_main.c of `nacre firmware`, which on a board
// uses the board's own system calls. The engine does not need it.

#include <cstddef>
#include <cstdint>

#include "firmware/board/semihosting.h"

extern "C" {

int program_main() asm("main");                  // C++ may not call a function named main
[[noreturn]] void exit(int);                     // newlib's exit writes buffered text, then calls _exit
extern char nacre_bss_end[], nacre_last_word[];  // sections.ld

// The heap, for newlib's buffers, is the rest of RAM.
void* _sbrk(ptrdiff_t bytes) {
  static char* end = nullptr;
  if (end == nullptr) end = nacre_bss_end;
  if (bytes > nacre_last_word - end) return reinterpret_cast<void*>(-1);
  char* const begin = end;
  end += bytes;
  return begin;
}

// Writes to every file go to the host's console.
int _write(int, const char* text, int count) {
  char part[65];
  for (int at = 0; at < count;) {
    int length = 0;
    while (length < 64 && at < count) part[length++] = text[at++];
    part[length] = 0;
    nacre::semihosting::write_text(part);
  }
  return count;
}

int _read(int, char*, int) { return 0; }
int _close(int) { return -1; }
int _lseek(int, int, int) { return 0; }
int _fstat(int, void*) { return -1; }
int _isatty(int) { return 1; }
int _getpid() { return 1; }
int _kill(int, int) { return -1; }
void _exit(int status) { nacre::semihosting::exit(status); }

}  // extern "C"

int app_main() { exit(program_main()); }
