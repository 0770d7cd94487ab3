// A Trainer of the softmax regression of tests/model/cases_training.cc, and batches for it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "engine/train/trainer.h"
#include "tests/model/execute.h"

namespace nacre::test {

inline constexpr int kRows = 4, kFeatures = 4, kClasses = 3;
inline constexpr uint32_t kW = 2, kB = 3, kVelocity = 4, kSteps = 5, kScale = 6, kCounters = 7, kCopyOfW = 8;

struct Batch {
  std::vector<float> x;
  std::vector<int32_t> labels;
};

inline Batch random_batch(std::mt19937& random) {
  Batch batch;
  for (int r = 0; r < kRows; ++r) {
    const int label = int(random() % kClasses);
    for (int i = 0; i < kFeatures; ++i) batch.x.push_back(float(random() % 1000) * 0.001f + (i == label ? 1.0f : 0.0f));
    batch.labels.push_back(label);
  }
  return batch;
}

// A model's Trainer, started, in blocks of exactly their size.
struct Training {
  Buffer file;
  Model model;
  Sizes sizes;
  std::optional<Blocks> blocks;
  Trainer trainer;

  explicit Training(const Draft& draft = training()) : file(pack(draft)) {
    EXPECT_TRUE(model.open(file.bytes()).ok());
    EXPECT_TRUE(Trainer::measure(model, "host", reference_kernels(), &sizes).ok());
    blocks.emplace(sizes);
    EXPECT_TRUE(trainer.bind(model, "host", reference_kernels(), blocks->memory).ok());
    EXPECT_TRUE(trainer.start().ok());
  }

  template <class T = float>
  std::vector<T> get(uint32_t id) const {
    const TensorRecord& r = model.tensors()[id];
    const auto block =
        r.region == Region::kState ? trainer.state() : std::span<std::byte>(blocks->memory.block[kDerived]);
    std::vector<T> v(r.bytes / sizeof(T));
    std::memcpy(v.data(), block.data() + r.offset, r.bytes);
    return v;
  }
  std::vector<std::byte> state() const { return {trainer.state().begin(), trainer.state().end()}; }
  bool step_block_is_zero() const {
    for (const std::byte b : blocks->memory.block[kStepSums])
      if (b != std::byte{0}) return false;
    return true;
  }

  Status accumulate(const Batch& batch, uint32_t rows = 0) const {
    return accumulate_into(const_cast<Trainer&>(trainer), batch, rows);
  }
  static Status accumulate_into(Trainer& t, const Batch& batch, uint32_t rows) {
    std::memcpy(t.input(0).data(), batch.x.data(), std::min(t.input(0).size(), batch.x.size() * 4));
    std::memcpy(t.input(1).data(), batch.labels.data(), std::min(t.input(1).size(), batch.labels.size() * 4));
    return t.accumulate(rows);
  }
  Trainer::Report step(const Batch& batch, float rate = 0.25f) {
    Trainer::Report report;
    EXPECT_TRUE(accumulate(batch).ok());
    EXPECT_TRUE(trainer.commit(rate, &report).ok());
    return report;
  }
};

}  // namespace nacre::test
