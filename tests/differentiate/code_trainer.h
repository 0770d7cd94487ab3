// Trains the codes of an int8 network, and returns what the tests compare: its state, its inference, its export.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/differentiate/small_networks.h"
#include "tools/compile/training.h"
#include "tools/tuner/tuned_model.h"

namespace nacre::tools::code_trainer {

inline constexpr int kRows = 16;

using Data = test::LabelledRows;
inline Data batch(uint64_t seed, int width) { return test::three_classes(seed, kRows, width); }

// Ranges that hold all values that the networks compute from a batch().
inline const Calibration& calibration() {
  static const Calibration made = [] {
    Calibration c;
    const std::pair<const char*, Range> ranges[] = {{"x", {-2, 3}},      {"relu1:0", {0, 6}}, {"fc2:0", {-6, 6}},
                                                    {"relu2:0", {0, 6}}, {"mean:0", {0, 4}},  {"fc:0", {-8, 8}}};
    for (const auto& [name, range] : ranges) c.ranges[name].range = range;
    return c;
  }();
  return made;
}

inline CompileOptions in_int8() {
  CompileOptions compiling;
  compiling.policies = parse_policy_options({.policy = "int8/static_from_float32"});
  compiling.calibration = &calibration();
  return compiling;
}

inline std::vector<uint8_t> deployed(Graph graph) {
  simplify(graph);
  return compile(std::move(graph), in_int8()).bytes;
}

inline TrainingOptions codes(Optimizer optimizer = Optimizer::kSgd) {
  TrainingOptions options;
  options.codes = true;
  options.optimizer.kind = optimizer;
  return options;
}

template <class T>
std::vector<uint8_t> bytes_of(const std::vector<T>& x) {
  const auto* first = reinterpret_cast<const uint8_t*>(x.data());
  return {first, first + x.size() * sizeof(T)};
}

class CodeTrainer {
 public:
  explicit CodeTrainer(const TrainingModel& made) : model_(made.bytes, "test", ""), trainer_(model_) {}

  Trainer::Report train(std::span<const uint8_t> x, std::span<const uint8_t> labels, float rate) {
    std::memcpy(trainer().input(0).data(), x.data(), x.size());
    std::memcpy(trainer().input(1).data(), labels.data(), labels.size());
    model_.require(trainer().accumulate());
    Trainer::Report report;
    model_.require(trainer().commit(rate, &report));
    EXPECT_TRUE(report.applied);
    return report;
  }
  Trainer::Report train(const Data& data, float rate) { return train(bytes_of(data.x), bytes_of(data.labels), rate); }
  // Returns the mean losses of the first and the last ten steps.
  std::pair<float, float> train(int steps, int width, float rate) {
    float first = 0, last = 0;
    for (int i = 0; i < steps; ++i) {
      const float loss = train(batch(uint64_t(i), width), rate).loss / 10;
      if (i < 10) first += loss;
      if (i >= steps - 10) last += loss;
    }
    return {first, last};
  }
  std::vector<uint8_t> infer(const std::vector<float>& x) { return infer(bytes_of(x)); }
  std::vector<uint8_t> infer(const std::vector<uint8_t>& x) {
    const Program& program = trainer().infer();
    std::memcpy(program.input(0).data(), x.data(), program.input(0).size());
    model_.require(program.run());
    const auto* y = reinterpret_cast<const uint8_t*>(program.output(0).data());
    return {y, y + program.output(0).size()};
  }
  std::vector<float> state(const std::string& name) {
    for (uint32_t id = 0; id < model_.model().tensors().size(); ++id) {
      const TensorRecord& r = model_.model().tensors()[id];
      if (r.region != Region::kState || model_.tensor_name(id) != name) continue;
      std::vector<float> numbers(size_t(r.bytes) / sizeof(float));
      std::memcpy(numbers.data(), trainer().state().data() + r.offset, r.bytes);
      return numbers;
    }
    return {};
  }
  std::vector<uint8_t> exported() { return tuned_model(trainer_, {}); }
  Trainer& trainer() { return trainer_.trainer(); }
  const LoadedModel& model() const { return model_; }

 private:
  LoadedModel model_;
  LoadedTrainer trainer_;
};

// A model's program without the bytes of its constants, and these bytes by name.
struct Anatomy {
  std::vector<std::string> steps;
  std::map<std::string, std::vector<uint8_t>> constants;
  Sizes sizes;
  uint64_t weights = 0;
};
inline Anatomy anatomy(const std::vector<uint8_t>& bytes) {
  const LoadedModel loaded(bytes, "test", "");
  BoundProgram bound(loaded, loaded.infer_program());
  const Model& model = loaded.model();
  Anatomy a = {{}, {}, bound.sizes(), loaded.weight_bytes()};
  const ProgramView& view = bound.program().view();
  for (uint32_t s = view.first_step; s < view.first_step + view.step_count; ++s) {
    const StepRecord& step = model.steps()[s];
    std::string text = find_rule(step.op)->name;
    const Words words = model.words(step);
    for (int i = 0; i < words.count; ++i) text += " " + std::to_string(words[i]);
    text += " rounding " + std::to_string(int(step.rounding));
    for (uint32_t i = 0; i < step.operand_count; ++i) {
      const uint32_t id = model.operands(step)[i] & kOperandIdMask;
      if (id == kNoOperand) continue;
      const TensorRecord& r = model.tensors()[id];
      text += " " + loaded.tensor_name(id) + ":" + std::to_string(int(r.element)) + "@" +
              std::to_string(int(r.region)) + "+" + (r.region == Region::kArena ? std::to_string(r.offset) : "");
      if (r.region != Region::kWeights) continue;
      const auto data = bound.program().bytes(id);
      const auto* first = reinterpret_cast<const uint8_t*>(data.data());
      a.constants[loaded.tensor_name(id)] = {first, first + data.size()};
    }
    a.steps.push_back(text);
  }
  return a;
}

inline std::vector<std::string> differing(const Anatomy& a, const Anatomy& b) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : a.constants)
    if (!b.constants.contains(name) || b.constants.at(name) != bytes) names.push_back(name);
  return names;
}

inline std::vector<uint8_t> run(const std::vector<uint8_t>& bytes, const std::vector<float>& x) {
  const LoadedModel model(bytes, "test", "");
  return BoundProgram(model, model.infer_program()).run(bytes_of(x));
}

}  // namespace nacre::tools::code_trainer
