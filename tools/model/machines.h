// Lists the targets that the tools know, with the sizes of the engine's objects there. A model for "x86/avx2",
// "arm/neon" and so on is compiled with the kernels for that instruction set (ports/vector/tiers.h). A model for
// "cuda/sm90" runs on the GPU (gpu.h); its host is a PC.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace nacre::tools {

struct TargetMachine {
  const char* name;
  uint32_t pointer_bytes;
  uint32_t model_bytes, program_bytes, trainer_bytes;  // sizeof(Model), sizeof(Program), sizeof(Trainer)
};

// Returns the host, microcontrollers, the tiers of each port of vectors, and GPUs.
std::span<const TargetMachine> machines();
// Returns the machine of that name, or null.
const TargetMachine* find_machine(std::string_view name);

constexpr bool is_microcontroller(std::string_view target) {
  return target.starts_with("arm/m") || target.starts_with("riscv/");
}

}  // namespace nacre::tools
