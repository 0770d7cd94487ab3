// Binds a model to the host and to a fake port (the driver of a device), and builds small models for such tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <vector>

#include "engine/run/places.h"
#include "tests/fake/fake_port.h"
#include "tests/model/execute.h"
#include "tests/short_names.h"

namespace nacre::test {

inline Draft with_places(Draft draft, const std::vector<uint8_t>& places) {
  for (size_t i = 0; i < draft.steps.size(); ++i) draft.steps[i].place = places[i % places.size()];
  return draft;
}

// Builds `steps` tanh steps, x to h to .. to y, with separate bytes for each value.
inline Draft chain(uint32_t steps) {
  Draft d;
  uint32_t x = d.arena(kF32, {4}, 0, 0, 0, kNoIndex, kInput);
  std::vector<uint32_t> made;
  for (uint32_t i = 0; i < steps; ++i)
    made.push_back(
        d.arena(kF32, {4}, i, std::min(i + 1, steps - 1), 16 * (i + 1), kNoIndex, i + 1 == steps ? kOutput : 0));
  for (uint32_t i = 0; i < steps; ++i) {
    d.step(Op::kTanh, {}, {x}, {made[i]});
    x = made[i];
  }
  d.program(Entry::kInfer, "", {16 * (steps + 1)});
  return d;
}

// Fills every input with bytes that depend on their position and the seed: reals in [0.5, 1), or small integers.
inline void write_inputs(const Program& program, const Model& model, uint32_t seed = 0) {
  for (uint32_t i = 0; i < program.input_count(); ++i) {
    const std::span<std::byte> x = program.input(i);
    const bool real = model.tensors()[program.view().inputs[i]].element == kF32;
    for (size_t k = 0; k < x.size(); ++k)
      x[k] = std::byte(real ? (k % 4 == 3 ? 0x3F : 0x11 + seed) : k % 4 == 0 ? (k * 7 + 3 + seed) % 3 : 0);
  }
}

inline std::vector<std::byte> outputs_of(const Program& program) {
  std::vector<std::byte> all;
  for (uint32_t i = 0; i < program.output_count(); ++i)
    all.insert(all.end(), program.output(i).begin(), program.output(i).end());
  return all;
}

// A model bound to the host (place 0) and to a fake port (place 1).
struct Placed {
  Buffer file;
  Model model;
  fake::FakePort fake;
  const Port* ports[2] = {nullptr, &fake.port()};
  Places places{ports};
  Sizes sizes;
  std::optional<Blocks> blocks;
  Program program;

  explicit Placed(const Draft& draft, const fake::Options& options = {})
      : file(pack(draft)), fake(reference_kernels(), options) {
    EXPECT_TRUE(model.open(file.bytes()).ok());
  }
  ~Placed() { program.unbind(); }

  Status measure(uint32_t index = 0) { return places.measure(model, index, reference_kernels(), &sizes); }
  Status bind(uint32_t index = 0) {
    NACRE_TRY(measure(index));
    if (!blocks) blocks.emplace(sizes, std::byte{0});
    if (places.bytes(1) != 0) NACRE_TRY(places.give(1, fake.allocate(size_t(places.bytes(1)))));
    return places.bind(&program, model, index, reference_kernels(), blocks->memory);
  }
};

}  // namespace nacre::test
