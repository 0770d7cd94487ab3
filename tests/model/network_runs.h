// Binds and runs networks by hand, on the host or at places. The claims about ports compare these runs.
#pragma once

#include <cstring>
#include <optional>
#include <vector>

#include "engine/run/places.h"
#include "engine/train/trainer.h"
#include "tests/model/execute.h"

namespace nacre::test {

using Bytes = std::vector<std::byte>;

// Fills an input with numbers that depend on position and seed only: reals between -1 and 1, labels 0 to 2, or codes.
inline void fill_numbers(std::span<std::byte> input, ElementType type, uint32_t seed) {
  const size_t unit = element_bits(type) / 8;
  for (size_t i = 0; i * unit < input.size(); ++i) {
    const uint32_t hash = (uint32_t(i) * 2654435761u + seed * 40503u) * 2246822519u >> 8;
    const float real = float(hash % 2048) / 1024 - 1;
    const uint32_t integer = unit == 4 ? hash % 3 : hash;
    std::memcpy(input.data() + unit * i, type == ElementType::kFloat32 ? static_cast<const void*>(&real) : &integer,
                unit);
  }
}

inline void append(Bytes* all, std::span<const std::byte> more) { all->insert(all->end(), more.begin(), more.end()); }

struct InferenceRun {
  Model model;
  Sizes sizes;
  std::optional<Blocks> blocks;
  Program program;

  Status bind(std::span<const std::byte> file, std::span<const KernelSet* const> kernels) {
    NACRE_TRY(model.open(file));
    NACRE_TRY(Program::measure(model, 0, kernels, &sizes));
    blocks.emplace(sizes);
    return program.bind(model, 0, kernels, blocks->memory);
  }

  // Writes the seed's inputs, runs, and replaces `outputs` by the program's outputs.
  Status run(uint32_t seed, Bytes* outputs) {
    for (uint32_t i = 0; i < program.input_count(); ++i)
      fill_numbers(program.input(i), model.tensors()[program.view().inputs[i]].element, seed);
    NACRE_TRY(program.run());
    outputs->clear();
    for (uint32_t i = 0; i < program.output_count(); ++i) append(outputs, program.output(i));
    return {};
  }
};

struct TrainingSteps {
  static constexpr float kRate = 0.05f;
  static constexpr int kMicroBatches = 2;

  Model model;
  Sizes sizes;
  std::optional<Blocks> blocks;
  Trainer trainer;
  uint32_t feeding = 0;  // the program that takes the inputs

  Status measure(std::span<const std::byte> file, std::span<const KernelSet* const> kernels, Places* places = nullptr,
                 std::byte before = std::byte{0xA5}) {
    NACRE_TRY(model.open(file));
    NACRE_TRY(model.find(Entry::kGradients, nullptr, &feeding));
    NACRE_TRY(Trainer::measure(model, nullptr, kernels, &sizes, {}, places));
    blocks.emplace(sizes, before);
    return {};
  }
  Status start(std::span<const KernelSet* const> kernels, Places* places = nullptr) {
    NACRE_TRY(trainer.bind(model, nullptr, kernels, blocks->memory, nullptr, places));
    return trainer.start();
  }
  void write_inputs(int step) {
    for (uint32_t i = 0; i < trainer.input_count(); ++i)
      fill_numbers(trainer.input(i), model.tensors()[model.program(feeding).inputs[i]].element,
                   uint32_t(step) * 16 + i);
  }
  Status accumulate(int step) {
    write_inputs(step);
    return trainer.accumulate();
  }
  // Runs a training step of one micro-batch.
  Status whole_step(int step, Trainer::Report* report) {
    write_inputs(step);
    return trainer.step(kRate, report);
  }
  Status step(int step, Trainer::Report* report) {
    for (int batch = 0; batch < kMicroBatches; ++batch) NACRE_TRY(accumulate(step * kMicroBatches + batch));
    return trainer.commit(kRate, report);
  }
  Bytes state() const { return {trainer.state().begin(), trainer.state().end()}; }
};

// Returns the state and the report after a step.
inline Bytes told(const TrainingSteps& t, const Trainer::Report& r) {
  Bytes all = t.state();
  const float numbers[] = {r.loss, r.norm, r.loss_scale, r.samples, float(r.applied)};
  append(&all, std::as_bytes(std::span(numbers)));
  return all;
}

}  // namespace nacre::test
