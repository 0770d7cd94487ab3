// A training model whose state the checkpoint tests fill, and the size of the storage for it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/train/checkpoint.h"
#include "tests/train/flash.h"
#include "tests/train/state_models.h"

namespace nacre::test::opened_model {

struct Opened {
  Buffer file;
  Model model;
  explicit Opened(const Draft& draft) : file(pack(draft)) { EXPECT_TRUE(model.open(file.bytes()).ok()); }
  Buffer state(uint8_t fill) const { return Buffer(model.region_bytes(Region::kState), std::byte(fill)); }
  // Returns the bytes of state tensor `id`.
  std::span<std::byte> of(Buffer& state, uint32_t id) const {
    return state.bytes().subspan(model.tensors()[id].offset, model.tensors()[id].bytes);
  }
};

inline bool all_are(std::span<const std::byte> bytes, uint8_t value) {
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b == std::byte(value); });
}

inline uint64_t bytes_for(const Model& model, uint32_t program, uint32_t erase, uint32_t note = 0) {
  uint64_t bytes = 0;
  Flash none(program, erase, erase);
  EXPECT_TRUE(Checkpoint::measure(model, none.storage(), note, &bytes).ok());
  return bytes;
}

}  // namespace nacre::test::opened_model
