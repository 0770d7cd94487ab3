// Tuner: a training over a data set, in epochs of steps of micro-batches, with validation and checkpoints. Trainer
// does the steps. A device's own training loop is the same without files.
//
// The result of a run is a function of the model, the data, the kernels and TuneSettings: a run that was cut off
// anywhere and resumed from its checkpoint by the same kernels ends with the same bytes.
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
  uint32_t batch = 0;  // rows of a step; if the model takes fewer at once, several micro-batches
  Schedule schedule = {};
  bool shuffle = true;
  uint64_t seed = 1;
  EarlyStop early_stop = {};
  bool keep_best = false;         // true: keeps the epoch with the lowest watched loss; false: the last epoch
  uint32_t most_refused = 10;     // refused steps in a row after which the training has diverged
  std::string checkpoint = {};    // directory; "": no checkpoints
  uint32_t checkpoint_steps = 0;  // saves at ends of epochs, and after so many steps in between; 0: after each minute
  std::string options = {};       // for position.h: what decides the result
  std::string to_model = {};      // the command that makes a model from the checkpoint; "": messages name none
  std::string compress = {};      // coding of the sums that ranks exchange (ranks.h)
};

// A Trainer with memory of its own. The model must outlive it. The kernels of `ports` (loaded_model.h; index: a step's
// place) come before the reference's. `target` chooses the programs, as in LoadedModel::find_program.
class LoadedTrainer {
 public:
  explicit LoadedTrainer(const LoadedModel& model, Ports ports = {nullptr}, uint32_t threads = 1,
                         const std::string& target = "");
  LoadedTrainer(const LoadedTrainer&) = delete;
  LoadedTrainer& operator=(const LoadedTrainer&) = delete;

  Trainer& trainer() { return trainer_; }
  // Returns the trainer's state, copied from the GPU if it is there. Throws if it is lost there.
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
  std::shared_ptr<const ThreadPool> threads_;  // null for one thread
  AlignedBytes memory_;
  Ports ports_;
  Places places_;
  std::optional<GpuMemory> gpu_memory_;
  Trainer trainer_;
};

// Returns ports for the programs that train for `target`: the GPU's if the programs and `kernels` name it, else the
// one that `kernels` names.
Ports training_ports(const LoadedModel& model, const std::string& kernels, const std::string& target = "");

class FileStorage;
struct SavedCheckpoint;

// Returns the paths of a training's checkpoints: the directory, the files of FileStorage, and those of the best
// epoch.
std::vector<std::string> checkpoint_files(const std::string& directory);

class Tuner {
 public:
  enum class End { kEpochs, kEarly, kStopped, kInterrupted };
  struct Progress {
    const TunePosition& position;
    uint32_t steps;  // steps of an epoch
    uint64_t rows;   // rows that this process trained on
  };
  struct Watch {                                     // functions that run() calls; each may be empty
    std::function<void(const Progress&)> step = {};  // after every step
    // called after every epoch once it is saved; false ends the training
    std::function<bool(const TunePosition&)> epoch = {};
    // Asked after every micro-batch (with ranks: after every step), and after every run of the validation.
    std::function<bool()> interrupted = [] { return false; };
  };

  Tuner(LoadedTrainer& trainer, const Objective& objective, const Dataset& data, const Split& split,
        TuneSettings settings, Ranks* ranks = nullptr);
  ~Tuner();

  // Begins with the initial values, or with the checkpoint if there is one; returns true then. With `restart` always
  // begins with the initial values; the existing checkpoint counts until the first save.
  bool begin(bool restart);
  // Sentences of begin() and start_from(): a damaged slot, and which checkpoint was taken in its place.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // Returns whether begin() found a directory in which a training had begun and saved nothing.
  bool begun_before() const { return begun_before_; }
  // Returns whether this process saves to a directory of checkpoints that still exists under its name.
  bool checkpoint_there() const;
  // Loads parameters from another training's checkpoints, if name, type and size are equal.
  Checkpoint::Report start_from(const std::string& directory);

  // Trains to the end, or until `watch` interrupts; then it saves what was learned, if there is a directory. Throws
  // an Error with code kFailed if the training diverges; state that is not finite is not saved.
  End run(const Watch& watch);

  // take_kept() puts the state that is kept (best or last) into the trainer; take_last() puts the last state back.
  void take_kept() { exchange_kept(); }
  void take_last() { exchange_kept(); }

  // Saves to `directory` as run() saves to its own, for a training without one. Throws if that fails.
  void save_to(const std::string& directory);

  const TunePosition& position() const { return position_; }
  uint32_t steps_per_epoch() const { return steps_per_epoch_; }
  bool finished() const { return position_.epoch >= settings_.epochs || settings_.early_stop.stops(position_.epochs); }
  // Returns how many rows at the end of every epoch's order no step takes. A batch norm in training may need whole
  // batches.
  uint64_t left_out() const { return left_out_; }
  using Stop = std::function<bool()>;
  Judged validate(const Stop& stop = {});  // judges the validation rows with the state learned so far

 private:
  const Model& model() const { return owner_.loaded().model(); }
  bool first() const { return ranks_ == nullptr || ranks_->first(); }
  bool load(SavedCheckpoint* saved);
  void begin_anew_once();
  void load_best(const NotedPosition& at);
  void save_best(FileStorage& files, const std::string& directory) const;
  void require_no_best_alone();
  // Both return false if `stop` ended them early. Then nothing of that step counts, or the epoch is not over.
  bool train_step(const std::vector<int64_t>& order, const Stop& stop);
  bool end_epoch(const Stop& stop);
  // Run the micro-batches of a step, one after another or shared among the ranks. Return the rows taken, or nothing
  // if they stopped.
  std::optional<size_t> take_alone(std::span<const int64_t> rows, const Stop& stop);
  std::optional<size_t> take_with_ranks(std::span<const int64_t> rows);
  void check_ranks() const;
  std::span<std::byte> sums() const;                // of the step; throws if the GPU does not give them
  bool micro_batch(std::span<const int64_t> rows);  // false: takes nothing, as the model needs whole batches
  void save();
  void save_if_finite();
  void keep();
  void exchange_kept();
  // Return "" if the learned state (not_finite: and the outputs for the last step's rows) is finite; else the reason.
  std::string not_finite_state();
  std::string not_finite();
  std::string divergence(const EpochRecord& epoch);  // "", or why the epoch shows that the training diverged
  std::string saved_text() const;                    // tells users of a diverged training about the checkpoint
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
  bool wishes_to_stop_ = false;                // this rank wants to stop
  bool stops_ = false;                         // all ranks stop
  std::vector<std::byte> keep_;                // buffer for accumulate_apart
  bool saved_ = false;                         // there is a checkpoint of this training;
  uint32_t saved_epoch_ = 0, saved_step_ = 0;  // its position, from 0
  std::vector<int64_t> last_rows_;             // rows of the last step
  bool counts_no_label_ = false;               // a step of this run had no label that the loss counts
  std::vector<std::byte> best_, best_note_;    // the state after the best epoch, and its note
  std::vector<std::string> warnings_;
  bool begun_before_ = false;
  bool anew_ = false;  // the directory holds another training's checkpoint until the first save
  std::unique_ptr<FileStorage> files_, best_files_;
};

}  // namespace nacre::tools
