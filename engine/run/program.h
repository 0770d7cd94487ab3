// Program: one compiled program of a model, bound to kernels and to the caller's memory.
//
//   nacre::Sizes sizes;
//   NACRE_TRY(nacre::Program::measure(model, index, kernels, &sizes));   // every byte that bind will ask for, exactly
//   NACRE_TRY(program.bind(model, index, kernels, memory));           // `memory` has at least that much
//   write program.input(0); NACRE_TRY(program.run()); read program.output(0);
//
// All that can fail, fails in open, measure or bind; run fails only on indices found in data. Nothing is allocated,
// ever.
//
// Fast kernels read weights in layouts of their own. bind packs copies of such weights behind the model's own bytes of
// the block kDerived, and measure counts them there. Where the block given is smaller, but holds the model's own bytes,
// nothing is packed: other kernels read the weights as they are, more slowly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/kernels/kernel.h"
#include "engine/model/model.h"

namespace nacre {

// Blocks of memory that the caller provides. Each starts at a multiple of kAlignment (16), or what Places asks for.
enum Block : uint32_t {
  kCalls = 0,     // bound steps: 12 + 8 bytes per operand each on a 32-bit machine
  kPrepared = 1,  // what kernels make of constant weights
  kScratch = 2,   // the largest need of a step, for each worker in whole lines of a cache
  kState = 3,     // what training learns; saved
  kStream = 4,    // what survives from run to run: Program::start
  kDerived = 5,
  kStepSums = 6,
  kArena = 7,  // kArena + bank: activations, inputs and outputs
  kBlockCount = kArena + kMaxBanks,
};

struct Sizes {
  uint64_t bytes[kBlockCount] = {};
  uint64_t work = 0;  // multiply-accumulates of one run of the compiled batch

  // Returns the bytes of one block that holds all of them, each at a multiple of `alignment`.
  uint64_t total(uint32_t alignment = kAlignment) const {
    uint64_t sum = 0;
    for (uint64_t b : bytes) sum += (b + alignment - 1) & ~uint64_t{alignment - 1};
    return sum;
  }
};

struct Memory {
  std::span<std::byte> block[kBlockCount];

  // Cuts one block of at least sizes.total(alignment) bytes, at a multiple of it, into all of them.
  static Status cut(std::span<std::byte> whole, const Sizes& sizes, Memory* memory, uint32_t alignment = kAlignment);
};

// For which machine measure() counts. The default is the one it runs on.
struct Machine {
  uint32_t pointer_bytes = sizeof(void*);
  uint32_t workers = 1;
  // False: without packed weights, the least that Program::bind takes. Places do not ask.
  bool packs = true;
};

class Program;
class Places;  // run/places.h: binds programs whose steps run on ports

// When the programs of a Trainer share their blocks' mirrors (run/places.h): while they are measured, while they are
// bound, and no longer.
enum class Sharing : uint8_t { kMeasure, kBind, kEnd };

// Trainer alone asks these of Places: its programs share what places keep (run/mirror.h). `update` is one of them.
struct TrainingFunctions {
  void (*sum)(Places& places, bool first);
  Status (*share)(Places& places, Sharing phase);
  // The host wrote the block; `zeroed`: zeros.
  void (*changed)(Places& places, Block block, bool zeroed);
  Status (*bring_home)(const Program& update);
  Status (*bring_sums)(const Program& update);
  std::span<std::byte> (*sums_at)(const Program& update, const Port& port);
  Status (*wrote_sums_at)(const Program& update, const Port& port, uint32_t counter);
  // The port that runs all programs of a step as one; null: none. Programs that are not bound are passed over. It is
  // looked for once.
  const Port* (*holder)(Places& places, std::span<const Program> step);
  Status (*hold)(Places& places, const Port& port);
  Status (*release)(Places& places, const Port& port, bool drop);
  void (*take_back)(Places& places);
};

// Program asks these of Places: by pointers, so that a firmware without ports links none of it.
struct PlaceFunctions {
  Status (*measure)(Places& places, const Model& model, uint32_t program, std::span<const KernelSet* const> kernels,
                    Sizes* sizes, const Machine& machine);
  Status (*bind)(Places& places, Program* bound, const Model& model, uint32_t program,
                 std::span<const KernelSet* const> kernels, const Memory& memory, const Workers* workers);
  Status (*run)(const Program& program, uint32_t first, uint32_t last, uint32_t rows);
  void (*unbind)(Program& program);
  TrainingFunctions training;
};

class Program {
 public:
  // Checks every step against the kernel that will run it and says every size. Needs no memory.
  static Status measure(const Model& model, uint32_t program, std::span<const KernelSet* const> kernels, Sizes* sizes,
                        const Machine& machine = {});

