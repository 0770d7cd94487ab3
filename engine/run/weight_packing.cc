#include "engine/run/weight_packing.h"

#include "engine/run/packed_weights.h"
#include "engine/run/pass.h"

namespace nacre {

struct PackedProgram {
  // Copies lie at whole lines of a cache, wherever the caller's block begins: some 48 bytes are room for that. Programs
  // that share a block find the copies at the same addresses.
  static constexpr uint32_t kLine = 64, kRoom = kLine - kAlignment;
  struct Rules;

  static std::byte* base_of(std::byte* derived) {
    return derived + (-reinterpret_cast<uintptr_t>(derived) & (kLine - 1));
  }

  static Status measure(const Model& model, uint32_t program, std::span<const KernelSet* const> kernels, Sizes* sizes,
                        const Machine& machine);
  static Status bind(Program& bound, const Model& model, uint32_t program, std::span<const KernelSet* const> kernels,
                     const Memory& memory, const Workers* workers);
};

struct PackedProgram::Rules {
  static constexpr uint32_t kTensorsBefore = 0;
  const Model& model;
  uint32_t program;
  std::span<const KernelSet* const> kernels;
  PackedWeights& packed;
  std::byte*& base;  // what offsets of copies count from, while the program is bound

  // The entry that takes a step, as PackedWeights asks it.
  const KernelEntry* operator()(const LoadedStep& step) const {
    const KernelEntry* entry = nullptr;
    return find_packing_entry(step, kernels, &entry) == Code::kOk ? entry : nullptr;
  }
  void look() const {
    bool wanted = false;
    for (const KernelSet* set : kernels) wanted |= PackedWeights::reads_layouts(*set);
    if (wanted && model.opened() && program < model.program_count()) packed.measure(model, program, kLine, *this);
  }
  uint64_t derived_bytes() const { return packed.end + kRoom; }

  uint32_t alignment() const { return kAlignment; }
  template <class Pass>
  Status start(const Pass&, const ProgramView&) const {
    return {};
  }
  Code find(const LoadedStep& step, std::span<const KernelSet* const> sets, const KernelEntry** found) const {
    return find_packing_entry(step, sets, found);
  }
  void tell(Sizes* sizes) const { sizes->bytes[kDerived] = derived_bytes(); }
  Status take(Program& bound, std::span<std::byte>) const {
    base = base_of(bound.region_[kDerived - kState]);
    packed.pack(model, program, kLine, *this, base);
    return {};
  }
  Code write(const Args& args, const LoadedStep& step, const KernelEntry& entry, Call* call) const {
    packed.take(step, entry, base, call);
    return prepare_step(entry, args);
  }
};

Status PackedProgram::measure(const Model& model, uint32_t program, std::span<const KernelSet* const> kernels,
                              Sizes* sizes, const Machine& machine) {
  PackedWeights packed;
  std::byte* base = nullptr;
  const Rules rules = {model, program, kernels, packed, base};
  rules.look();
  if (packed.count == 0) return Program::measure_plain(model, program, kernels, sizes, machine);
  return Program::measure_with(rules, model, program, kernels, sizes, machine);
}

Status PackedProgram::bind(Program& bound, const Model& model, uint32_t program,
                           std::span<const KernelSet* const> kernels, const Memory& memory, const Workers* workers) {
  PackedWeights packed;
  std::byte* base = nullptr;
  const Rules rules = {model, program, kernels, packed, base};
  rules.look();
  if (packed.count == 0) return bound.bind_plain(model, program, kernels, memory, workers);
  if (bytes_in(memory.block[kDerived]) < rules.derived_bytes()) {
    const Status plain = bound.bind_plain(model, program, kernels, memory, workers);
    if (plain.code != Code::kNoKernel) return plain;  // else a step has no kernel but one that packs
  }
  return bound.bind_with(rules, model, program, kernels, memory, workers);
}

extern const WeightPacking kWeightPacking;
constinit const WeightPacking kWeightPacking = {&PackedProgram::measure, &PackedProgram::bind};

}  // namespace nacre
