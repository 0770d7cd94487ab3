// Runs fake_quantize on a test's values, and lists the ranges that its tests go through.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/ops/run_step.h"
#include "tests/random.h"
#include "tests/short_names.h"

namespace nacre::test::fake_quantize_steps {

inline uint32_t bits(float v) { return std::bit_cast<uint32_t>(v); }
inline double uniform(Random& random, double low, double high) {
  return std::uniform_real_distribution(low, high)(random);
}

template <class T>
std::vector<T> fake(const KernelEntry& entry, std::vector<uint32_t> words, std::vector<int32_t> dims, std::vector<T> x,
                    std::vector<float> range = {}) {
  std::vector<T> y(x.size());
  StepOperands operands;
  operands.add(dims, x);
  range.empty() ? operands.absent() : operands.add({2}, range);
  operands.absent().add(dims, y);
  EXPECT_EQ(run_step(entry, words, operands), Code::kOk);
  return y;
}

// Returns ranges of one sign, of both signs, tiny, huge, reversed, with an end at 0, and 200 random ones.
inline std::vector<std::vector<float>> ranges() {
  std::vector<std::vector<float>> all = {{-1, 1},    {0, 6},          {-6, 0},     {0.5f, 3},      {-3, -0.5f},
                                         {0, 1e-8f}, {-1e-7f, 1e-7f}, {2, -2},     {-0.1f, 5.9f},  {-1e30f, 1e30f},
                                         {0, 255},   {-128, 127},     {0, 1e-38f}, {-1e-3f, 1e4f}, {-3.4e38f, 3.4e38f}};
  Random random(7);
  for (int i = 0; i < 200; ++i) {
    const float size = float(std::exp(uniform(random, -12, 12)));
    all.push_back({size * float(uniform(random, -1, 0.2)), size * float(uniform(random, -0.2, 1))});
  }
  return all;
}

}  // namespace nacre::test::fake_quantize_steps
