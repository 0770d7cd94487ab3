// A training over a data set: epochs of steps of micro-batches, validation, checkpoints. Everything that a step does is
// Trainer's business; this is what a device's own loop would be, with files.
//
// The result of a run is a function of the model, the data and TuneSettings: a run that was cut off anywhere and goes
// on from its checkpoint ends with the same bytes.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/numeric/schedule.h"
#include "engine/train/checkpoint.h"
#include "engine/train/trainer.h"
#include "tools/model/loaded_model.h"
#include "tools/tuner/dataset.h"
#include "tools/tuner/history.h"
#include "tools/tuner/objective.h"
#include "tools/tuner/position.h"
#include "tools/tuner/ranks.h"
#include "tools/tuner/rows.h"

namespace nacre::tools {

struct TuneSettings {
  uint32_t epochs = 10;
  uint32_t batch = 0;  // rows of a step; more than the model takes at once are several micro-batches
  Schedule schedule = {};
  bool shuffle = true;
  uint64_t seed = 1;
  EarlyStop early_stop = {};
  bool keep_best = false;         // the epoch with the lowest watched loss is what is kept, else the last
  uint32_t most_refused = 10;     // steps in a row; then the training has diverged
  std::string checkpoint = {};    // directory; "": none
  uint32_t checkpoint_steps = 0;  // save after as many steps too; 0: at ends of epochs and every minute
  std::string options = {};       // of position.h: what decides the result
  std::string to_model = {};      // the command that makes a model of the checkpoint; "": none is named
  std::string compress = {};      // of sums among ranks (ranks.h)
};

// A Trainer with memory of its own. The model must outlive it. `ports`: by place, whose kernels come before the
// reference's; `target`: whose programs, as find_program takes it (tools/model/loaded_model.h).
class LoadedTrainer {
 public:
  explicit LoadedTrainer(const LoadedModel& model, Ports ports = {nullptr}, uint32_t threads = 1,
                         const std::string& target = "");
  LoadedTrainer(const LoadedTrainer&) = delete;
  LoadedTrainer& operator=(const LoadedTrainer&) = delete;

  Trainer& trainer() { return trainer_; }
  // State of the trainer, home from the GPU; throws where it is lost there.
  std::span<std::byte> state() const;
  const LoadedModel& loaded() const { return model_; }
  const std::string& target() const { return target_; }
  bool ported() const {
    return std::ranges::any_of(ports_, [](const Port* port) { return port != nullptr; });
  }
  const Port* port_of_gpu() const { return gpu_memory_ ? ports_[kGpuPlace] : nullptr; }  // null: not on a GPU

 private:
  const LoadedModel& model_;
  std::string target_;
  std::shared_ptr<const ThreadPool> threads_;  // null: one thread
  AlignedBytes memory_;
  Ports ports_;
  Places places_;
  std::optional<GpuMemory> gpu_memory_;
  Trainer trainer_;
};

// Ports for the programs that train for `target`: the GPU's where both name it, else the one that `kernels` names.
Ports training_ports(const LoadedModel& model, const std::string& kernels, const std::string& target = "");

class FileStorage;
struct SavedCheckpoint;

// Paths of a training's checkpoints: the directory, the files of FileStorage, and those of the best epoch.
std::vector<std::string> checkpoint_files(const std::string& directory);

class Tuner {
 public:
  enum class End { kEpochs, kEarly, kStopped, kInterrupted };
  struct Progress {
    const TunePosition& position;
    uint32_t steps;  // of an epoch
    uint64_t rows;   // trained on by this process
  };
  struct Watch {                                          // both may be empty
    std::function<void(const Progress&)> step = {};       // after every step
    std::function<bool(const TunePosition&)> epoch = {};  // after every epoch, when it is saved; false: the last one
    // asked after every micro-batch, and after every one of validation
    std::function<bool()> interrupted = [] { return false; };
  };

  Tuner(LoadedTrainer& trainer, const Objective& objective, const Dataset& data, const Split& split,
        TuneSettings settings, Ranks* ranks = nullptr);
  ~Tuner();

