// Program: one compiled program of a model, bound to kernels and to the caller's memory.
//
// Example:
//   const KernelSet* const kernels[] = {&reference::kernels()};
//   Sizes sizes;
//   Memory memory;
//   NACRE_TRY(Program::measure(model, index, kernels, &sizes));   // every byte that bind will ask for, exactly
//   NACRE_TRY(Memory::cut(block, sizes, &memory));                // sizes.total() bytes, at a multiple of 16
//   NACRE_TRY(program.bind(model, index, kernels, memory));
//   std::memcpy(program.input(0).data(), pixels.data(), program.input(0).size());
//   NACRE_TRY(program.run());
//   std::memcpy(scores.data(), program.output(0).data(), program.output(0).size());
//
// Example:
//   NACRE_TRY(program.start());                                   // a stream: once before the first chunk
//   while (next_chunk(program.input(0))) {
//     NACRE_TRY(program.run());                                   // reads and writes the block kStream
//     use(program.output(0));
//   }
//
// Models and kernels are checked in open, measure and bind. After bind, run fails only on indices found in data, on
// wrong numbers of rows or steps, or if a port fails. No call allocates.
//
// A Program runs on one thread at a time. Programs with blocks of their own may run on several threads at once, also
// if they are bound to one Model.
//
// Fast kernels read weights in layouts of their own. bind packs copies of such weights behind the model's own bytes
// of the block kDerived, and measure counts the copies there. If the block has room for the model's own bytes alone,
// bind packs nothing: other kernels then read the weights as they are, more slowly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/kernels/kernel.h"
#include "engine/model/model.h"

namespace nacre {

// Blocks of memory that the caller provides. Each starts at a multiple of kAlignment (16), or of Places::alignment().
// The caller owns them, and keeps them in place until the program is unbound. bind writes kCalls and kPrepared, and
// packed weights in kDerived. It leaves the content of all other blocks as it is.
enum Block : uint32_t {
  kCalls = 0,     // bound steps: on a 32-bit machine 12 bytes each, and 8 per operand and guard; places take more
  kPrepared = 1,  // data that kernels compute once from constant weights
  kScratch = 2,   // the most that a step needs, for each worker, in whole cache lines
  kState = 3,     // the values that training learns; checkpoints save this block
  kStream = 4,    // values that survive from run to run; Program::start zeros them
  kDerived = 5,   // values that `derive` computes from the state, and packed weights
  kStepSums = 6,  // gradients, loss and counts of one training step
  kArena = 7,     // kArena + bank: activations, inputs and outputs
  kBlockCount = kArena + kMaxBanks,
};

// The memory and the work of a program.
struct Sizes {
  uint64_t bytes[kBlockCount] = {};  // bytes of each block; 0: the program does not need it
  uint64_t work = 0;                 // multiply-accumulates of one run of the compiled batch

  // Returns the bytes of one block that holds all blocks, each at a multiple of `alignment`, a power of two.
  uint64_t total(uint32_t alignment = kAlignment) const {
    uint64_t sum = 0;
    for (uint64_t b : bytes) sum += (b + alignment - 1) & ~uint64_t{alignment - 1};
    return sum;
  }
};

// The caller's blocks, by Block. A block may be larger than needed. Blocks must not overlap, so each may lie in a
// memory of its own, such as TCM or SRAM.
struct Memory {
  std::span<std::byte> block[kBlockCount];

  // Cuts `whole` into all blocks, and owns nothing. `whole` has at least sizes.total(alignment) bytes (kMemorySize) and
  // starts at a multiple of `alignment`, a power of two (kMemoryAlignment). A refusal leaves *memory as it was.
  static Status cut(std::span<std::byte> whole, const Sizes& sizes, Memory* memory, uint32_t alignment = kAlignment);
};

// The machine that measure() counts bytes for. The default is the machine that measure() runs on.
struct Machine {
  uint32_t pointer_bytes = sizeof(void*);  // 4 or 8
  uint32_t workers = 1;                    // Workers::count of bind, at least 1: each needs scratch
  // If false, no packed weights are counted, so the sizes are the least that Program::bind takes. Places ignore this.
  bool packs = true;
};

class Program;
class Places;  // run/places.h: binds programs whose steps run on ports

// Phases in which a Trainer's programs share the mirrors of their blocks (run/places.h): they are measured, they are
// bound, and the end of either.
enum class Sharing : uint8_t { kMeasure, kBind, kEnd };

// Functions of Places that only Trainer calls: the programs of a Trainer share the mirrors that places keep
// (run/mirror.h). `update` is one of these programs.
struct TrainingFunctions {
  void (*sum)(Places& places, bool first);
  Status (*share)(Places& places, Sharing phase);
  // Tells Places that the host wrote the block; `zeroed`: with zeros.
  void (*changed)(Places& places, Block block, bool zeroed);
  Status (*bring_home)(const Program& update);
  Status (*bring_sums)(const Program& update);
  std::span<std::byte> (*sums_at)(const Program& update, const Port& port);
  Status (*wrote_sums_at)(const Program& update, const Port& port, uint32_t counter);
  // Returns the port that runs all programs of a step as one run, or null. Programs that are not bound are passed
  // over. The answer is computed once and kept.
  const Port* (*holder)(Places& places, std::span<const Program> step);
  Status (*hold)(Places& places, const Port& port);
  Status (*release)(Places& places, const Port& port, bool drop);
  void (*take_back)(Places& places);
};

// Functions of Places that Program calls. It calls them through pointers, so that a firmware without ports links none
// of them.
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
  // Checks every step of program number `program` against the kernel that will run it, and gives the size of every
  // block. Needs no memory. `kernels`: the sets, none of them null; the first that has a kernel for a step runs it.
  // kNotBound: the model is not opened. kNoEntry: there is no such program. kNoKernel to kOperandMissing, kRole,
  // kOverflow, kBounds, kWork: a step is refused, whose position in Model::steps() is the index. *sizes is 0 then.
  static Status measure(const Model& model, uint32_t program, std::span<const KernelSet* const> kernels, Sizes* sizes,
                        const Machine& machine = {});

