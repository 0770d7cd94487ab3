// Tests learned ranges of quantizers against their formula, and refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "tests/differentiate/quantized_training.h"
#include "tests/differentiate/small_networks.h"
#include "tests/differentiate/small_trainer.h"
#include "tools/base/error.h"

namespace nacre::tools {
namespace {

using namespace quantized_training;

using test::perceptron;

// Runs the program `gradients` of a model step by step beside its trainer, so that a test sees a step's operands.
class Steps {
 public:
  explicit Steps(SmallTrainer& trainer) : loaded_(trainer.model()) {
    static const KernelSet* const kSets[] = {&reference::kernels(), &reference::training_kernels()};
    loaded_.require(model().find(Entry::kGradients, nullptr, &index_));
    Sizes sizes;
    loaded_.require(Program::measure(model(), index_, kSets, &sizes));
    block_.resize(size_t(sizes.total()));
    Memory memory;
    loaded_.require(Memory::cut(block_.bytes(), sizes, &memory));
    loaded_.require(program_.bind(model(), index_, kSets, memory));
    for (uint32_t id = 0; id < model().tensors().size(); ++id) {
      const TensorRecord& r = model().tensors()[id];
      if (r.region == Region::kDerived)
        std::ranges::copy(trainer.trainer().infer().bytes(id), program_.bytes(id).begin());
      if (r.region == Region::kState)
        std::ranges::copy(trainer.trainer().state().subspan(size_t(r.offset), size_t(r.bytes)),
                          program_.bytes(id).begin());
    }
  }

  const Model& model() const { return loaded_.model(); }
  const Program& program() const { return program_; }
  std::string name(uint32_t tensor) const { return loaded_.tensor_name(tensor); }
  std::vector<float> numbers(uint32_t tensor) const {
    const std::span<const std::byte> bytes = program_.bytes(tensor);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
  }
  // Calls f(operands) before each step of `op`.
  void run(Op op, auto f) {
    const ProgramView& view = program_.view();
    for (uint32_t step = 0; step < view.step_count; ++step) {
      const StepRecord& record = model().steps()[view.first_step + step];
      if (record.op == op) f(model().operands(record));
      loaded_.require(program_.run(step, step + 1, 0));
    }
  }

 private:
  const LoadedModel& loaded_;
  uint32_t index_ = 0;
  AlignedBytes block_;
  Program program_;
};

// The formula of engine/ops/fake_quantize.h trains the ends of a range. Here it is computed in float64 over the
// activations and gradients that the program holds:  d low = sum dy over x < l,  d high = sum dy over x > h. l and h
// are the ends that codes reach.
TEST(training_quantizers, learned_ranges_are_trained_by_the_formula) {
  Calibration calibration;
  for (const char* name : {"x", "relu1:0", "fc2:0"}) calibration.ranges[name].range = {-0.5f, 0.75f};
  TrainingOptions options;
  options.quantizers.learned_ranges = true;
  options.optimizer.kind = Optimizer::kSgd;
  SmallTrainer trainer(compiled(perceptron(16), "int8/static", options, &calibration).bytes);
  ASSERT_EQ(trainer.state<float>("relu1:0/range"), (std::vector<float>{-0.5f, 0.75f}));
  Steps steps(trainer);
  const Points data = points(1, 16, 6);
  std::memcpy(steps.program().input(0).data(), data.x.data(), data.x.size() * sizeof(float));
  std::memcpy(steps.program().input(1).data(), data.labels.data(), data.labels.size() * sizeof(int32_t));
  struct End {
    double sum[2] = {0, 0}, size[2] = {0, 0};  // the gradient, and the sum of its terms' magnitudes
    size_t elements = 0, cut = 0;
    uint32_t gradient = 0;
  };
  std::map<std::string, End> ends;
  steps.run(Op::kFakeQuantizeGradientScale, [&](const uint32_t* operands) {
    const uint32_t dy_id = operands[0] & kOperandIdMask, x_id = operands[1] & kOperandIdMask,
                   range_id = operands[2] & kOperandIdMask;
    const std::vector<float> dy = steps.numbers(dy_id), x = steps.numbers(x_id), range = steps.numbers(range_id);
    // [-0.5, 0.75]: scale 1.25 / 255, zero round(-128 + 0.5 / scale) = round(-26) = -26.
    const double scale = double(float(1.25 / 255)), low = scale * (-128 + 26), high = scale * (127 + 26);
    EXPECT_EQ(range, (std::vector<float>{-0.5f, 0.75f}));
    EXPECT_EQ(steps.name(range_id), steps.name(x_id) + "/range");
    End& end = ends[steps.name(range_id)];
    end.gradient = operands[3] & kOperandIdMask;
    end.elements += x.size();
    ASSERT_EQ(x.size(), dy.size());
    for (size_t i = 0; i < x.size(); ++i)
      for (const int side : {0, 1}) {
        const double gap = side == 0 ? low - double(x[i]) : double(x[i]) - high;
        ASSERT_GT(std::abs(gap), 1e-6);  // none is so near an end that float32 might put it on the other side
        if (gap <= 0) continue;
        end.sum[side] += double(dy[i]);
        end.size[side] += std::abs(double(dy[i]));
        ++end.cut;
      }
  });
  ASSERT_EQ(ends.size(), 3u);
  const float rate = 0.04f;
  const Trainer::Report report = trainer.train(data.x, data.labels, rate);
  ASSERT_TRUE(report.applied);
  for (const auto& [name, end] : ends) {
    const std::vector<float> found = steps.numbers(end.gradient), after = trainer.state<float>(name);
    const float before[] = {-0.5f, 0.75f};
    EXPECT_GT(end.cut, 0u) << name;
    for (const size_t side : {0u, 1u}) {
      // A float32 sum rounds once per addition.
      const double rounding = double(end.elements) * 0x1p-24 * end.size[side];
      EXPECT_NEAR(double(found[side]), end.sum[side], rounding) << name;
      // sgd computes range -= rate sum / samples, with a few roundings of numbers below 1.
      EXPECT_NEAR(double(after[side]), double(before[side]) - double(rate) * end.sum[side] / double(report.samples),
                  rounding + 4 * 0x1p-24)
          << name;
    }
    EXPECT_GT(end.size[0] + end.size[1], 0) << name;
    std::printf("%-14s %zu of %zu cut, d low %.6g, d high %.6g\n", name.c_str(), end.cut, end.elements, end.sum[0],
                end.sum[1]);
  }
}

TEST(training_quantizers, learned_ranges_learn) {
  Calibration calibration;
  for (const char* name : {"x", "relu1:0", "fc2:0"}) calibration.ranges[name].range = {-0.5f, 0.75f};
  TrainingOptions options;
  options.quantizers.learned_ranges = true;
  SmallTrainer trainer(compiled(perceptron(16), "int8/static", options, &calibration).bytes);
  const std::vector<float> losses = train(trainer, 400, 16, 6, 0.04f);
  EXPECT_LT(mean_of(losses, 380, 400), 0.7f * mean_of(losses, 0, 3));
}

TEST(training_quantizers, learned_ranges_are_refused_where_they_cannot_be) {
  Calibration calibration;
  for (const char* name : {"x", "relu1:0", "fc2:0"}) calibration.ranges[name].range = {-0.5f, 0.75f};
  TrainingOptions learned;
  learned.quantizers.learned_ranges = true;
  for (const auto& [policy, words] : {std::pair("int8/static_from_float64", "computes in float64"),
                                      std::pair("float32", "layers under int8/static")}) {
    try {
      compiled(perceptron(), policy, learned, &calibration);
      ADD_FAILURE() << policy;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace nacre::tools
