// Tests a recurrent ONNX network as PyTorch exports it: batch first around a recurrence that is time first. It must
// run and train with fewer rows than it was compiled for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/differentiate/small_trainer.h"
#include "tests/importers/onnx_builder.h"
#include "tools/base/error.h"
#include "tools/base/split_mix64.h"
#include "tools/compile/deployed.h"
#include "tools/compile/training.h"
#include "tools/importers/importer.h"
#include "tools/passes/simplify/simplify.h"

namespace nacre::tools {
namespace {

using test::SmallTrainer;

constexpr int kTime = 5, kIn = 3, kWidth = 4, kClasses = 3;

std::vector<float> normal_numbers(uint64_t seed, size_t count, double size) {
  SplitMix64 random(seed);
  std::vector<float> x(count);
  for (float& v : x) v = float(size * (double(random.next() >> 40) / 0x1p23 - 1));
  return x;
}

enum class Form { kLstm, kGru, kSequenceOfBoth, kStatesOfBoth };

// Returns x [N, time, in] -> transpose -> LSTM or GRU -> last h -> dense -> softmax. With two directions the dense
// layer reads the outputs of both side by side, averaged over time, or the last states of both side by side. The
// operators in between are those that PyTorch writes.
Graph recurrent_network(int batch, Form form) {
  const bool lstm = form != Form::kGru, both = form == Form::kSequenceOfBoth || form == Form::kStatesOfBoth;
  const int64_t directions = both ? 2 : 1, rows = (lstm ? 4 : 3) * kWidth, width = directions * kWidth;
  OnnxBuilder b;
  b.input("x", {0, kTime, kIn}, {"N", "", ""});
  b.floats("w", {directions, rows, kIn}, normal_numbers(1, size_t(directions * rows * kIn), 0.5));
  b.floats("r", {directions, rows, kWidth}, normal_numbers(2, size_t(directions * rows * kWidth), 0.5));
  b.floats("b", {directions, 2 * rows}, normal_numbers(3, size_t(directions * 2 * rows), 0.1));
  b.floats("v", {kClasses, width}, normal_numbers(4, size_t(kClasses * width), 0.7));
  b.node("Transpose", {"x"}, {"t"}).ints("perm", {1, 0, 2});
  const std::vector<std::string> outputs =
      form == Form::kSequenceOfBoth ? std::vector<std::string>{"o"} : std::vector<std::string>{"", "h"};
  b.node(lstm ? "LSTM" : "GRU", {"t", "w", "r", "b"}, outputs)
      .integer("hidden_size", kWidth)
      .text("direction", both ? "bidirectional" : "forward");
  if (form == Form::kSequenceOfBoth) {
    b.node("Transpose", {"o"}, {"o1"}).ints("perm", {0, 2, 1, 3});
    b.integers("joined", {3}, {0, 0, -1});
    b.node("Reshape", {"o1", "joined"}, {"o2"});
    b.node("Transpose", {"o2"}, {"o3"}).ints("perm", {1, 0, 2});
    b.node("ReduceMean", {"o3"}, {"s"}).ints("axes", {1}).integer("keepdims", 0);
  } else if (form == Form::kStatesOfBoth) {
    b.integers("first", {}, {0});
    b.integers("second", {}, {1});
    b.node("Gather", {"h", "first"}, {"h1"}).integer("axis", 0);
    b.node("Gather", {"h", "second"}, {"h2"}).integer("axis", 0);
    b.node("Concat", {"h1", "h2"}, {"s"}).integer("axis", 1);
  } else {
    b.integers("axes", {1}, {0});
    b.node("Squeeze", {"h", "axes"}, {"s"});
  }
  b.node("Gemm", {"s", "v"}, {"g"}).integer("transB", 1);
  b.node("Softmax", {"g"}, {"y"}).integer("axis", -1);
  b.output("y");
  Graph graph = import_onnx(b.finish(), "recurrent.onnx", {.batch = batch});
  check(graph);
  simplify(graph, {.fold_batch_norm = false});
  check(graph);
  return graph;
}

// Trains four rows at once, or one after another with a program for four or for one. The gradients are sums over rows
// in another order: at most 4 * 5 terms a row, each rounded at 2^-24 of sums below 4. Adam's first step would hide a
// wrong gradient, so sgd is used.
TEST(recurrent_batch, trains_with_fewer_rows_than_it_was_compiled_for) {
  const std::vector<float> x = normal_numbers(5, 4 * kTime * kIn, 1);
  const std::vector<int32_t> labels = {0, 2, 1, 2};
  for (const Form form : {Form::kLstm, Form::kGru, Form::kSequenceOfBoth, Form::kStatesOfBoth}) {
    const Graph graph = recurrent_network(4, form);
    EXPECT_TRUE(graph.values[size_t(graph.inputs[0].value)].batched);
    EXPECT_TRUE(graph.values[size_t(graph.outputs[0].value)].batched);
    EXPECT_TRUE(
        std::ranges::none_of(graph.log, [](const std::string& line) { return line.starts_with("batch: fixed"); }));
    TrainingOptions options;
    options.optimizer.kind = Optimizer::kSgd;
    const std::vector<uint8_t> bytes = compile_training(graph, options, {}).bytes;
    SmallTrainer whole(bytes), parts(bytes), single(compile_training(recurrent_network(1, form), options, {}).bytes);
    const Trainer::Report all = whole.train(x, labels, 0.5f);
    ASSERT_TRUE(all.applied);
    for (SmallTrainer* run : {&parts, &single}) {
      for (size_t row = 0; row < 4; ++row) {
        std::memcpy(run->trainer().input(0).data(), &x[row * kTime * kIn], kTime * kIn * sizeof(float));
        std::memcpy(run->trainer().input(1).data(), &labels[row], sizeof(int32_t));
        const Status status = run->trainer().accumulate(1);
        ASSERT_TRUE(status.ok()) << int(status.code);
      }
      Trainer::Report report;
      ASSERT_TRUE(run->trainer().commit(0.5f, &report).ok());
      EXPECT_TRUE(report.applied);
      EXPECT_EQ(report.samples, 4);
      EXPECT_NEAR(report.loss, all.loss, 4 * 0x1p-24 * 4);
    }
    int parameters = 0, moved = 0;
    for (uint32_t id = 0; id < whole.model().model().tensors().size(); ++id) {
      const TensorRecord& r = whole.model().model().tensors()[id];
      if (r.region != Region::kState || (r.flags & kTrainable) == 0) continue;
      const std::string name = whole.model().tensor_name(id);
      const std::vector<float> a = whole.state<float>(name), b = parts.state<float>(name),
                               c = single.state<float>(name);
      ASSERT_EQ(c.size(), a.size()) << name;
      const SmallTrainer first(bytes);
      const std::vector<float> before = first.state<float>(name);
      for (size_t i = 0; i < a.size(); ++i) {
        EXPECT_NEAR(a[i], b[i], 0.5f * 4 * 5 * 4 * 0x1p-24f) << name << ' ' << i;
        EXPECT_NEAR(a[i], c[i], 0.5f * 4 * 5 * 4 * 0x1p-24f) << name << ' ' << i;
        moved += a[i] != before[i] ? 1 : 0;
      }
      ++parameters;
    }
    EXPECT_GE(parameters, 4);
    EXPECT_GT(moved, 50);

    // The deployed network, one row at a time, gives the outputs that the trained one gives for four rows and for
    // one.
    const Deployed made = deploy(recurrent_network(1, form), {}, whole.model(), whole.trainer().state());
    const LoadedModel model(made.bytes, "deployed", "");
    BoundProgram bound(model, model.infer_program());
    const std::vector<float> want = whole.infer(x);
    for (size_t row = 0; row < 4; ++row) {
      const std::vector<uint8_t> y =
          bound.run({reinterpret_cast<const uint8_t*>(&x[row * kTime * kIn]), kTime * kIn * sizeof(float)});
      ASSERT_EQ(y.size(), kClasses * sizeof(float));
      EXPECT_EQ(std::memcmp(y.data(), &want[row * kClasses], y.size()), 0);
      const Program& infer = whole.trainer().infer();
      std::memcpy(infer.input(0).data(), &x[row * kTime * kIn], kTime * kIn * sizeof(float));
      ASSERT_TRUE(infer.run_rows(1).ok());
      EXPECT_EQ(std::memcmp(infer.output(0).data(), &want[row * kClasses], y.size()), 0);
    }
  }
}

// The cells as an output have no gradient. Ignoring their part silently would give wrong gradients, so the pass
// refuses.
TEST(recurrent_batch, a_loss_that_looks_at_the_cells_is_refused) {
  OnnxBuilder b;
  b.input("x", {kTime, 1, kIn});
  b.floats("w", {1, 4 * kWidth, kIn}, normal_numbers(1, 4 * kWidth * kIn, 0.5));
  b.floats("r", {1, 4 * kWidth, kWidth}, normal_numbers(2, 4 * kWidth * kWidth, 0.5));
  b.node("LSTM", {"x", "w", "r"}, {"", "h", "c"}).integer("hidden_size", kWidth);
  b.node("Add", {"h", "c"}, {"y"});
  b.output("y");
  Graph graph = import_onnx(b.finish(), "cells.onnx", {});
  simplify(graph, {.fold_batch_norm = false});
  TrainingOptions options;
  options.loss.kind = Loss::kSquaredError;
  try {
    compile_training(graph, options, {});
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("has no gradient of its output"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace nacre::tools