  // Makes the checks of measure, then fills the caller's memory, which must not overlap the model's bytes. `model`,
  // the kernel sets and `workers` must stay in place until unbind; the span `kernels` and `memory` need not. After
  // Model::attach or Model::open the Program must be bound again. `workers`: threads for the steps; null: the caller's
  // thread alone. Returns the codes of measure, and of a block kMemorySize, kMemoryAlignment or kMemoryOverlap
  // (Table::kMemory). kPortFailed: a library could not prepare a step. After a refusal the Program is unbound.
  Status bind(const Model& model, uint32_t program, std::span<const KernelSet* const> kernels, const Memory& memory,
              const Workers* workers = nullptr);
  // Undoes bind: the Program has no input and no output, and run is refused. A Program bound to places must be
  // unbound (or bound again) while its memory is there, and through only one of its copies: unbind releases the
  // objects that its kernels hold.
  void unbind();
  bool bound() const;  // whether bind succeeded, and neither unbind nor the model's attach or open came after it

  uint32_t input_count() const { return bound() ? uint32_t(view_.inputs.size()) : 0; }    // 0 if not bound
  uint32_t output_count() const { return bound() ? uint32_t(view_.outputs.size()) : 0; }  // 0 if not bound
  // Returns the bytes of an input (write them before every run) or output (read them after it); empty if there is
  // none. They lie in the caller's arena, row-major, in the type and dims of the tensor's record for the compiled batch
  // (Model::tensors() at view().inputs[i]). An output may share bytes with an input: read it before the next write.
  std::span<std::byte> input(uint32_t i) const {
    return i < input_count() ? bytes(view_.inputs[i]) : std::span<std::byte>();
  }
  std::span<const std::byte> output(uint32_t i) const {
    return i < output_count() ? bytes(view_.outputs[i]) : std::span<std::byte>();
  }
  // Returns the bytes of a tensor of the program. Arena bytes are valid between the first and last step that use it.
  // Weights must not be written. Empty: the Program is not bound, there is no such tensor, or it belongs to another
  // program.
  std::span<std::byte> bytes(uint32_t tensor) const;

  // Begins a stream: zeros the block kStream, which survives from run to run, for all programs that share it. bind
  // does not do that: call start() before the first run of a network with streams. kNotBound is the only refusal.
  Status start() const;

  // Runs all steps for the compiled batch. kNotBound: nothing happened. kIndex: an index in the data is out of range
  // in the step that the index names. kPortFailed, or the code of a port: a port failed. After a failure outputs and
  // arena hold no results; streams may have moved on if no port can fail (run/places.h): call start().
  Status run() const { return run(0, view_.step_count, 0); }
  // Runs the first `rows` rows of the compiled batch: only these rows of batched inputs are read, and of outputs
  // written. kRows: `rows` is 0 or more than the batch (also if the Program is not bound). kRowsUnsupported: the step
  // in `index` holds for the whole batch alone. Nothing happened then. Else as run().
  Status run_rows(uint32_t rows) const;
  // Runs steps [first, last) of the program with `rows` rows (0: the compiled batch), as a profiler does. kRange: the
  // program has no such steps. Else as run_rows().
  Status run(uint32_t first, uint32_t last, uint32_t rows) const;

  // Returns the kernel of a step, counted from the program's first one, to look it up in a table of kernels. Returns
  // null if the program has no such step or is not bound.
  Kernel kernel(uint32_t step) const;
  // Returns which operands of a step are copies that bind packed: bit i for operand i; 0 if there is no such step.
  uint32_t packed_operands(uint32_t step) const;

  const ProgramView& view() const { return view_; }                  // the program that bind was given
  const Model* model() const { return bound() ? model_ : nullptr; }  // null if not bound
  Places* places() const { return places_; }                         // the places that the Program is bound to, or null

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
  const Call* call_of(uint32_t step) const;  // null if there is no such step

  const Model* model_ = nullptr;
  const Workers* workers_ = nullptr;
  Places* places_ = nullptr;
  std::span<std::byte> scratch_;
  Call* calls_ = nullptr;
  ProgramView view_;
  uint32_t fixed_step_ = 0;                       // 1 + the first step whose batch cannot be lowered; 0 if none
  std::byte* region_[kBlockCount - kState] = {};  // blocks from kState on
};

}  // namespace nacre
