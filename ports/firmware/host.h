// What the images that run under a host say and exchange with it: numbers by name, refusals, whole files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/status.h"

namespace nacre::firmware {

void report(const char* name, uint64_t value);  // "name value"; the lower 32 bits
int refuse(const Status& status);               // prints it; the exit status
int complain(const char* what, const char* path);  // prints both; the exit status

bool read_file(const char* path, std::span<std::byte> bytes);  // exactly so many, no more
bool write_file(const char* path, std::span<const std::byte> bytes);

// Of an open file, from byte `offset`; false where it ends before.
bool read_at(int file, uint64_t offset, std::span<std::byte> bytes);
bool write_at(int file, uint64_t offset, std::span<const std::byte> bytes);

}  // namespace nacre::firmware
