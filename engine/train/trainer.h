// Trainer: trains a model in the caller's memory. A step is a transaction: it changes the state as a whole, or it is
// refused and changes only the loss scale and its counters. With immediate updates each parameter is accepted or
// refused on its own.
//
// Example:
//   const KernelSet* const kernels[] = {&reference::kernels(), &reference::training_kernels()};
//   NACRE_TRY(Trainer::measure(model, "host", kernels, &sizes));           // all programs together
//   NACRE_TRY(Memory::cut(block, sizes, &memory));
//   NACRE_TRY(trainer.bind(model, "host", kernels, memory));
//   NACRE_TRY(trainer.start());
//   while (next_batch(trainer.input(0), trainer.input(1))) {               // data, labels
//     NACRE_TRY(trainer.accumulate());                                     // any number of micro-batches
//     Trainer::Report report;
//     NACRE_TRY(trainer.commit(0.01f, &report));
//     if (!report.applied) std::printf("refused at the loss scale %g\n", double(report.loss_scale));
//   }
//
// Example:
//   const Status added = trainer.accumulate();
//   if (added.code == Code::kIndex) return Status();                       // a label is out of range: all is discarded
//   NACRE_TRY(added);
//   if (stop_wanted) trainer.discard();                                    // gives up what was accumulated
//
// The programs `gradients`, `update`, `derive` and `infer` of one target share state, stream, derived, step block,
// arena and scratch. In a model compiled with --update immediate there is no `gradients`: `update` reads the data too,
// and each commit takes exactly one micro-batch.
//
// A Trainer runs on one thread at a time. It owns no memory and moves none: the caller's blocks hold everything.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/run/program.h"

namespace nacre {

class Trainer {
 public:
  // Facts about one training step.
  struct Report {
    bool applied = false;            // false: refused; only the loss scale and its counters changed in the state
    bool overflow_at_floor = false;  // refused at the lowest loss scale: no smaller scale cures the overflow
    float loss = 0;                  // mean over the samples
    float norm = 0;                  // 2-norm of the mean gradient, before clipping; 0 of integers (int8/full)
    float loss_scale = 0;            // the gradients were made with this scale
    float samples = 0;               // counted by the loss; 0 if the model does not count them
    uint32_t refused_in_row = 0;     // refused steps in a row since start or restored, with this step
  };

  // `kernels`: training kernels and kernels of inference (kernels/training.h, reference.h); the sets of a port come
  // before these. `target`: the target that the programs are compiled for; null: the target of the first program
  // `update`. `places`: runs steps on ports (run/places.h). `sizes`: the blocks kCalls and kPrepared are sums over
  // the programs, all other blocks are the largest of any program. `work` counts one accumulate and one commit.
  // kNotBound: the model is not opened. kNoEntry: it has no `update` for the target. kTrainingProgram: `update` has
  // other inputs or outputs than a training program. Else the codes of Program::measure or Places::measure. *sizes is 0
  // after a refusal.
  static Status measure(const Model& model, const char* target, std::span<const KernelSet* const> kernels, Sizes* sizes,
                        const Machine& machine = {}, Places* places = nullptr);

  // Makes the checks of measure and binds all programs; start() comes next. Blocks of `memory` are at least as large as
  // measure says (kMemorySize), aligned as Program::bind demands (kMemoryAlignment), and apart (kMemoryOverlap). Other
  // codes are those of measure and Places::bind. After a refusal nothing is bound.
  //
  // `model`, the kernel sets, memory, `workers` and `places` must outlive the Trainer. After Model::attach or
  // Model::open the Trainer must be bound again. If a port fails in accumulate or commit, the call returns the error,
  // discards what was accumulated, and leaves the state as it was. The exception is a commit whose update succeeded
  // and whose `derive` failed: call restored(), which derives again. If a device that keeps the state loses its
  // memory, the state is lost, and every call fails until start().
  Status bind(const Model& model, const char* target, std::span<const KernelSet* const> kernels, const Memory& memory,
              const Workers* workers = nullptr, Places* places = nullptr);

  // Sets the state to the model's initial values. Call it before any other function, or to begin again. Sums, streams
  // and the count of refused steps begin at 0. kNotBound: nothing is bound. Else the codes of `derive`: kPortFailed.
  Status start();
  // Call it after writing the state (Checkpoint::load): derives the values that depend on the state. It discards what
  // was accumulated and zeros the streams, as start() does. kNotBound as start(). kPortFailed: a port failed.
  Status restored();

