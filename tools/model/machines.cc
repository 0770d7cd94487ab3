#include "tools/model/machines.h"

#include <algorithm>
#include <vector>

#include "engine/train/object_sizes.h"
#include "ports/vector/tiers.h"
#include "tools/model/gpu.h"

namespace nacre::tools {
namespace {

TargetMachine with_pointers(const char* name, uint32_t bytes) {
  if (bytes == 4) return {name, 4, kModel32, kProgram32, kTrainer32};
  return {name, 8, kModel64, kProgram64, kTrainer64};
}

std::vector<TargetMachine> make_machines() {
  std::vector<TargetMachine> all = {{"host", sizeof(void*), sizeof(Model), sizeof(Program), sizeof(Trainer)}};
  for (const char* name :
       {"arm/m4", "arm/m0plus", "arm/m3", "arm/m7", "arm/m33", "arm/m55", "riscv/rv32imac", "riscv/rv32imafc"})
    all.push_back(with_pointers(name, 4));
  for (uint32_t i = 0; i < uint32_t(arm::Tier::kCount); ++i)
    all.push_back(with_pointers(arm::port(arm::Tier(i)).name, arm::Tier(i) == arm::Tier::kArmv7 ? 4 : 8));
  for (uint32_t i = 0; i < uint32_t(x86::Tier::kCount); ++i)
    all.push_back(with_pointers(x86::port(x86::Tier(i)).name, 8));
  for (const char* name : {"cuda/sm75", "cuda/sm80", "cuda/sm86", "cuda/sm89", "cuda/sm90", "cuda/sm100", "cuda/sm120"})
    all.push_back(with_pointers(name, 8));
  return all;
}

}  // namespace

std::span<const TargetMachine> machines() {
  static const std::vector<TargetMachine> all = make_machines();
  return all;
}

const TargetMachine* find_machine(std::string_view name) {
  const auto found = std::ranges::find(machines(), name, &TargetMachine::name);
  return found != machines().end() ? &*found : nullptr;
}

}  // namespace nacre::tools
