// Places: the ports that the steps of a program run on. `place` of a step is an index of the caller's ports
// (kernels/kernel.h): the kernels of that port are asked first, then those of place 0, and last those that the caller
// passes besides, which run on the host. So a caller without the port of a place runs its steps as those of place 0.
//
//   const Port* const ports[] = {nullptr, &device};               // place 0: the host; place 1: a device
//   Places places(ports);
//   NACRE_TRY(places.measure(model, 0, kernels, &sizes));
//   NACRE_TRY(Memory::cut(block, sizes, &memory, places.alignment()));
//   NACRE_TRY(places.give(1, device_memory));                     // at least places.bytes(1), aligned as the port asks
//   NACRE_TRY(places.bind(&program, model, 0, kernels, memory));
//   NACRE_TRY(program.run());
//
// All blocks of Memory lie on the host, whatever the places are: inputs and outputs are written and read as without
// ports, and so are state, streams and checkpoints. A port with memory of its own (one with `copy`) has a mirror there
// of every block that one of its steps uses, of the same offsets, and a copy of the weights that they read, made by
// bind. Consecutive steps that run on one port are a segment, found by bind. run() does for each, in this order: begin;
// copies in what the segment reads and has not made itself; runs its steps; copies out what it wrote and lives on;
// finish. A guard is read from where the segment has it. A port without `copy` sees the host's memory: the blocks then
// begin at multiples of its alignment and have its tail bytes behind them.
//
// Weights that a kernel reads in another layout than the file's are packed by bind, behind the model's own bytes of the
// block kDerived. All programs for one target have the same copies there: those that share the block are bound with the
// same ports and kernels.
//
// A place that keeps its memory (`keep`) keeps the content of a block that it was given. The programs of a
// Trainer then have one mirror there of each block of kState, kDerived and kStepSums. It is copied in as a whole,
// after bind and when the host wrote the block; bytes that a program writes stay there: of the step's sums only
// counters are copied out. The host's state and sums are then older, until Trainer::state() or sums() has them copied
// home. A block that a step of another place uses is copied as without `keep`.
//
// Programs whose steps all run on such a place, on a port that holds (Port::hold), are one run where Trainer::step asks
// for it: what they copy to the host comes at its end.
//
// A run that a port makes fail (kPortFailed, or the code of its kernel) leaves the state, and the streams of a program
// that writes them, as they were: where a port has `begin` or `copy`, and so can fail, they are kept in the block
// kCalls while it runs; a state that the place keeps, in a second block of its memory, which runs of the other programs
// fill. Where that cannot be copied back, what was learned since the state was home is lost, and every run is refused
// (kPortFailed) until the host writes the state (Trainer::start). Every begin that succeeded is followed by one finish.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engine/run/mirror.h"
#include "engine/run/packed_weights.h"
#include "engine/run/program.h"

namespace nacre {

class Places {
 public:
  static constexpr uint32_t kMaxPlaces = 8;  // open refuses a step of a higher place
  static constexpr uint32_t kMaxAlignment = 4096, kMaxTailBytes = 4096;

  // `ports`: by place; null is none. They, and what they point at, must outlive every program that is bound to them.
  explicit Places(std::span<const Port* const> ports);
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  // Program::measure and bind over places. `memory`: of `sizes`, each block at a multiple of alignment(). kPort: what
  // is wrong with a port.
  Status measure(const Model& model, uint32_t program, std::span<const KernelSet* const> kernels, Sizes* sizes,
                 const Machine& machine = {}) {
    return functions_->measure(*this, model, program, kernels, sizes, machine);
  }
  Status bind(Program* bound, const Model& model, uint32_t program, std::span<const KernelSet* const> kernels,
              const Memory& memory, const Workers* workers = nullptr) {
    return functions_->bind(*this, bound, model, program, kernels, memory, workers);
  }

  // Returns the alignment of every block on the host: 16, or more where a port on its memory asks for it. Known once
  // measure has looked at the ports.
  uint32_t alignment() const { return alignment_; }

  // Bytes that measure found for a place, of the program or of all programs of the trainer that was measured; 0 on the
  // host, and where the port shares its memory.
  uint64_t bytes(uint32_t place) const { return place < kMaxPlaces ? places_[place].needed : 0; }

  // The memory of a place, in its port's address space, for the programs that are bound next: each takes the part that
  // it needs. Given again, it is taken from its start again: first unbind what was bound to it. kPort: no port, or one
  // that shares the host's.
  Status give(uint32_t place, std::span<std::byte> memory);

  // Call it before anything is measured: nothing but the programs bound here writes the memory that the place is
  // given. Its port copies within its memory (kWithinPort).
  void keep(uint32_t place) {
    if (place < kMaxPlaces) places_[place].keeps = true;
  }

  // Trainer asks these.
  const TrainingFunctions& training() const { return functions_->training; }

 private:
  static constexpr uint32_t kShared = kStepSums - kState + 1;
  static constexpr uint32_t kSums = kStepSums - kState;  // index of the block kStepSums; the one of kState is 0
  static constexpr uint16_t kStateBit = 1;               // of block kState
  using MirrorStates = std::array<MirrorState, kShared>;
  struct Place {
    uint64_t needed = 0;  // told by bytes()
    std::span<std::byte> memory;
    size_t taken = 0;  // by programs that are bound
    // The program at hand:
    std::byte* part = nullptr;
    uint64_t scratch = 0;  // the largest need of a step
    uint64_t weights = 0;  // so far
    uint16_t blocks = 0;   // that a step uses: bit per block from kState on
    // The programs of a Trainer, where the place keeps its memory; bits as in `blocks`:
    bool keeps = false;
    uint16_t shared = 0;                // blocks with one mirror for all
    uint16_t foreign = 0;               // blocks that a step of another place uses: these mirrors are not kept
    MirrorStates states = {};           // which copies are newer: run/mirror.h
    std::byte* saved = nullptr;         // a second block of the state
    StateCopy copy = StateCopy::kNone;  // there
    struct {                            // when a run of several programs began
      MirrorStates states;
      StateCopy copy;
    } held = {};
    std::span<std::byte> mirror[kShared];  // of block kState + i, while the programs are bound

