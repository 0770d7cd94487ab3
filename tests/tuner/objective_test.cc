// Tests Objective, which judges a training by the loss and the answers of rows, against formulas in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/differentiate/small_networks.h"
#include "tests/tuner/tuned_perceptron.h"
#include "tools/base/error.h"
#include "tools/compile/training.h"
#include "tools/tuner/tuned_model.h"
#include "tools/tuner/tuner.h"

namespace nacre::tools {
namespace {

using namespace tuned_perceptron;

// Compares with the loss of probabilities in float64: the mean over rows of -log p of the label.
TEST(objective, judges_as_the_formulas_say) {
  const LoadedModel model(training_bytes(), "test", "");
  const Objective objective(model);
  EXPECT_EQ(objective.labels().classes, 3);
  EXPECT_EQ(objective.labels().sample.dims.size(), 0u);
  EXPECT_EQ(objective.inputs()[0].dims, (std::vector<int64_t>{6}));
  EXPECT_EQ(objective.loss_name(), "softmax_cross_entropy");
  const float p[4][3] = {{0.5f, 0.25f, 0.25f}, {0.125f, 0.75f, 0.125f}, {0, 0, 1}, {1, 0, 0}};
  const int32_t y[4] = {0, 1, 2, 1};
  const auto bytes = std::as_bytes(std::span(&p[0][0], 12));
  const auto labels = std::span(reinterpret_cast<const uint8_t*>(y), sizeof y);
  const Judged three = objective.judge(objective.inferred(), bytes, labels.first(12), 3);
  EXPECT_NEAR(three.loss, -std::log(0.5) - std::log(0.75), 1e-15);
  EXPECT_EQ(three.right, 3u);
  EXPECT_EQ(three.answers, 3u);
  const Judged all = objective.judge(objective.inferred(), bytes, labels, 4);
  EXPECT_NEAR(all.loss, three.loss + 149 * std::log(2), 1e-12);  // a probability of 0 counts as 2^-149
  EXPECT_EQ(all.right, 3u);
  EXPECT_TRUE(std::isnan(Judged().mean_loss()) && std::isnan(Judged().accuracy()));
}

// Computes x [rows, 6] -> dense 5, relu -> dense 3, and a step of gradient descent on the mean of (y - t)^2, by the
// chain rule in float64.
struct PerceptronOracle {
  std::vector<double> w1, b1, w2, b2;

