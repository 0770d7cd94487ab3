// Services of the host for an image under QEMU or a debugger: text, exit status, arguments, files.
// Arm, "Semihosting for AArch32 and AArch64", defines the operations; RISC-V has the same.
//
// An image defines app_main(); startup.cc calls it and passes its value to exit(). Without a host
// the first call is a fault, and the fault's report another: the core locks up.
#pragma once

#include <cstdint>
#include <span>

// The image's own program. Its value is the exit status that the host sees: 0 to 255.
int app_main();

namespace nacre::semihosting {

enum class Mode : uint32_t { kRead = 1, kUpdate = 3, kWrite = 5 };  // fopen's "rb", "r+b" and "wb"

void write_text(const char* text);  // ends with a zero byte
[[noreturn]] void exit(int status);

// The image's name and its arguments, joined by single blanks: an argument cannot hold a blank.
// False if they do not fit.
[[nodiscard]] bool read_command_line(std::span<char> line);

// The next word of `rest`, cut off with a zero byte; `rest` moves behind it. Null at the end.
char* next_word(char*& rest);

// Files of the host. A relative path starts at the directory in which the host was started.
[[nodiscard]] int open(const char* path, Mode mode);   // a handle, or -1
[[nodiscard]] int length(int handle);                  // bytes, or -1
[[nodiscard]] bool seek(int handle, uint32_t offset);  // from the start, at most the file's length
[[nodiscard]] bool close(int handle);                  // false: what was written may be incomplete

// Bytes moved: fewer than asked at the end of the file or on an error.
[[nodiscard]] uint32_t read(int handle, std::span<uint8_t> bytes);
[[nodiscard]] uint32_t write(int handle, std::span<const uint8_t> bytes);

}  // namespace nacre::semihosting
