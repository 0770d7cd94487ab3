#include "tests/model/exercise.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "engine/base/crc32c.h"
#include "engine/model/flatbuffer.h"
#include "engine/train/trainer.h"
#include "tests/model/ask_c_api.h"
#include "tests/model/execute.h"
#include "tests/model/filling.h"

namespace nacre::test {
namespace {

void require(bool promise, const char* text) {
  if (promise) return;
  std::fprintf(stderr, "broken promise: %s\n", text);
  std::abort();
}

volatile uint64_t touched;  // keeps reads from being optimised away

void touch(const flatbuffers::String* s) {
  uint64_t sum = 0;
  if (s != nullptr)
    for (const char c : *s) sum += uint64_t(uint8_t(c));
  touched = touched + sum;
}
void touch(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* v) {
  if (v != nullptr)
    for (const auto* s : *v) touch(s);
}
void touch(const flatbuffers::Vector<uint8_t>* v) {
  uint64_t sum = 0;
  if (v != nullptr)
    for (const uint8_t byte : *v) sum += byte;
  touched = touched + sum;
}

// Checks the FlatBuffer with the generated Verifier. Then reads all its strings and golden bytes, to the last byte.
void walk(const Model& model) {
  const schema::Model& root = *model.root();
  const std::span<const std::byte> bytes = model.bytes();
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data()) + sizeof(FileHeader);
  // The engine's own structure check is at least as strict as the generated one.
  flatbuffers::Verifier verifier(data, model.header().flatbuffer_bytes, 64, 1u << 24);
  require(schema::VerifyModelBuffer(verifier), "flatbuffers::Verifier accepts what open accepts");
  touch(root.tensor_names());
  for (const schema::Program* p : *root.programs()) {
    touch(p->target());
    touch(p->bank_names());
    for (const auto* names : {p->input_names(), p->output_names(), p->input_layouts(), p->output_layouts()})
      touch(names);
  }
  for (const schema::Layer* layer : *root.layers()) touch(layer->name()), touch(layer->source_op());
  if (root.metadata() != nullptr)
    for (const schema::KeyValue* pair : *root.metadata()) touch(pair->key()), touch(pair->value());
  if (root.golden() != nullptr)
    for (const schema::Golden* pair : *root.golden()) touch(pair->inputs()), touch(pair->outputs());
}

// run() may refuse only an index in its data, or a number of rows that the program cannot run.
void run(const Model& model, const Program& program, uint32_t batch) {
  for (const Filling filling : {Filling::kZeros, Filling::kStretches, Filling::kRandom}) {
    for (uint32_t i = 0; i < program.input_count(); ++i)
      fill(program.input(i), model.tensors()[program.view().inputs[i]].element, filling, i);
    const Status s = program.run();
    require(s.ok() || s.code == Code::kIndex, "run refuses nothing but an index in data");
    for (const uint32_t rows : {1u, batch - 1}) {
      if (batch < 2) break;
      const Status lowered = program.run_rows(rows);
      require(lowered.ok() || lowered.code == Code::kIndex || lowered.code == Code::kRowsUnsupported,
              "rows are run or refused");
    }
  }
  uint64_t sum = 0;
  for (uint32_t i = 0; i < program.output_count(); ++i)
    for (const std::byte b : program.output(i)) sum += uint64_t(b);
  touched = touched + sum;
}

Outcome exercise(const Model& model, uint32_t index, const Caps& caps) {
  Sizes sizes;
  const Status measured = Program::measure(model, index, reference_kernels(), &sizes);
  if (measured.code == Code::kWork) return Outcome::kCaps;
  if (!measured.ok()) return Outcome::kMeaning;
  require(sizes.total() >= *std::max_element(sizes.bytes, sizes.bytes + kBlockCount), "the total does not wrap");
  if (sizes.total() > caps.memory_bytes) return Outcome::kCaps;
  Blocks blocks(sizes);
  Program program;
  require(program.bind(model, index, reference_kernels(), blocks.memory).ok(), "bind takes what measure asked for");
  run(model, program, model.program(index).batch);
  return Outcome::kRun;
}

// Trains on zeros, then on random bits in every input. commit() may refuse only what it is allowed to.
void train(const Model& model, const Caps& caps) {
  Sizes sizes;
  if (!Trainer::measure(model, nullptr, reference_kernels(), &sizes).ok() || sizes.total() > caps.memory_bytes) return;
  Blocks blocks(sizes);
  Trainer trainer;
  require(trainer.bind(model, nullptr, reference_kernels(), blocks.memory).ok(), "a Trainer binds what it measured");
  const auto fine = [](const Status& s) { return s.ok() || s.code == Code::kIndex; };
  require(fine(trainer.start()), "start refuses nothing but an index in data");
  const uint32_t gradients = [&] {
    uint32_t index = 0;
    return model.find(trainer.immediate() ? Entry::kUpdate : Entry::kGradients, nullptr, &index).ok() ? index : 0;
  }();
  for (const Filling filling : {Filling::kZeros, Filling::kRandom}) {
    for (uint32_t i = 0; i < trainer.input_count(); ++i)
      fill(trainer.input(i), model.tensors()[model.program(gradients).inputs[i]].element, filling, i);
    require(fine(trainer.accumulate()), "accumulate refuses nothing but an index in data");
    Trainer::Report report;
    const Status committed = trainer.commit(0.5f, &report);
    require(fine(committed) || committed.code == Code::kNothingAccumulated, "commit refuses nothing but no samples");
    touched = touched + report.applied + report.refused_in_row;
  }
  for (const std::byte b : trainer.state()) touched = touched + uint64_t(b);
}

}  // namespace

Exercised exercise(std::span<const std::byte> file, const Caps& caps) {
  Model model;
  const Status opened = model.open(file, {.work = caps.work});
  if (!opened.ok()) {
    require(!model.opened() && model.program_count() == 0, "a refused model is closed");
    const bool damaged = opened.code == Code::kCrc || opened.code == Code::kLengthOver ||
                         (opened.code == Code::kLengthUnder && opened.table == Table::kHeader);
    return {damaged ? Outcome::kCrc : Outcome::kMeaning, {}};
  }
  walk(model);
  require(ask_c_api(file) > 0, "the C API opens what the engine opens");
  const uint32_t before = crc32c(file);
  Exercised result = {Outcome::kMeaning, model.check_weights()};
  for (uint32_t i = 0; i < model.program_count(); ++i)
    result.outcome = std::max(result.outcome, exercise(model, i, caps));
  if (result.outcome == Outcome::kRun) train(model, caps);
  if (result.outcome == Outcome::kRun) require(crc32c(file) == before, "no run writes into the file");
  return result;
}

}  // namespace nacre::test
