// The bytes of the engine's objects on other machines, for `nacre size --target`. The compiler of each machine checks
// the numbers of that machine.
#pragma once

#include <cstdint>

#include "engine/model/model.h"
#include "engine/run/program.h"
#include "engine/train/trainer.h"

namespace nacre {

// Sizes on machines with pointers of 4 and 8 bytes.
inline constexpr uint32_t kModel32 = 64, kProgram32 = 124, kTrainer32 = 552;
inline constexpr uint32_t kModel64 = 120, kProgram64 = 224, kTrainer64 = 984;

#if defined(__arm__) || (defined(__riscv) && __riscv_xlen == 32)
static_assert(sizeof(Model) == kModel32 && sizeof(Program) == kProgram32 && sizeof(Trainer) == kTrainer32);
#endif

#if defined(__x86_64__) || defined(__aarch64__)
static_assert(sizeof(Model) == kModel64 && sizeof(Program) == kProgram64 && sizeof(Trainer) == kTrainer64);
#endif

}  // namespace nacre
