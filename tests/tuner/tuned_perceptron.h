// A small network, data of three classes and settings, which the tuner's tests train.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/differentiate/small_networks.h"
#include "tools/base/split_mix64.h"
#include "tools/compile/training.h"
#include "tools/tuner/tuner.h"

namespace nacre::tools::tuned_perceptron {

inline constexpr int64_t kRows = 22, kWidth = 6;

// Returns rows of three classes. The class is the index of the largest of the first three numbers.
inline Dataset rows(int64_t count = kRows) {
  SplitMix64 random(5);
  std::vector<float> x;
  std::vector<int32_t> y;
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t i = 0; i < kWidth; ++i) x.push_back(float(double(random.next() >> 40) / 0x1p23 - 1));
    const float* first = &x[size_t(row * kWidth)];
    y.push_back(int32_t(std::max_element(first, first + 3) - first));
  }
  const auto array = [](ElementType type, std::vector<int64_t> dims, const auto& values) {
    NpyArray a = {.type = type,
                  .dims = std::move(dims),
                  .data = std::vector<uint8_t>(values.size() * sizeof values[0]),
                  .place = "test"};
    std::memcpy(a.data.data(), values.data(), a.data.size());
    return a;
  };
  Dataset set;
  set.rows = count;
  set.inputs.push_back(array(ElementType::kFloat32, {count, kWidth}, x));
  set.labels = array(ElementType::kInt32, {count}, y);
  return set;
}

inline std::vector<uint8_t> training_bytes(Optimizer optimizer = Optimizer::kAdam) {
  TrainingOptions training;
  training.optimizer.kind = optimizer;
  return compile_training(test::perceptron(4), training, {}).bytes;
}

struct Trained {
  Trained(const std::vector<uint8_t>& bytes, TuneSettings s, const std::string& validate = "0.25")
      : model(bytes, "test", ""), objective(model), data(rows()), split(split_rows(kRows, validate, 3)), trainer(model),
        tuner(trainer, objective, data, split, std::move(s)) {}

  std::vector<std::byte> state() { return {trainer.trainer().state().begin(), trainer.trainer().state().end()}; }

  LoadedModel model;
  Objective objective;
  Dataset data;
  Split split;
  LoadedTrainer trainer;
  Tuner tuner;
};

inline TuneSettings settings(const std::string& checkpoint = "") {
  return {.epochs = 4,
          .batch = 6,
          .schedule = {.kind = ScheduleKind::kCosine, .rate = 0.05f, .steps = 12},
          .keep_best = true,
          .checkpoint = checkpoint,
          .checkpoint_steps = 2,
          .options = "lr 0.05\nbatch 6\n"};
}

}  // namespace nacre::tools::tuned_perceptron
