// Trainer: trains a model in the caller's memory. A step is a transaction: everything that it learned commits, or
// nothing does but the loss scale and its counters.
//
//   Sizes sizes; NACRE_TRY(Trainer::measure(model, "host", kernels, &sizes));  // of all programs together
//   Memory memory; NACRE_TRY(Memory::cut(block, sizes, &memory));
//   Trainer trainer; NACRE_TRY(trainer.bind(model, "host", kernels, memory)); NACRE_TRY(trainer.start());
//   write trainer.input(0), ..; NACRE_TRY(trainer.accumulate());         // any number of micro-batches
//   Trainer::Report report; NACRE_TRY(trainer.commit(learning_rate, &report));
//
// The programs `gradients`, `update`, `derive` and `infer` of one target share state, stream, derived, step block,
// arena and scratch. In a model compiled with --update immediate there is no `gradients`: `update` reads the data too,
// and each commit takes exactly one micro-batch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/run/program.h"

namespace nacre {

class Trainer {
 public:
  struct Report {
    bool applied = false;            // false: refused; the state is what it was but for the loss scale and its counters
    bool overflow_at_floor = false;  // refused at the lowest loss scale: a lower one cannot cure it
    float loss = 0;                  // mean over the samples
    float norm = 0;                  // 2-norm of the mean gradient, before clipping; 0 of integers (int8/full)
    float loss_scale = 0;            // that the gradients were made with
    float samples = 0;               // counted by the loss
    uint32_t refused_in_row = 0;     // refused steps in a row since start or restored, this one included
  };

  // kernels: training kernels and those of inference (kernels/training.h, reference.h), a port's before them. `target`:
  // the name that the programs are compiled for; null: that of the first `update`. `places`: where steps run on ports
  // (run/places.h). calls and prepared are sums over the programs, arena and scratch the largest; work is that of one
  // accumulate and one commit.
  static Status measure(const Model& model, const char* target, std::span<const KernelSet* const> kernels, Sizes* sizes,
                        const Machine& machine = {}, Places* places = nullptr);

  // `model`, the kernel sets, memory, `workers` and `places` must outlive the Trainer. After Model::attach or open it
  // must be bound again. What a port makes fail in accumulate or commit is an error of that call: what was accumulated
  // is discarded, and the state is what it was, unless `derive` failed behind the update: then restored() derives
  // again. A state that a place keeps is lost with the place's memory: then all fails until start().
  Status bind(const Model& model, const char* target, std::span<const KernelSet* const> kernels, const Memory& memory,
              const Workers* workers = nullptr, Places* places = nullptr);

  // The state becomes the model's initial values. Before anything else, or to begin again.
  Status start();
  // The state was written from outside (Checkpoint::load): derives what depends on it.
  Status restored();

  // Inputs of a micro-batch: data, then labels; write all of them before every accumulate. They share bytes with the
  // memory that a commit uses.
  uint32_t input_count() const { return feeding().input_count() - (immediate() ? 1 : 0); }
  std::span<std::byte> input(uint32_t i) const {
    return i < input_count() ? feeding().input(i) : std::span<std::byte>();
  }
  // The network's outputs for it; valid until the next accumulate, commit or inference.
  uint32_t output_count() const { return immediate() ? 0 : feeding().output_count(); }
  std::span<const std::byte> output(uint32_t i) const {
    return i < output_count() ? feeding().output(i) : std::span<const std::byte>();
  }

  // Adds the gradients of the first `rows` rows (0: the compiled batch). kIndex, a label out of range: everything
  // accumulated since the last commit is discarded. kRows, kRowsUnsupported: nothing happened. Where immediate(),
  // commit does all of this: it gives kIndex and kRowsUnsupported, and then the micro-batch is discarded and the state
  // is what it was.
  Status accumulate(uint32_t rows = 0);

  // One step with what was accumulated. kNothingAccumulated, kLearningRate (negative or not finite): nothing happened.
  // A step refused by the verdict is no error: report->applied says so. `report` may be null.
  Status commit(float learning_rate, Report* report);

  // accumulate and commit of one micro-batch. Where all steps run on a place that keeps its memory, on a port that
  // holds (kernels/kernel.h), it is one run: one wait, and the network's outputs are not there behind it. kRows,
  // kRowsUnsupported, kLearningRate: nothing happened. kIndex, kNothingAccumulated: the state is what it was. Something
  // accumulated before is committed with it.
  Status step(float learning_rate, Report* report, uint32_t rows = 0);

  // Forgets what was accumulated.
  void discard();

  // ---- Between accumulate and commit, for steps whose micro-batches run on several machines (train/step_sums.h) ----

  // The step block: gradients, loss, counts, statistics, amaxes. Where a place keeps it (Places::keep) this call copies
  // it home: ask anew before it is read or written. Empty before start, where immediate(), and where the place does not
  // give it back: then call discard(), what was accumulated is lost.
  std::span<std::byte> sums() const;
  uint32_t micro_batches() const { return accumulated_; }  // that are in it
  // The step block where a place of this port keeps it, in the port's memory: ports exchange it among themselves.
  // Empty as sums(), and where no such place keeps it.
  std::span<std::byte> sums_at(const Port& port) const;
  // Forgets what was accumulated; what accumulate takes next is micro-batch `index` of its step, from 0, and draws that
  // one's random numbers. kOneMicroBatch: immediate(), and index is not 0.
  Status begin_at(uint32_t index);
  // sums() was written: it holds what as many micro-batches gave, on a place too that keeps it. kNothingAccumulated: 0,
  // or there is no sums().
  Status merged(uint32_t micro_batches);
  Status merged_at(const Port& port, uint32_t micro_batches);  // the same: sums_at(port) was written
  // Like accumulate, but the micro-batch is summed from zero, and then added as one (NUMERICS.md (57)): the bytes of
  // machines that take one each. `keep`: as many bytes as sums(); kMemorySize: fewer, and nothing happened.
  Status accumulate_apart(std::span<std::byte> keep, uint32_t rows = 0);

  // Bound over the same state: may run between commits, and forgets no gradient. Not bound where the model has no such
  // program. It writes where the inputs are: where immediate(), which reads them in commit, not between accumulate and
  // commit.
  const Program& infer() const { return programs_[size_t(Entry::kInfer)]; }

  // The whole state block, for checkpoints. Where a place keeps it (Places::keep) this call copies what was learned
  // home from there: ask anew before it is read or written. Empty before start, once bind is undone, and where the
  // place does not give it back: what stands there is nobody's to save.
  std::span<std::byte> state() const { return ready() && bring_home().ok() ? state_ : std::span<std::byte>(); }
  // Whether it is bound to a model of these bytes.
  bool trains(const Model& model) const {
    return model_ != nullptr && std::ranges::equal(model_->header().hash, model.header().hash) &&
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
  uint32_t rows_ = 0;          // of the micro-batch, where immediate
  uint32_t refused_in_row_ = 0;
  bool started_ = false;
};

}  // namespace nacre
