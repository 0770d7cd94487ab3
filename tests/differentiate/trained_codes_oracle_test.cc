// Tests training of codes against float64 and the integer steps: one step, the factor of its gradients, named layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/differentiate/code_trainer.h"
#include "tests/differentiate/small_networks.h"
#include "tools/compile/training.h"
#include "tools/differentiate/trained_codes.h"

namespace nacre::tools {
namespace {

using namespace code_trainer;

using test::convolutional;
using test::perceptron;

struct Codes {  // real = scale (code - zero)
  double scale, zero;
  double rounded(double v) const { return scale * (std::clamp(std::round(v / scale) + zero, -128.0, 127.0) - zero); }
  double low() const { return scale * (-128 - zero); }
  double high() const { return scale * (127 - zero); }
};
Codes codes_of(const LoadedModel& model, const std::string& name) {
  for (uint32_t id = 0; id < model.model().tensors().size(); ++id)
    if (model.tensor_name(id) == name)
      if (const std::optional<Scales> s = model.scales(id))
        return {double(s->scale[0]), double(s->zero.empty() ? 0 : s->zero[0])};
  ADD_FAILURE() << name;
  return {1, 0};
}

struct Layer {  // [outputs, terms]
  std::vector<double> w, b, w_step, b_step, dw, db;
  size_t terms() const { return w.size() / b.size(); }
  double real(size_t k, size_t i) const { return w_step[k] * w[k * terms() + i]; }

