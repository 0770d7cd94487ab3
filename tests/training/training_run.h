// A training model with memory of its own, for tests: steps it and reads any tensor of its state and step blocks by name.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/kernels/training.h"
#include "tools/loaded_model.h"

namespace nacre::tests {

class TrainingRun {
 public:
  explicit TrainingRun(const std::vector<uint8_t>& model);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  // Input i of `gradients` from real numbers, in the element type of the input; labels as they are.
  void write(uint32_t i, const std::vector<float>& numbers);
  void write(uint32_t i, const std::vector<int32_t>& labels);

  void accumulate();
  bool commit(float learning_rate);  // applied

  double loss() const;  // of what is accumulated: the mean over its samples
  std::vector<double> numbers(const std::string& tensor) const;  // of a float tensor in state or step
  std::vector<uint8_t> bytes(const std::string& tensor) const;
  std::span<const std::byte> state() const { return memory_[0].block[kState]; }
  const tools::LoadedModel& model() const { return model_; }

 private:
  const TensorRecord& record(const std::string& tensor) const;

  tools::LoadedModel model_;
  std::vector<tools::AlignedBytes> blocks_;
  std::vector<Memory> memory_;  // of gradients, update, derive
  Program gradients_, update_, derive_;
  bool derives_ = false;
  std::map<std::string, uint32_t> ids_;
};

}  // namespace nacre::tests