  // From the initial values, or from the checkpoint where there is one; true if so. `restart`: never, and what is there
  // counts no more from the first save on.
  bool begin(bool restart);
  // Sentences of begin() and start_from(): a slot that is not whole, and which checkpoint took its place.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // Whether begin() found a directory in which a training had begun and saved nothing.
  bool begun_before() const { return begun_before_; }
  // Whether the directory of checkpoints, where there is one, is still under its name.
  bool checkpoint_there() const;
  // Parameters from another training's checkpoints: what matches in name, type and size.
  Checkpoint::Report start_from(const std::string& directory);

  // Until the end, or until `watch` interrupts, when what was learned is saved (where there is a directory for it).
  // Throws Error of code kFailed where the training diverges; numbers that are not finite are not saved.
  End run(const Watch& watch);

  // Afterwards: puts the state that is kept (best or last) into the trainer; and what it takes the place of.
  void take_kept() { exchange_kept(); }
  void take_last() { exchange_kept(); }

  // Saves to `directory` as run() saves to that of the settings, for a training without one: throws where that fails.
  void save_to(const std::string& directory);

  const TunePosition& position() const { return position_; }
  uint32_t steps_per_epoch() const { return steps_per_epoch_; }
  bool finished() const { return position_.epoch >= settings_.epochs || settings_.early_stop.stops(position_.epochs); }
  // Rows at the end of every epoch's order that no step takes: a batch norm in training may want whole batches only.
  uint64_t left_out() const { return left_out_; }
  using Stop = std::function<bool()>;
  Judged validate(const Stop& stop = {});  // the rows kept for it, with what has been learned

 private:
  const Model& model() const { return owner_.loaded().model(); }
  bool first() const { return ranks_ == nullptr || ranks_->first(); }
  bool load(SavedCheckpoint* saved);
  void begin_anew_once();
  void load_best(const NotedPosition& at);
  void save_best(FileStorage& files, const std::string& directory) const;
  void require_no_best_alone();
  // Both false: stopped before the end, and nothing of it counts.
  bool train_step(const std::vector<int64_t>& order, const Stop& stop);
  bool end_epoch(const Stop& stop);
  // The micro-batches of a step, one after another, or shared among the ranks; rows that were taken. None: stopped.
  std::optional<size_t> take_alone(std::span<const int64_t> rows, const Stop& stop);
  std::optional<size_t> take_with_ranks(std::span<const int64_t> rows);
  void check_ranks() const;
  std::span<std::byte> sums() const;                // of the step; throws where a GPU does not give them
  bool micro_batch(std::span<const int64_t> rows);  // false: the model takes whole batches only
  void save();
  void save_if_finite();
  void keep();
  void exchange_kept();
  // Whether what was learned so far, and what the model makes of the last batch of rows with it, are numbers: "" or why
  // not.
  std::string not_finite_state();
  std::string not_finite();
  std::string divergence(const EpochRecord& epoch);  // "", or why an epoch shows that the training diverged
  std::string saved_text() const;                    // of the checkpoint, for whoever has a training that diverged
  [[noreturn]] void refuse_divergence(const Trainer::Report& report) const;
  [[noreturn]] void refuse_epoch(const std::string& why) const;
  void require(const Status& status, const FileStorage* storage, const std::string& directory) const;

  LoadedTrainer& owner_;
  Trainer& trainer_;
  const Objective& objective_;
  const Dataset& data_;
  const Split& split_;
  TuneSettings settings_;
  TunePosition position_;
  uint32_t steps_per_epoch_ = 0;
  uint64_t rows_ = 0, left_out_ = 0;
  Ranks* ranks_;                               // null: this process trains alone
  bool wishes_to_stop_ = false;                // this rank
  bool stops_ = false;                         // and all of them
  std::vector<std::byte> keep_;                // of accumulate_apart
  bool saved_ = false;                         // there is a checkpoint of this training:
  uint32_t saved_epoch_ = 0, saved_step_ = 0;  // where it stood, both from 0
  std::vector<int64_t> last_rows_;             // of the last step
  bool counts_no_label_ = false;               // a step of this run had no label that its loss counts
  std::vector<std::byte> best_, best_note_;    // the state after the best epoch, and its note
  std::vector<std::string> warnings_;
  bool begun_before_ = false;
  bool anew_ = false;  // what is in the directory counts until this training saves
  std::unique_ptr<FileStorage> files_, best_files_;
};

}  // namespace nacre::tools