  // Takes a step and returns the loss before it.
  double step(const float* x, const float* t, size_t rows, double rate) {
    PerceptronOracle g = {std::vector<double>(w1.size()), std::vector<double>(b1.size()),
                          std::vector<double>(w2.size()), std::vector<double>(b2.size())};
    double loss = 0;
    for (size_t row = 0; row < rows; ++row, x += 6, t += 3) {
      double h[5], dh[5] = {};
      for (size_t j = 0; j < 5; ++j) {
        h[j] = b1[j];
        for (size_t i = 0; i < 6; ++i) h[j] += w1[6 * j + i] * double(x[i]);
        h[j] = std::max(h[j], 0.0);
      }
      for (size_t k = 0; k < 3; ++k) {
        double y = b2[k];
        for (size_t j = 0; j < 5; ++j) y += w2[5 * k + j] * h[j];
        const double d = y - double(t[k]), dy = 2 * d / (3 * double(rows));
        loss += d * d / (3 * double(rows));
        g.b2[k] += dy;
        for (size_t j = 0; j < 5; ++j) g.w2[5 * k + j] += dy * h[j], dh[j] += dy * w2[5 * k + j];
      }
      for (size_t j = 0; j < 5; ++j) {
        if (h[j] <= 0) continue;
        g.b1[j] += dh[j];
        for (size_t i = 0; i < 6; ++i) g.w1[6 * j + i] += dh[j] * double(x[i]);
      }
    }
    const std::pair<std::vector<double>*, const std::vector<double>*> all[] = {
        {&w1, &g.w1}, {&b1, &g.b1}, {&w2, &g.w2}, {&b2, &g.b2}};
    for (const auto& [p, dp] : all)
      for (size_t i = 0; i < p->size(); ++i) (*p)[i] -= rate * (*dp)[i];
    return loss;
  }
};

// In float64 a cast takes the targets to the loss. Parameters are within 1e-13: 12 steps of at most 22 * 6 terms
// below 4, rounded at 2^-53. Losses are computed from float32 outputs: 2^-24 of numbers below 4, and of their
// squares.
TEST(objective, targets_of_a_training_in_float64) {
  Graph graph = test::perceptron(4);
  graph.outputs[0].value = graph.nodes.back().inputs[0];  // without the softmax
  graph.nodes.pop_back();
  PerceptronOracle oracle;
  const std::pair<const char*, std::vector<double>*> parameters[] = {
      {"w1", &oracle.w1}, {"b1", &oracle.b1}, {"w2", &oracle.w2}, {"b2", &oracle.b2}};
  for (const Value& v : graph.values)
    for (const auto& [name, p] : parameters)
      if (v.name == name) {
        const std::vector<float> x = reals(v);
        p->assign(x.begin(), x.end());
      }
  for (const bool immediate : {false, true}) {
    TrainingOptions training;
    training.loss.kind = Loss::kSquaredError;
    training.immediate = immediate;
    CompileOptions compiling;
    compiling.policies = parse_policy_options({.policy = "float64", .set = {}, .file = {}, .only = {}, .except = {}});
    const LoadedModel model(compile_training(graph, training, compiling).bytes, "test", "");
    const Objective objective(model);
    EXPECT_EQ(objective.loss_name(), "squared_error");
    EXPECT_EQ(objective.labels().sample.name, "targets");
    EXPECT_EQ(objective.labels().sample.type, ElementType::kFloat32);
    EXPECT_EQ(objective.labels().sample.dims, (std::vector<int64_t>{3}));
    ASSERT_EQ(objective.inputs().size(), 1u);
    EXPECT_EQ(objective.inputs()[0].name, "x");

    Dataset data = rows();
    std::vector<float> x(size_t(kRows * kWidth)), t;
    std::memcpy(x.data(), data.inputs[0].data.data(), x.size() * sizeof(float));
    for (size_t row = 0; row < size_t(kRows); ++row)
      for (size_t k = 0; k < 3; ++k) t.push_back(x[6 * row + k] * x[6 * row + 5 - k]);
    data.labels = {.type = ElementType::kFloat32,
                   .dims = {kRows, 3},
                   .data = std::vector<uint8_t>(t.size() * sizeof(float)),
                   .place = "test"};
    std::memcpy(data.labels.data.data(), t.data(), data.labels.data.size());
    const Split split = split_rows(kRows, "", 1);
    LoadedTrainer trainer(model);
    const uint32_t batch = immediate ? 4 : 6;  // 6: by micro-batches of 4 and 2
    Tuner tuner(trainer, objective, data, split,
                {.epochs = 2, .batch = batch, .schedule = {.rate = 0.25f}, .shuffle = false, .options = "float64\n"});
    tuner.run({});
    PerceptronOracle expected = oracle;
    for (const EpochRecord& epoch : tuner.position().epochs) {
      double loss = 0;
      for (size_t row = 0; row < size_t(kRows); row += batch) {
        const size_t count = std::min(size_t(batch), size_t(kRows) - row);
        loss += double(count) * expected.step(&x[6 * row], &t[3 * row], count, 0.25);
      }
      EXPECT_NEAR(epoch.train_loss, loss / double(kRows), 64 * 0x1p-24) << immediate;
    }
    const std::pair<const char*, const std::vector<double>*> learned[] = {
        {"w1", &expected.w1}, {"b1", &expected.b1}, {"w2", &expected.w2}, {"b2", &expected.b2}};
    int compared = 0;
    for (uint32_t id = 0; id < model.model().tensors().size(); ++id)
      for (const auto& [name, p] : learned) {
        const TensorRecord& r = model.model().tensors()[id];
        if (r.region != Region::kState || model.tensor_name(id) != name) continue;
        ASSERT_EQ(r.bytes, p->size() * sizeof(double)) << name;
        std::vector<double> found(p->size());
        std::memcpy(found.data(), trainer.trainer().state().data() + r.offset, r.bytes);
        for (size_t i = 0; i < found.size(); ++i, ++compared)
          EXPECT_NEAR(found[i], (*p)[i], 1e-13) << name << ' ' << i << ' ' << immediate;
      }
    EXPECT_EQ(compared, 30 + 5 + 15 + 3);
  }
}

TEST(objective, a_model_that_only_infers_is_refused) {
  Trained run(training_bytes(), settings());
  const LoadedModel tuned(tuned_model(run.trainer, {}), "tuned", "");
  EXPECT_THROW(Objective{tuned}, Error);
}

}  // namespace
}  // namespace nacre::tools