  // Makes the checks of measure, then fills the caller's memory, which lies apart from the model's bytes. `model`,
  // the kernel sets and `workers` must outlive the Program. After Model::attach or open it must be bound again.
  Status bind(const Model& model, uint32_t program, std::span<const KernelSet* const> kernels, const Memory& memory,
              const Workers* workers = nullptr);
  // Undoes bind: no input, no output, and run is refused. A program that is bound to places is unbound (or bound
  // again) while its memory is there, and only one of its copies: what its kernels hold ends here.
  void unbind();
  bool bound() const;

  uint32_t input_count() const { return bound() ? uint32_t(view_.inputs.size()) : 0; }
  uint32_t output_count() const { return bound() ? uint32_t(view_.outputs.size()) : 0; }
  // The bytes of an input (write before every run) or output (read after it); empty if there is no such.
  std::span<std::byte> input(uint32_t i) const {
    return i < input_count() ? bytes(view_.inputs[i]) : std::span<std::byte>();
  }
  std::span<const std::byte> output(uint32_t i) const {
    return i < output_count() ? bytes(view_.outputs[i]) : std::span<std::byte>();
  }
  // Any tensor of the program, wherever it lives; valid between its first and last step.
  std::span<std::byte> bytes(uint32_t tensor) const;

  // A stream begins: what survives from run to run becomes zero, for all programs that share the block.
  Status start() const;

  Status run() const { return run(0, view_.step_count, 0); }
  // The first `rows` rows of the compiled batch.
  Status run_rows(uint32_t rows) const;
  // Steps [first, last) of the program, with `rows` rows (0: all).
  Status run(uint32_t first, uint32_t last, uint32_t rows) const;

  // Returns the kernel of a step, to look up in a table of kernels; null if there is no such step.
  Kernel kernel(uint32_t step) const;
  // The operands of a step that are copies which bind packed: bit i of operand i.
  uint32_t packed_operands(uint32_t step) const;

  const ProgramView& view() const { return view_; }
  const Model* model() const { return bound() ? model_ : nullptr; }
  Places* places() const { return places_; }  // that it is bound to; null: none

 private:
  friend class Places;
  friend struct PackingRules;  // run/weight_packing.cc
  template <class Rules>
  struct Pass;

  template <class Rules>
  static Status measure_with(const Rules& rules, const Model& model, uint32_t program,
                             std::span<const KernelSet* const> kernels, Sizes* sizes, const Machine& machine);
  template <class Rules>
  static Status check_memory(const Pass<Rules>& pass, const ProgramView& view, const Memory& memory);
  template <class Rules>
  Status bind_with(const Rules& rules, const Model& model, uint32_t program, std::span<const KernelSet* const> kernels,
                   const Memory& memory, const Workers* workers);
  const Call* call_of(uint32_t step) const;  // null: no such step

  const Model* model_ = nullptr;
  const Workers* workers_ = nullptr;
  Places* places_ = nullptr;
  std::span<std::byte> scratch_;
  Call* calls_ = nullptr;
  ProgramView view_;
  uint32_t fixed_step_ = 0;                       // 1 + the first step whose batch cannot be lowered; 0: none
  std::byte* region_[kBlockCount - kState] = {};  // of block kState and up
};

}  // namespace nacre
