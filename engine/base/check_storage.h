// This header checks a Storage before any protocol uses it. Private to checkpoint.cc and model_slots.cc.
#pragma once

#include "engine/base/status.h"
#include "engine/base/storage.h"

namespace nacre {

inline constexpr uint32_t kMostProgramBytes = 256;

constexpr bool is_power_of_two(uint32_t n) { return n != 0 && (n & (n - 1)) == 0; }

// Returns kStorageGranule if the program size (index 0) or the erase size (index 1) cannot be used. Returns
// kStorageFailed if a function is missing.
inline Status check_storage(const Storage& storage, Table table) {
  const uint32_t program = storage.program_bytes, erase = storage.erase_bytes;
  if (!is_power_of_two(program) || program > kMostProgramBytes)
    return {Code::kStorageGranule, table, 0, kMostProgramBytes, program};
  if (!is_power_of_two(erase) || erase < program) return {Code::kStorageGranule, table, 1, program, erase};
  if (storage.read == nullptr || storage.program == nullptr || storage.erase == nullptr)
    return {Code::kStorageFailed, table};
  return {};
}

}  // namespace nacre
