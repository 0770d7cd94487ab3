// A Trainer with its own memory, for tests. Reads any tensor of its state and step blocks by name.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/train/trainer.h"
#include "tools/model/loaded_model.h"

namespace nacre::test {

class TrainingRun {
 public:
  explicit TrainingRun(const std::vector<uint8_t>& model);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  // Writes input i of the trainer: real numbers in the input's element type, or labels unchanged.
  void write(uint32_t i, const std::vector<float>& numbers);
  void write(uint32_t i, const std::vector<int32_t>& labels);

  void accumulate() { require(trainer_.accumulate()); }
  Trainer::Report commit(float learning_rate);

  double loss() const;                                           // the mean over accumulated rows that the loss counted
  std::vector<double> numbers(const std::string& tensor) const;  // of a tensor in state or step
  std::vector<uint8_t> bytes(const std::string& tensor) const;
  std::vector<std::string> tensors(Region region) const;  // names, of state or step, in order of ids
  std::span<std::byte> state() const { return trainer_.state(); }
  std::span<const std::byte> step() const { return memory_.block[kStepSums]; }
  Trainer& trainer() { return trainer_; }
  const tools::LoadedModel& model() const { return model_; }
  void require(const Status& status) const { model_.require(status); }

 private:
  const TensorRecord& record(const std::string& tensor) const;

  tools::LoadedModel model_;
  tools::AlignedBytes block_;
  Memory memory_;
  Trainer trainer_;
  std::map<std::string, uint32_t> ids_;
};

}  // namespace nacre::test
