// Services of the host for an image under QEMU or a debugger: text, exit status, arguments, files. Arm, "Semihosting
// for AArch32 and AArch64", defines the operations; RISC-V has the same ones.
//
// An image defines app_main(). startup.cc calls it and passes its value to exit(). Without a host the first call
// faults, and so does the report of that fault: the core locks up.
#pragma once

#include <cstdint>
#include <span>

// The image's own program. It returns the exit status that the host sees: 0 to 255.
int app_main();

namespace nacre::semihosting {

enum class Mode : uint32_t { kRead = 1, kUpdate = 3, kWrite = 5 };  // fopen's "rb", "r+b" and "wb"

void write_text(const char* text);  // ends with a zero byte
[[noreturn]] void exit(int status);

// Reads the image's name and its arguments, joined by single blanks. An argument cannot contain a blank. Returns
// false if they do not fit.
[[nodiscard]] bool read_command_line(std::span<char> line);

// Returns the next word of `rest`, ended by a zero byte, and moves `rest` past it. Returns null at the end.
char* next_word(char*& rest);

// Files of the host. A relative path starts at the directory in which the host was started.
[[nodiscard]] int open(const char* path, Mode mode);   // a handle, or -1
[[nodiscard]] int length(int handle);                  // bytes, or -1
[[nodiscard]] bool seek(int handle, uint32_t offset);  // from the start, at most the file's length
[[nodiscard]] bool close(int handle);                  // if false, written bytes may be missing

// Return the number of bytes moved. It is less than asked at the end of the file or on an error.
[[nodiscard]] uint32_t read(int handle, std::span<uint8_t> bytes);
[[nodiscard]] uint32_t write(int handle, std::span<const uint8_t> bytes);

}  // namespace nacre::semihosting
