// Places: the ports that the steps of a program run on. The `place` of a step is an index into the caller's list of
// ports (kernels/kernel.h). A kernel is looked for in the set of that port first, then in the set of the port of
// place 0, and last in the sets that the caller passes besides, whose kernels run on the host. So a caller that has
// no port for a place runs its steps as if they were steps of place 0.
//
// Example:
//   const Port* const ports[] = {nullptr, &device.port()};        // place 0: the host; place 1: a device
//   Places places(ports);
//   NACRE_TRY(places.measure(model, 0, kernels, &sizes));
//   NACRE_TRY(Memory::cut(block, sizes, &memory, places.alignment()));
//   NACRE_TRY(places.give(1, device.allocate(places.bytes(1))));  // aligned as the port asks
//   NACRE_TRY(places.bind(&program, model, 0, kernels, memory));
//   NACRE_TRY(program.run());
//
// Example:
//   const Port* const host[] = {&x86::port(x86::best())};         // the fast kernels of this processor, in place 0
//   Places places(host);
//   NACRE_TRY(places.measure(model, 0, kernels, &sizes, {.workers = 4}));
//   NACRE_TRY(Memory::cut(block, sizes, &memory, places.alignment()));
//   NACRE_TRY(places.bind(&program, model, 0, kernels, memory, pool.workers()));
//
// All blocks of Memory lie on the host, with and without ports. Inputs, outputs, state, streams and checkpoints are
// written and read as without ports. A port with memory of its own (a port with `copy`) has there a mirror of every
// block that one of its steps uses, with the same offsets. It also has a copy of the weights that its steps read,
// made by bind.
//
// Consecutive steps that run on one port are a segment, found by bind. For each segment run() does this, in this
// order: begin; copy in the tensors that the segment reads and has not made itself; run its steps; copy out the
// tensors that it wrote and that are read later; finish. A guard is read from the memory that the segment uses. A
// port without `copy` sees the host's memory: the blocks then begin at multiples of its alignment, and its tail bytes
// follow each block.
//
// If a kernel reads weights in another layout than the file's, bind packs copies of them behind the model's own bytes
// of the block kDerived. All programs for one target have the same copies there, so programs that share this block
// must be bound with the same ports and kernels.
//
// A place that keeps its memory (`keep`) keeps the content of its mirrors from run to run. All programs of a Trainer
// then share one mirror of each of the blocks kState, kDerived and kStepSums. A mirror is copied in as a whole: after
// bind, and when the host wrote the block. Bytes that a program writes stay in the mirror. Of the step's sums only
// the counters are copied out. The host's state and sums are then older than the mirrors, until Trainer::state() or
// sums() copies the mirrors home. A block that a step of another place uses is copied as without `keep`.
//
// Trainer::step runs its programs as one run if all their steps run on such a place, on a port that holds
// (Port::hold). The tensors that these programs copy to the host then arrive at the end of this run.
//
// A run that fails because of a port (kPortFailed, or the code of its kernel) leaves the state as it was, and the
// streams of a program that writes them. If a port has `begin` or `copy`, and so can fail, the block kCalls holds a
// copy of these bytes during a run. A state that a place keeps is copied to a second block of the place's memory
// instead, during runs of programs that only read it. If the second block cannot be copied back, the values learned
// since the state was last at home are lost. Every run is then refused (kPortFailed) until the host writes the state
// (Trainer::start). Every begin that succeeded is followed by one finish.
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

  // `ports`: the port of each place, or null; at most kMaxPlaces. The list, the ports and everything they point at must
  // outlive every program that is bound to these Places, and so must the Places. Places are not synchronised: bind and
  // run their programs on one thread at a time.
  explicit Places(std::span<const Port* const> ports);
  Places& operator=(const Places&) = delete;

  // Do as Program::measure and Program::bind, with the kernels of these ports. `memory` has `sizes`, with each block
  // at a multiple of alignment(). They return the codes of these two, and others in Table::kPort, with the place.
  // kPort: a port is not valid, or there are over kMaxPlaces. kMemorySize, kMemoryAlignment: give() gave less than
  // bytes(), beside programs that were bound before, or at a wrong address. kPortFailed: a copy to the port failed.
  Status measure(const Model& model, uint32_t program, std::span<const KernelSet* const> kernels, Sizes* sizes,
                 const Machine& machine = {}) {
    return functions_->measure(*this, model, program, kernels, sizes, machine);
  }
  Status bind(Program* bound, const Model& model, uint32_t program, std::span<const KernelSet* const> kernels,
              const Memory& memory, const Workers* workers = nullptr) {
    return functions_->bind(*this, bound, model, program, kernels, memory, workers);
  }

  // Returns the alignment of every block on the host: 16, or more if a port that works in the host's memory asks for
  // more. Known after measure.
  uint32_t alignment() const { return alignment_; }

  // Returns the bytes that a place needs for the program, or all programs of the trainer, measured last. Returns 0 if
  // the place is the host, or if its port works in the host's memory.
  uint64_t bytes(uint32_t place) const { return place < kMaxPlaces ? places_[place].needed : 0; }

  // Gives a place its memory, in the address space of its port, at a multiple of Port::alignment. The caller owns it,
  // and keeps it until the programs are unbound. Each program that is bound afterwards takes the part that it needs.
  // To give the place memory again, first unbind the programs that were bound to it: parts are then taken from the
  // start again. kPort: the place has no port, or a port that works in the host's memory; nothing happened.
  Status give(uint32_t place, std::span<std::byte> memory);

  // Makes a place keep the content of its memory between runs. Call keep() before measure. From then on only the
  // programs bound here may write this memory. The port of the place must copy within its memory (kWithinPort).
  void keep(uint32_t place) {
    if (place < kMaxPlaces) places_[place].keeps = true;
  }

  // Returns the functions that Trainer calls.
  const TrainingFunctions& training() const { return functions_->training; }

 private:
  // A copy exists only for the C API, which makes a Places in its caller's bytes before anything is measured.
  Places(const Places&) = default;

  static constexpr uint32_t kShared = kStepSums - kState + 1;
  static constexpr uint32_t kSums = kStepSums - kState;  // index of the block kStepSums; the one of kState is 0
  static constexpr uint16_t kStateBit = 1;               // bit of block kState
  using MirrorStates = std::array<MirrorState, kShared>;
  struct Place {
    uint64_t needed = 0;  // returned by bytes()
    std::span<std::byte> memory;
    size_t taken = 0;  // bytes taken by programs that are bound
    // State of the current program:
    std::byte* part = nullptr;
    uint64_t scratch = 0;  // the largest scratch of a step
    uint64_t weights = 0;  // bytes of weights so far
    uint16_t blocks = 0;   // blocks that a step uses: one bit per block from kState on
    // State of the programs of a Trainer, if the place keeps its memory. Bits are as in `blocks`:
    bool keeps = false;
    uint16_t shared = 0;                // blocks with one mirror for all
    uint16_t foreign = 0;               // blocks that a step of another place uses; these mirrors are not kept
    MirrorStates states = {};           // say which copies are newer: run/mirror.h
    std::byte* saved = nullptr;         // address of a second block of the state
    StateCopy copy = StateCopy::kNone;  // state of that second block
    struct {                            // states at the time when a run of several programs began
      MirrorStates states;
      StateCopy copy;
    } held = {};
    std::span<std::byte> mirror[kShared];  // mirror of block kState + i, while the programs are bound

    // Undoes a run that failed. `before`: the states of the mirrors when the run began.
    void undo(const MirrorStates& before) {
      for (uint32_t i = 0; i < kShared; ++i) states[i] = undone(before[i], i == 0);
    }
  };
  // A block whose mirror a place keeps, for all programs of a Trainer.
  struct KeptBlock {
    Place* place;  // null if the address lies in no mirror
    uint32_t block;
    uint16_t bit() const { return uint16_t(1u << (block - kState)); }
    MirrorState& state() const { return place->states[block - kState]; }
  };
  struct Run;

  // These are the PlaceFunctions.
  static Status measure(Places& places, const Model& model, uint32_t program, std::span<const KernelSet* const> kernels,
                        Sizes* sizes, const Machine& machine);
  static Status bind(Places& places, Program* bound, const Model& model, uint32_t program,
                     std::span<const KernelSet* const> kernels, const Memory& memory, const Workers* workers);
  static Status run(const Program& program, uint32_t first, uint32_t last, uint32_t rows);
  static void unbind(Program& program);
  // These are the TrainingFunctions.
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
  struct Picked;  // calls pick() for PackedWeights
  Code pick(const LoadedStep& step, std::span<const KernelSet* const> kernels, const KernelEntry** found,
            uint32_t* place) const;
  Code find(const LoadedStep& step, std::span<const KernelSet* const> kernels, const KernelEntry** found);
  void tell(Sizes* sizes);
  Status take(Program& program, std::span<std::byte> calls);
  Code write(Args args, const LoadedStep& step, const KernelEntry& entry, Call* call);

  const Port* port_at(uint32_t place) const { return place < ports_.size() ? ports_[place] : nullptr; }
  bool apart(uint32_t place) const { return port_at(place) != nullptr && port_at(place)->copy != nullptr; }
  uint64_t kept_bytes(const Model& model, Entry entry) const;  // needed while a program of this entry runs
  uint64_t padded(uint32_t place, uint64_t bytes) const;
  uint64_t block_bytes(uint32_t block) const;
  uint64_t mirror(uint32_t place, uint32_t block) const;         // offset in the program's part
  uint64_t shared_mirror(uint32_t place, uint32_t block) const;  // offset in the mirrors that programs share
  bool shares(uint32_t place, uint32_t block) const;             // for the current program
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
  uint64_t sums_[kMaxPlaces] = {};  // bytes() of the trainer that is measured
  bool sharing_ = false;            // the programs of a trainer are measured or bound
  bool lost_ = false;               // a state that was newer than the host's is lost
  bool held_ = false;               // several programs run as one
  bool holder_known_ = false;       // `holder_` is computed for the trainer that is bound
  const Port* holder_ = nullptr;    // port that runs a step of this trainer as one run, or null
  // State of the current program:
  const Model* model_ = nullptr;
  ProgramView view_;
  bool binding_ = false;
  uint32_t program_ = 0;  // index of the program
  std::span<const KernelSet* const> kernels_;
  PackedWeights packed_;
  std::byte* derived_ = nullptr;  // the block kDerived, while the program is bound
  uint32_t alignment_ = kAlignment;
  uint32_t current_ = kMaxPlaces;  // place of the port that runs the current step; kMaxPlaces means the host
  uint32_t segment_ = 0;
  const Port* before_ = nullptr;  // port of the previous step
};

}  // namespace nacre