  // Inputs of a micro-batch: data, then labels. Write all of them before every accumulate: a commit uses the same
  // memory. Bytes are laid out as those of Program::input. An input that does not exist is empty.
  uint32_t input_count() const { return feeding().input_count() - (immediate() ? 1 : 0); }
  std::span<std::byte> input(uint32_t i) const {
    return i < input_count() ? feeding().input(i) : std::span<std::byte>();
  }
  // The network's outputs for the micro-batch; valid until an input is written, or accumulate, commit or infer runs.
  // There are none with immediate().
  uint32_t output_count() const { return immediate() ? 0 : feeding().output_count(); }
  std::span<const std::byte> output(uint32_t i) const {
    return i < output_count() ? feeding().output(i) : std::span<const std::byte>();
  }

  // Adds the gradients of the first `rows` rows (0: the compiled batch). kIndex: a label is out of range, and
  // everything accumulated since the last commit is discarded. kRows (more than compiled), kRowsUnsupported, kNotBound
  // (start() was not called), kOneMicroBatch (immediate(), and a micro-batch waits): nothing happened. With
  // immediate(), commit does this work, so commit returns kIndex and kRowsUnsupported. It then discards the
  // micro-batch and leaves the state as it was.
  Status accumulate(uint32_t rows = 0);

  // Makes one step with the accumulated gradients. kNothingAccumulated (no micro-batch, or no label that counts),
  // kLearningRate (negative or not finite), kNotBound (start() was not called): nothing happened. If the verdict
  // refuses the step, commit succeeds and report->applied is false. It does if a gradient, the norm or the loss is not
  // finite (int8/full: if a sum reached an end of int32). The sums are discarded then too. `report` may be null; it is
  // only written if `update` ran.
  Status commit(float learning_rate, Report* report);

  // Accumulates one micro-batch and commits. If all steps run on a device that keeps its memory, on a port that holds
  // (kernels/kernel.h), the programs are one run with one wait, and the network's outputs are not available
  // afterwards. kRows, kRowsUnsupported, kLearningRate, kNotBound: nothing happened. kIndex, kNothingAccumulated: the
  // state is as it was. Gradients that were accumulated before are committed too.
  Status step(float learning_rate, Report* report, uint32_t rows = 0);

  // Discards everything accumulated since the last commit. The state does not change.
  void discard();

  // ---- Between accumulate and commit, for steps whose micro-batches run on several machines (train/step_sums.h) ----

  // Returns the step block: gradients, loss, counts, statistics, amaxes. If a device keeps the block (Places::keep),
  // the call first copies it to the host: call sums() again before every read or write. Empty before start and with
  // immediate(). Also empty if the device cannot give the block back: the accumulated gradients are then lost, so call
  // discard().
  std::span<std::byte> sums() const;
  uint32_t micro_batches() const { return accumulated_; }  // number of micro-batches in the step block
  // Returns the step block in the memory of this port, for ports that exchange it among themselves. Empty if sums()
  // is, if no device of this port keeps the block, and if the host's block cannot be copied there: a later call tries
  // again.
  std::span<std::byte> sums_at(const Port& port) const;
  // Discards what was accumulated. The next accumulate takes micro-batch `index` of the step, from 0, and draws the
  // random numbers of that micro-batch. kNotBound: start() was not called. kOneMicroBatch: immediate(), and index is
  // not 0. kRegion: index is not 0, and `gradients` writes state or streams, so that micro-batches need their order.
  Status begin_at(uint32_t index);
  // Call it after writing sums(): the block now holds the sums of `micro_batches` micro-batches. A device that keeps
  // the block takes the written one. kNothingAccumulated: `micro_batches` is 0, or sums() is empty.
  Status merged(uint32_t micro_batches);
  // Does what merged() does, after writing sums_at(port). kPort: no device of this port keeps the block. kPortFailed:
  // the count of samples could not be copied to the host.
  Status merged_at(const Port& port, uint32_t micro_batches);
  // Accumulates one micro-batch so that the sums have the bytes that several machines get, with one micro-batch each:
  // sums it from zero, then adds the sums to the step block (NUMERICS.md (57)). `keep`: memory of as many bytes as
  // sums(), which it overwrites. kMemorySize: it has fewer, and nothing happened. kRows, kRowsUnsupported: the sums
  // are as they were. Any other refusal of accumulate or begin_at, and kPortFailed, discards all that was accumulated.
  Status accumulate_apart(std::span<std::byte> keep, uint32_t rows = 0);

