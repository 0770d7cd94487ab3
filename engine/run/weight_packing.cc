// Defines Program::measure and bind for kernels that read weights in other layouts than the file's (packed_weights.h).
// They replace those of program.cc, which are weak, in each image that links this file. Tables of the fast kernels
// name it (ports/vector/tables.h).
#include <utility>

#include "engine/run/packed_weights.h"
#include "engine/run/pass.h"

namespace nacre {

// Copies lie at whole cache lines, wherever the caller's block begins. Some 48 bytes leave room for that. Programs
// that share a block find the copies at the same addresses.
struct PackingRules {
  static constexpr uint32_t kLine = 64, kRoom = kLine - kAlignment, kTensorsBefore = 0;
  static constexpr bool kThreads = true;
  const Model& model;
  uint32_t program;
  std::span<const KernelSet* const> kernels;
  PackedWeights& packed;  // if it has no copies, every weight is read as it lies in the model
  std::byte*& base;       // offsets of copies count from it while the program is bound

  // Returns the entry that takes a step, for PackedWeights.
  const KernelEntry* operator()(const LoadedStep& step) const {
    const KernelEntry* entry = nullptr;
    return find_packing_entry(step, kernels, &entry) == Code::kOk ? entry : nullptr;
  }
  void look() const {
    bool wanted = false;
    for (const KernelSet* set : kernels) wanted |= PackedWeights::reads_layouts(*set);
    if (wanted && model.opened() && program < model.program_count()) packed.measure(model, program, kLine, *this);
  }
  bool packs() const { return packed.count != 0; }
  uint64_t derived_bytes() const { return packed.end + kRoom; }

  uint32_t alignment() const { return kAlignment; }
  template <class Pass>
  Status start(const Pass&, const ProgramView&) const {
    return {};
  }
  Code find(const LoadedStep& step, std::span<const KernelSet* const> sets, const KernelEntry** found) const {
    return packs() ? find_packing_entry(step, sets, found) : find_entry(step, sets, found);
  }
  void tell(Sizes* sizes) const {
    if (packs()) sizes->bytes[kDerived] = derived_bytes();
  }
  Status take(Program& bound, std::span<std::byte>) const {
    if (!packs()) return {};
    std::byte* const derived = bound.region_[kDerived - kState];
    base = derived + (-reinterpret_cast<uintptr_t>(derived) & (kLine - 1));
    packed.pack(model, program, kLine, *this, base);
    return {};
  }
  Code write(const Args& args, const LoadedStep& step, const KernelEntry& entry, Call* call) const {
    packed.take(step, entry, base, call);
    return prepare_step(entry, args);
  }
};

Status Program::measure(const Model& model, uint32_t program, std::span<const KernelSet* const> kernels, Sizes* sizes,
                        const Machine& machine) {
  PackedWeights packed;
  std::byte* base = nullptr;
  const PackingRules rules = {model, program, kernels, packed, base};
  if (machine.packs) rules.look();
  return measure_with(rules, model, program, kernels, sizes, machine);
}

Status Program::bind(const Model& model, uint32_t program, std::span<const KernelSet* const> kernels,
                     const Memory& memory, const Workers* workers) {
  PackedWeights packed;
  std::byte* base = nullptr;
  const PackingRules rules = {model, program, kernels, packed, base};
  rules.look();
  if (rules.packs() && bytes_in(memory.block[kDerived]) < rules.derived_bytes()) {
    const PackedWeights wanted = std::exchange(packed, {});
    const Status plain = bind_with(rules, model, program, kernels, memory, workers);
    if (plain.code != Code::kNoKernel) return plain;
    packed = wanted;  // a step has only kernels that pack; report the bytes that this takes
  }
  return bind_with(rules, model, program, kernels, memory, workers);
}

extern const char kWeightPacking;
const char kWeightPacking = 0;

}  // namespace nacre
