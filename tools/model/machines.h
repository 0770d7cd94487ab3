// Lists the targets that the tools know, with the sizes of the engine's objects there. A model for "x86/avx2",
// "arm/neon" and so on is compiled with the kernels for that instruction set (ports/vector/tiers.h). A model for
// "cuda/sm90" runs on the GPU (gpu.h); its host is a PC.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/train/object_sizes.h"

namespace nacre::tools {

struct TargetMachine {
  const char* name;
  uint32_t pointer_bytes;
  uint32_t model_bytes, program_bytes, trainer_bytes;  // sizeof(Model), sizeof(Program), sizeof(Trainer)
};

inline constexpr TargetMachine kMachines[] = {
    {"host", sizeof(void*), sizeof(Model), sizeof(Program), sizeof(Trainer)},
    {"arm/m4", 4, kModel32, kProgram32, kTrainer32},
    {"arm/m0plus", 4, kModel32, kProgram32, kTrainer32},
    {"arm/m3", 4, kModel32, kProgram32, kTrainer32},
    {"arm/m7", 4, kModel32, kProgram32, kTrainer32},
    {"arm/m33", 4, kModel32, kProgram32, kTrainer32},
    {"arm/m55", 4, kModel32, kProgram32, kTrainer32},
    {"riscv/rv32imac", 4, kModel32, kProgram32, kTrainer32},
    {"riscv/rv32imafc", 4, kModel32, kProgram32, kTrainer32},
    {"arm/armv7", 4, kModel32, kProgram32, kTrainer32},
    {"arm/neon", 8, kModel64, kProgram64, kTrainer64},
    {"arm/dotprod", 8, kModel64, kProgram64, kTrainer64},
    {"arm/i8mm", 8, kModel64, kProgram64, kTrainer64},
    {"x86/portable", 8, kModel64, kProgram64, kTrainer64},
    {"x86/avx2", 8, kModel64, kProgram64, kTrainer64},
    {"x86/avx2_vnni", 8, kModel64, kProgram64, kTrainer64},
    {"x86/avx512", 8, kModel64, kProgram64, kTrainer64},
    {"x86/avx512_vnni", 8, kModel64, kProgram64, kTrainer64},
    {"x86/avx512_bf16", 8, kModel64, kProgram64, kTrainer64},
    {"x86/amx", 8, kModel64, kProgram64, kTrainer64},
    {"cuda/sm75", 8, kModel64, kProgram64, kTrainer64},
    {"cuda/sm80", 8, kModel64, kProgram64, kTrainer64},
    {"cuda/sm86", 8, kModel64, kProgram64, kTrainer64},
    {"cuda/sm89", 8, kModel64, kProgram64, kTrainer64},
    {"cuda/sm90", 8, kModel64, kProgram64, kTrainer64},
    {"cuda/sm100", 8, kModel64, kProgram64, kTrainer64},
    {"cuda/sm120", 8, kModel64, kProgram64, kTrainer64},
};

// Returns the machine of that name, or null.
constexpr const TargetMachine* find_machine(const char* name) {
  for (const TargetMachine& machine : kMachines) {
    const char *a = machine.name, *b = name;
    while (*a != 0 && *a == *b) ++a, ++b;
    if (*a == *b) return &machine;
  }
  return nullptr;
}

constexpr bool is_microcontroller(std::string_view target) {
  return target.starts_with("arm/m") || target.starts_with("riscv/");
}

}  // namespace nacre::tools