  // Returns the program `infer`, bound over the same state; not bound if the model has no such program. It may run
  // between commits and keeps the accumulated gradients. It overwrites the inputs of the micro-batch, which commit
  // reads with immediate(): do not run it between accumulate and commit then.
  const Program& infer() const { return programs_[size_t(Entry::kInfer)]; }

  // Returns the whole state block, for checkpoints. If a device keeps the state (Places::keep), the call first copies
  // the learned values to the host: call state() again before every read or write. Empty before start and when bind
  // is undone. Also empty if the device cannot give the state back: the host's block is then older than the learned
  // values.
  std::span<std::byte> state() const { return ready() && bring_home().ok() ? state_ : std::span<std::byte>(); }
  // Returns whether the Trainer is bound to a model of the same file. False if `model` is not opened.
  bool trains(const Model& model) const {
    return update().bound() && model.opened() && std::ranges::equal(model_->header().hash, model.header().hash) &&
           model_->region_bytes(Region::kState) == model.region_bytes(Region::kState);
  }
  // Returns whether each commit takes one micro-batch (--update immediate).
  bool immediate() const { return update().bound() && !has(Entry::kGradients); }

 private:
  static constexpr uint32_t kPrograms = uint32_t(Entry::kCount);

  static Status find(const Model& model, const char* target, uint32_t (&index)[kPrograms]);
  static Status check_update(const Model& model, uint32_t index);
  static Status share(Places* places, Sharing phase);
  struct Parts;
  static Status measure_parts(const Model& model, const char* target, std::span<const KernelSet* const> kernels,
                              Sizes* sizes, const Machine& machine, Places* places, Parts* parts);
  static Status measure_all(const Model& model, const char* target, std::span<const KernelSet* const> kernels,
                            Sizes* sizes, const Machine& machine, Places* places, Parts* parts);
  static Status check_apart(const Model& model, const char* target, std::span<const KernelSet* const> kernels,
                            const Memory& memory, const Workers* workers, Places* places, Parts* parts);

  Status bind_one(uint32_t entry, uint32_t index, std::span<const KernelSet* const> kernels, const Memory& memory,
                  const Workers* workers, Places* places, const Parts& parts);
  Status bind_all(const uint32_t (&index)[kPrograms], std::span<const KernelSet* const> kernels, const Memory& memory,
                  const Workers* workers, Places* places, const Parts& parts);
  Status bring_home() const;
  Status begin();
  const Port* holder() const;
  Status run_held(const Port& port, float learning_rate, uint32_t rows);
  void tell(Report* told, Report* report);
  void write_rate(float learning_rate) const;
  bool counts_nothing() const;
  Status find_counter(uint32_t* tensor) const;
  Status read_report(Report* report) const;

  bool ready() const { return started_ && update().bound(); }
  bool has(Entry entry) const { return (present_ >> uint32_t(entry) & 1) != 0; }
  const Program& feeding() const { return programs_[size_t(immediate() ? Entry::kUpdate : Entry::kGradients)]; }
  const Program& update() const { return programs_[size_t(Entry::kUpdate)]; }
  Status derive() const { return has(Entry::kDerive) ? programs_[size_t(Entry::kDerive)].run() : Status{}; }

  const Model* model_ = nullptr;
  Program programs_[kPrograms];
  std::span<std::byte> state_, stream_, step_;
  uint32_t present_ = 0;       // bit per Entry
  uint32_t count_ = kNoIndex;  // tensor: the number of samples, float32 or int32
  uint32_t floor_ = kNoIndex;  // tensor: counters of the loss scale
  uint32_t accumulated_ = 0;   // micro-batches since the last commit
  uint32_t rows_ = 0;          // rows of the micro-batch, with immediate()
  uint32_t refused_in_row_ = 0;
  bool started_ = false;
};

}  // namespace nacre
