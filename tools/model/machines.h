// The machines that `nacre size --target` knows: what the engine's objects take there. The firmware build includes this
// header too, so the assertions below are checked by the compiler of each machine.
#pragma once

#include <cstdint>

#include "engine/model/model.h"
#include "engine/run/program.h"
#include "engine/train/trainer.h"

namespace nacre::tools {

struct TargetMachine {
  const char* name;
  uint32_t pointer_bytes;
  uint32_t model_bytes, program_bytes, trainer_bytes;  // sizeof(Model), sizeof(Program), sizeof(Trainer)
};

inline constexpr TargetMachine kMachines[] = {
    {"host", sizeof(void*), sizeof(Model), sizeof(Program), sizeof(Trainer)},
    {"arm/m4", 4, 64, 124, 552},
};

#if defined(__arm__)
static_assert(sizeof(void*) == kMachines[1].pointer_bytes);
static_assert(sizeof(Model) == kMachines[1].model_bytes);
static_assert(sizeof(Program) == kMachines[1].program_bytes);
static_assert(sizeof(Trainer) == kMachines[1].trainer_bytes);
#endif

// The machine of that name, or null.
constexpr const TargetMachine* find_machine(const char* name) {
  for (const TargetMachine& machine : kMachines) {
    const char *a = machine.name, *b = name;
    while (*a != 0 && *a == *b) ++a, ++b;
    if (*a == *b) return &machine;
  }
  return nullptr;
}

}  // namespace nacre::tools
