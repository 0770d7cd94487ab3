// Compiles small networks to train under a policy, and trains them on three classes of points.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/differentiate/small_trainer.h"
#include "tools/compile/training.h"

namespace nacre::tools::quantized_training {

using test::SmallTrainer;

inline std::string full_name(const std::string& mode) {
  return mode == "float32" || mode.find('_') != mode.npos ? mode : mode + "_from_float32";
}

inline TrainingModel compiled(const Graph& graph, const char* policy, const TrainingOptions& training = {},
                              const Calibration* calibration = nullptr) {
  CompileOptions compiling;
  compiling.policies = parse_policy_options({.policy = full_name(policy)});
  compiling.calibration = calibration;
  return compile_training(graph, training, compiling);
}

// Points around three class centers, the same in every test.
struct Points {
  std::vector<float> x;
  std::vector<int32_t> labels;
};
inline Points points(uint64_t seed, int rows, int width) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> noise(0, 0.3f);
  Points data;
  for (int r = 0; r < rows; ++r) {
    const auto label = int32_t(random() % 3);
    data.labels.push_back(label);
    for (int i = 0; i < width; ++i) data.x.push_back(noise(random) + (i % 3 == label ? 1.5f : -0.5f));
  }
  return data;
}

inline float mean_of(const std::vector<float>& x, size_t first, size_t last) {
  float sum = 0;
  for (size_t i = first; i < last; ++i) sum += x[i];
  return sum / float(last - first);
}

inline std::vector<float> train(SmallTrainer& trainer, int steps, int rows, int width, float rate) {
  std::vector<float> losses;
  for (int i = 0; i < steps; ++i) {
    const Points data = points(uint64_t(i), rows, width);
    const Trainer::Report report = trainer.train(data.x, data.labels, rate);
    losses.push_back(report.loss);
    EXPECT_TRUE(report.applied) << i;
  }
  return losses;
}

}  // namespace nacre::tools::quantized_training
