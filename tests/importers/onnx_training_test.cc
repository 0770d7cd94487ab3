// Tests import_onnx on the optimizers of ai.onnx.preview.training (one step per tensor, refused operands), on
// BatchNormalization in training mode and on exported dropout. tests/onnx/ checks the optimizers' numbers.
#include <gtest/gtest.h>

#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

OnnxBuilder training(const std::vector<std::string>& tensors, int count_type = TensorProto::INT64) {
  OnnxBuilder b;
  ::onnx::OperatorSetIdProto& import = *b.model().add_opset_import();
  import.set_domain("ai.onnx.preview.training");
  import.set_version(1);
  b.input("r", {});
  b.input("t", {}, {}, count_type);
  for (const std::string& name : tensors) b.input(name, {int64_t(name.back() - '0'), 2});
  return b;
}

TEST(onnx_training, lists_become_one_step_for_each_tensor) {
  OnnxBuilder b = training({"x1", "x2", "g1", "g2", "v1", "v2"});
  b.node("Momentum", {"r", "t", "x1", "x2", "g1", "g2", "v1", "v2"}, {"a1", "a2", "b1", "b2"})
      .domain("ai.onnx.preview.training")
      .real("alpha", 0.5f)
      .real("beta", 0.25f)
      .real("norm_coefficient", 0.125f)
      .text("mode", "nesterov");
  for (const char* name : {"a1", "a2", "b1", "b2"}) b.output(name);
  const Graph graph = imported(b);
  ASSERT_EQ(ops(graph), (std::vector<Op>{Op::kOnnxMomentum, Op::kOnnxMomentum}));
  for (size_t i = 0; i < 2; ++i) {
    const Node& node = graph.nodes[i];
    const std::string n = std::to_string(i + 1);
    const char* const names[] = {"x", "g", "v"};
    for (size_t k = 0; k < 3; ++k) EXPECT_EQ(operand(graph, node, 2 + k).name, names[k] + n);
    EXPECT_EQ(output(graph, i).name, "a" + n);
    EXPECT_EQ(node.outputs[0], graph.outputs[i].value);
    EXPECT_EQ(node.outputs[1], graph.outputs[2 + i].value);
    EXPECT_EQ(value(graph, "b" + n).dims, (Dims{int64_t(i) + 1, 2}));
    EXPECT_EQ(get_real(node, "alpha"), 0.5f);
    EXPECT_EQ(get_real(node, "beta"), 0.25f);
    EXPECT_EQ(get_real(node, "norm_coefficient"), 0.125f);
    EXPECT_EQ(get_integer(node, "nesterov"), 1);
  }
  EXPECT_EQ(ops(converted(b)), ops(graph));
}

TEST(onnx_training, defaults_are_onnx_s) {
  OnnxBuilder b = training({"x1", "g1", "v1", "h1"});
  b.node("Adam", {"r", "t", "x1", "g1", "v1", "h1"}, {"a1", "b1", "c1"}).domain("ai.onnx.preview.training");
  b.output("a1");
  const Graph graph = imported(b);
  const Node& node = first(graph, Op::kOnnxAdam);
  EXPECT_EQ(get_real(node, "alpha"), 0.9f);
  EXPECT_EQ(get_real(node, "beta"), 0.999f);
  EXPECT_EQ(get_real(node, "epsilon"), 0.0f);
}

std::string optimizer_refused(const char* op, const std::vector<std::string>& tensors,
                              const std::vector<std::string>& outputs, const char* mode = nullptr,
                              int count_type = TensorProto::INT64) {
  OnnxBuilder b = training(tensors, count_type);
  std::vector<std::string> inputs = {"r", "t"};
  inputs.insert(inputs.end(), tensors.begin(), tensors.end());
  OnnxNode node = b.node(op, inputs, outputs).domain("ai.onnx.preview.training");
  if (mode != nullptr) node.real("alpha", 0).real("beta", 0).real("norm_coefficient", 0).text("mode", mode);
  b.output(outputs[0]);
  return refusal(b);
}

