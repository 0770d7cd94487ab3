// Opens, measures and binds a model as a host does. Every block is a heap block of exactly its size, so that ASan
// sees every access outside.
#pragma once

#include <span>

#include "engine/kernels/reference.h"
#include "engine/kernels/training.h"
#include "engine/model/model.h"
#include "engine/run/program.h"
#include "tests/model/builder.h"

namespace nacre::test {

inline std::span<const KernelSet* const> reference_kernels() {
  static const KernelSet* const kSets[] = {&reference::kernels(), &reference::training_kernels()};
  return kSets;
}

// One exact-size heap block per block of memory.
struct Blocks {
  Buffer block[kBlockCount];
  Memory memory;

  explicit Blocks(const Sizes& sizes, std::byte fill = std::byte{0xA5}) {
    for (uint32_t i = 0; i < kBlockCount; ++i) {
      block[i] = Buffer(size_t(sizes.bytes[i]), fill);
      memory.block[i] = block[i].bytes();
    }
  }
};

// Opens, measures and binds one program.
struct Bound {
  Model model;
  Program program;
  Sizes sizes;
  std::optional<Blocks> blocks;

  Status open(std::span<const std::byte> file, uint32_t index = 0, const Limits& limits = {}) {
    NACRE_TRY(model.open(file, limits));
    NACRE_TRY(Program::measure(model, index, reference_kernels(), &sizes));
    blocks.emplace(sizes);
    return program.bind(model, index, reference_kernels(), blocks->memory);
  }
};

}  // namespace nacre::test