  std::vector<double> run(const std::vector<double>& x) const {
    std::vector<double> y;
    for (size_t k = 0; k < b.size(); ++k) {
      double sum = b_step[k] * b[k];
      for (size_t i = 0; i < terms(); ++i) sum += real(k, i) * x[i];
      y.push_back(sum);
    }
    return y;
  }
  // Returns the gradient of x, and adds those of the real weights.
  std::vector<double> back(const std::vector<double>& x, const std::vector<double>& dy) {
    std::vector<double> dx(x.size(), 0);
    for (size_t k = 0; k < b.size(); ++k) {
      db[k] += dy[k];
      for (size_t i = 0; i < terms(); ++i) {
        dw[k * terms() + i] += dy[k] * x[i];
        dx[i] += dy[k] * real(k, i);
      }
    }
    return dx;
  }
};

// Trains the perceptron on its codes: x, relu and logits are rounded, gradients pass straight through inside the
// ranges, and masters move by rate dL/dw / step. float32 sums of 6 terms and 16 rows cost 4 (6 + 16) 2^-24 of the
// largest gradient, and the softmax's exponentials 2 ulp: together less than 1e-5 of the largest. A code of x, relu
// or logits that rounds the other way in float32 would be an error of 1/255 of a range. No such code occurs in these
// rows.
TEST(trained_codes, one_step_is_the_scaled_rule_in_float64) {
  const Graph graph = perceptron(kRows);
  const std::vector<uint8_t> bytes = deployed(graph);
  const LoadedModel model(bytes, "test", "");
  CodeTrainer trainer(compile_training(graph, codes(), in_int8()));
  Layer layers[2];
  const Codes x_codes = codes_of(model, "x/int8"), h_codes = codes_of(model, "relu1:0"),
              z_codes = codes_of(model, "fc2:0");
  for (int l = 0; l < 2; ++l) {
    const std::string w = l == 0 ? "w1" : "w2", b = l == 0 ? "b1" : "b2";
    Layer& layer = layers[l];
    for (const float code : trainer.state(w + kMaster)) layer.w.push_back(double(code));
    for (const float code : trainer.state(b + kMaster)) layer.b.push_back(double(code));
    ASSERT_FALSE(layer.b.empty());
    std::optional<Scales> scales;
    for (uint32_t id = 0; id < model.model().tensors().size(); ++id)
      if (model.tensor_name(id) == w) scales = model.scales(id);
    ASSERT_TRUE(scales && scales->scale.size() == layer.b.size());
    for (const float s : scales->scale) {
      layer.w_step.push_back(double(s));
      layer.b_step.push_back(double(s) * (l == 0 ? x_codes : h_codes).scale);
    }
    layer.dw.assign(layer.w.size(), 0);
    layer.db.assign(layer.b.size(), 0);
  }
  const Data data = batch(5, 6);
  double loss = 0;
  for (size_t r = 0; r < kRows; ++r) {
    std::vector<double> x, h, z;
    for (size_t i = 0; i < 6; ++i) x.push_back(x_codes.rounded(double(data.x[r * 6 + i])));
    const std::vector<double> before = layers[0].run(x);
    for (const double v : before) h.push_back(h_codes.rounded(std::max(v, 0.0)));
    const std::vector<double> logits = layers[1].run(h);
    for (const double v : logits) z.push_back(z_codes.rounded(v));
    double sum = 0;
    for (const double v : z) sum += std::exp(v);
    const auto label = size_t(data.labels[r]);
    loss += (std::log(sum) - z[label]) / kRows;
    std::vector<double> dz;
    for (size_t k = 0; k < 3; ++k) {
      const bool inside = logits[k] >= z_codes.low() && logits[k] <= z_codes.high();
      dz.push_back(inside ? (std::exp(z[k]) / sum - (k == label ? 1 : 0)) / kRows : 0);
    }
    std::vector<double> dh = layers[1].back(h, dz);
    for (size_t k = 0; k < 5; ++k)
      if (before[k] <= 0 || before[k] > h_codes.high()) dh[k] = 0;
    layers[0].back(x, dh);
  }
  const float rate = 0.05f;
  EXPECT_NEAR(trainer.train(data, rate).loss, loss, 1e-5 * loss);
  for (int l = 0; l < 2; ++l) {
    const Layer& layer = layers[l];
    const std::vector<float> w = trainer.state((l == 0 ? "w1" : "w2") + std::string(kMaster)),
                             b = trainer.state((l == 0 ? "b1" : "b2") + std::string(kMaster));
    double largest = 0;
    for (const double v : layer.dw) largest = std::max(largest, std::abs(v));
    ASSERT_GT(largest, 0);
    for (size_t i = 0; i < w.size(); ++i) {
      const double step = layer.w_step[i / layer.terms()];
      EXPECT_NEAR(double(w[i]), layer.w[i] - double(rate) * layer.dw[i] / step,
                  double(rate) * 1e-5 * largest / step + 128 * 0x1p-24);
    }
    for (size_t k = 0; k < b.size(); ++k)
      EXPECT_NEAR(double(b[k]), layer.b[k] - double(rate) * layer.db[k] / layer.b_step[k],
                  double(rate) * 1e-5 / layer.b_step[k] + std::abs(layer.b[k]) * 0x1p-23);
  }
}

// Shows why the gradient is scaled. Without the factor a master would move by step^2 times as much, at most the square
// of the largest step. At the rate that learns, no code would move in 120 steps.
TEST(trained_codes, without_the_factor_no_code_would_move) {
  const Graph graph = perceptron(kRows);
  CodeTrainer scaled(compile_training(graph, codes(), in_int8())), chain(compile_training(graph, codes(), in_int8()));
  const LoadedModel model(deployed(graph), "test", "");
  double largest = 0;
  for (uint32_t id = 0; id < model.model().tensors().size(); ++id)
    if (model.tensor_name(id) == "w1" || model.tensor_name(id) == "w2")
      for (const std::vector<float> steps = model.scales(id)->scale; const float s : steps)
        largest = std::max(largest, double(s));
  ASSERT_GT(largest, 0);
  const std::vector<float> at_first = scaled.state("w1/master");
  const auto [first, last] = scaled.train(120, 6, 0.05f);
  const auto [same, still] = chain.train(120, 6, float(0.05 * largest * largest));
  const auto moved = [&](CodeTrainer& trainer) {
    const std::vector<float> now = trainer.state("w1/master");
    return std::ranges::count_if(now, [&, i = size_t{0}](float v) mutable { return std::round(v) != at_first[i++]; });
  };
  EXPECT_LT(last, 0.5f * first);
  EXPECT_GT(moved(scaled), 20);  // of 30
  EXPECT_GT(still, 0.95f * same);
  EXPECT_EQ(moved(chain), 0);
  std::printf("scaled: loss %.3f -> %.3f, %d of 30 codes moved; by the chain rule alone: %.3f -> %.3f, %d\n",
              double(first), double(last), int(moved(scaled)), double(same), double(still), int(moved(chain)));
}

// Frozen layers before the first layer that trains stay integer steps. Their codes, and those of frozen layers after
// it, stay.
TEST(trained_codes, of_named_layers) {
  TrainingOptions last = codes();
  last.train.layers = {"fc"};
  const TrainingModel made = compile_training(convolutional(kRows), last, in_int8());
  std::vector<std::string> trained;
  for (const Value& v : made.gradients.values)
    if (v.trainable) trained.push_back(v.name);
  EXPECT_EQ(trained, (std::vector<std::string>{"fc.w/master", "fc.b/master"}));
  for (const Node& node : made.gradients.nodes) {
    if (node.op == Op::kConv2d) {
      EXPECT_EQ(made.gradients.values[size_t(node.outputs[0])].type, ElementType::kInt8);
    }
  }
  EXPECT_EQ(std::ranges::count(made.gradients.nodes, Op::kConv2dGradientX, &Node::op), 0);

  // The differentiated program simulates the deployed one. Before fc both compute the same codes. fc's sums are exact
  // when deployed, and within (terms + 1) 2^-24 in the simulation, whose multiplier is within 2^-31. So their
  // rounding may differ only for a sum that falls between two codes.
  CodeTrainer head(made);
  int apart = 0, answers = 0;
  const double step = codes_of(head.model(), "fc:0/int8").scale;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Data data = batch(seed, 72);
    const std::vector<uint8_t> deployed = head.infer(data.x);
    head.train(data, 0.05f);  // its outputs are those of the codes before the step
    std::vector<float> real(kRows * 3), simulated(kRows * 3);
    ASSERT_EQ(deployed.size(), real.size() * sizeof(float));
    std::memcpy(real.data(), deployed.data(), deployed.size());
    std::memcpy(simulated.data(), head.trainer().output(0).data(), deployed.size());
    for (size_t i = 0; i < real.size(); ++i, ++answers) {
      const double error = std::abs(double(real[i]) - double(simulated[i]));
      EXPECT_LE(error, 1.001 * step);
      apart += error > 0.5 * step ? 1 : 0;
    }
  }
  EXPECT_LT(apart, answers / 50);

  TrainingOptions first = codes();
  first.train.layers = {"conv1"};
  CodeTrainer trainer(compile_training(convolutional(kRows), first, in_int8()));
  const Anatomy before = anatomy(deployed(convolutional(kRows)));
  const auto [start, end] = trainer.train(300, 72, 0.2f);
  EXPECT_LT(end, 0.9f * start) << start;
  const Anatomy after = anatomy(trainer.exported());
  EXPECT_EQ(after.steps, before.steps);
  std::vector<std::string> changed = differing(before, after);
  for (const std::string& name : changed) EXPECT_TRUE(name.starts_with("conv1.")) << name;
  EXPECT_EQ(changed.size(), 2u);

  TrainingOptions biases = codes();
  biases.train.biases_only = true;
  CodeTrainer tuned(compile_training(convolutional(kRows), biases, in_int8()));
  tuned.train(30, 72, 0.05f);
  for (const std::string& name : differing(before, anatomy(tuned.exported())))
    EXPECT_NE(name.find(".b"), name.npos) << name;
}

}  // namespace
}  // namespace nacre::tools