TEST(onnx_training, other_operands_and_attributes_are_refused) {
  const std::pair<std::string, const char*> cases[] = {
      {optimizer_refused("Adagrad", {"x1", "g1", "h1"}, {"a", "b"}), ""},
      {optimizer_refused("Adagrad", {"x1", "g1"}, {"a", "b"}), "has 4 inputs"},
      {optimizer_refused("Adagrad", {}, {"a", "b"}), "has 2 inputs"},
      {optimizer_refused("Adam", {"x1", "g1", "v1"}, {"a", "b", "c"}), "has 5 inputs"},
      {optimizer_refused("Adagrad", {"x1", "g1", "h1"}, {"a", "b", "c"}), "more outputs"},
      {optimizer_refused("Adagrad", {"x1", "g2", "h1"}, {"a", "b"}), "shape"},
      {optimizer_refused("Momentum", {"x1", "g1", "v1"}, {"a", "b"}), "mode"},
      {optimizer_refused("Momentum", {"x1", "g1", "v1"}, {"a", "b"}, "fast"), "mode"},
      {optimizer_refused("Momentum", {"x1", "g1", "v1"}, {"a", "b"}, "standard"), ""},
      {optimizer_refused("Momentum", {"x1", "g1", "v1"}, {"a", "b"}, "standard", TensorProto::INT32), "int64"},
      {optimizer_refused("Gradient", {"x1"}, {"a"}), "ai.onnx.preview.training"}};
  for (const auto& [said, expected] : cases) {
    if (*expected == 0) EXPECT_EQ(said, "");
    else EXPECT_NE(said.find(expected), std::string::npos) << "expected '" << expected << "' in: " << said;
  }
}

OnnxBuilder batch_norm_in_training() {
  OnnxBuilder b;
  b.input("x", {1, 2}, {"n"});
  for (const char* name : {"scale", "bias", "mean", "variance"}) b.filled(name, {2}, 1);
  b.node("BatchNormalization", {"x", "scale", "bias", "mean", "variance"}, {"y", "new_mean", "new_variance"})
      .integer("training_mode", 1);
  b.output("y");
  return b;
}

// Imported for training, BatchNormalization in training mode becomes one step. For inference, or if the graph reads the
// updated statistics, it is expanded to several steps.
TEST(onnx_batch_norm, of_training_mode_is_one_step_to_train) {
  OnnxBuilder b = batch_norm_in_training();
  EXPECT_EQ(ops(imported(b, {.train = true})), std::vector<Op>{Op::kBatchNorm});
  EXPECT_GT(imported(b).nodes.size(), 1u);
  b.output("new_mean");
  EXPECT_GT(imported(b, {.train = true}).nodes.size(), 1u);
}

// torch's newer exporter writes Dropout2d as x times a mask, which says which random numbers are below `keep`.
OnnxBuilder drawn(bool compared) {
  OnnxBuilder b;
  b.input("x", {1, 2});
  b.floats("keep", {}, {0.7f});
  b.node("RandomUniformLike", {"x"}, {"u"});
  if (compared) {
    b.node("Less", {"u", "keep"}, {"below"});
    b.node("Cast", {"below"}, {"mask"}).integer("to", TensorProto::FLOAT);
  }
  b.node("Mul", {"x", compared ? "mask" : "u"}, {"y"});
  b.output("y");
  return b;
}

TEST(onnx_training, masks_of_several_operators_are_refused_and_other_draws_are_said) {
  EXPECT_NO_THROW(imported(drawn(true)));
  try {
    imported(drawn(true), {.train = true});
    ADD_FAILURE() << "was imported";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, kUnsupported);
    EXPECT_NE(std::string(error.what()).find("is the mask of a dropout in several operators"), std::string::npos)
        << error.what();
  }
  const Graph graph = imported(drawn(false), {.train = true});
  EXPECT_TRUE(std::ranges::any_of(graph.log, [](const std::string& line) {
    return line.starts_with("training: ") && line.find("draws random numbers in inference too") != line.npos;
  }));
}

}  // namespace
}  // namespace nacre::tools