    // A run failed; `before` it the mirrors were in these states.
    void undo(const MirrorStates& before) {
      for (uint32_t i = 0; i < kShared; ++i) states[i] = undone(before[i], i == 0);
    }
  };
  // A block whose mirror a place keeps, for all programs of a Trainer.
  struct KeptBlock {
    Place* place;  // null: what was asked for lies in none
    uint32_t block;
    uint16_t bit() const { return uint16_t(1u << (block - kState)); }
    MirrorState& state() const { return place->states[block - kState]; }
  };
  struct Run;

  // PlaceFunctions.
  static Status measure(Places& places, const Model& model, uint32_t program, std::span<const KernelSet* const> kernels,
                        Sizes* sizes, const Machine& machine);
  static Status bind(Places& places, Program* bound, const Model& model, uint32_t program,
                     std::span<const KernelSet* const> kernels, const Memory& memory, const Workers* workers);
  static Status run(const Program& program, uint32_t first, uint32_t last, uint32_t rows);
  static void unbind(Program& program);
  // TrainingFunctions.
  static void sum(Places& self, bool first);
  static Status share(Places& self, Sharing phase);
  static void changed(Places& self, Block block, bool zeroed);
  static Status bring_home(const Program& update);
  static Status bring_sums(const Program& update);
  static std::span<std::byte> sums_at(const Program& update, const Port& port);
  static Status wrote_sums_at(const Program& update, const Port& port, uint32_t counter);
  static const Port* holder(Places& self, std::span<const Program> step);
  static Status hold(Places& self, const Port& port);
  static Status release(Places& self, const Port& port, bool drop);
  static void take_back(Places& self);
  static const PlaceFunctions kFunctions;

  // Binding of a program (run/pass.h).
  struct Rules;
  Status start(const Model& model, const ProgramView& view, std::span<const KernelSet* const> kernels, bool binding);
  struct Picked;  // pick() as PackedWeights asks it
  Code pick(const LoadedStep& step, std::span<const KernelSet* const> kernels, const KernelEntry** found,
            uint32_t* place) const;
  Code find(const LoadedStep& step, std::span<const KernelSet* const> kernels, const KernelEntry** found);
  void tell(Sizes* sizes);
  Status take(Program& program, std::span<std::byte> calls);
  Code write(Args args, const LoadedStep& step, const KernelEntry& entry, Call* call);

  const Port* port_at(uint32_t place) const { return place < ports_.size() ? ports_[place] : nullptr; }
  bool apart(uint32_t place) const { return port_at(place) != nullptr && port_at(place)->copy != nullptr; }
  uint64_t kept_bytes(const Model& model, Entry entry) const;  // while a program of this entry runs
  uint64_t padded(uint32_t place, uint64_t bytes) const;
  uint64_t block_bytes(uint32_t block) const;
  uint64_t mirror(uint32_t place, uint32_t block) const;         // offset in the program's part
  uint64_t shared_mirror(uint32_t place, uint32_t block) const;  // offset in the mirrors that programs share
  bool shares(uint32_t place, uint32_t block) const;             // the program at hand
  std::byte* mirror_at(uint32_t place, uint32_t block) const;
  KeptBlock kept_at(const Port& port, const void* at);
  Place* keeper_of_sums(const Port& port);
  const Port* holder_of(const Program& program, bool first) const;
  bool keeps_state(uint32_t place) const;
  uint32_t newest_state() const;
  bool copy_state(uint32_t newest, bool back);
  std::byte* kept_at_home(const Program& program) const;
  void tell_shared(const LoadedStep& step);
  uint64_t weights_offset(uint32_t place) const;
  void count(const LoadedStep& step, const KernelEntry& entry);
  Code relocate(const LoadedStep& step, const KernelEntry& entry, Call* call);
  bool fill_tail(uint32_t place, std::byte* at, uint64_t bytes) const;

  friend class Program;

  const PlaceFunctions* functions_;
  std::span<const Port* const> ports_;
  Place places_[kMaxPlaces];
  uint64_t sums_[kMaxPlaces] = {};  // of the trainer that is measured
  bool sharing_ = false;            // its programs are measured or bound
  bool lost_ = false;               // a state that was newer than the host's
  bool held_ = false;               // several programs run as one
  bool holder_known_ = false;       // of the trainer that is bound
  const Port* holder_ = nullptr;    // that runs a step of it as one; null: none
  // The program at hand:
  const Model* model_ = nullptr;
  ProgramView view_;
  bool binding_ = false;
  uint32_t program_ = 0;  // its index
  std::span<const KernelSet* const> kernels_;
  PackedWeights packed_;
  std::byte* derived_ = nullptr;  // while it is bound: the block kDerived
  uint32_t alignment_ = kAlignment;
  uint32_t current_ = kMaxPlaces;  // place of the port that runs the step at hand; kMaxPlaces: the host
  uint32_t segment_ = 0;
  const Port* before_ = nullptr;  // port of the step before
};

}  // namespace nacre
