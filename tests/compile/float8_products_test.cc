// Tests float8 layers that are trained as products of codes, for a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "tests/differentiate/quantized_training.h"
#include "tests/differentiate/small_networks.h"
#include "tests/run/on_device.h"
#include "tests/sanitized.h"
#include "tools/compile/training.h"

namespace nacre::tools {
namespace {

using test::convolutional;
using test::perceptron;
using test::residual;

constexpr const char* kPolicies[] = {"float8_from_float32", "float8/16_from_float32;update_order=transformer_engine",
                                     "float8/16_from_mixed_bfloat16", "float8/16_from_mixed_float16"};
// A sanitized build runs only the first policy.
std::span<const char* const> policies() { return std::span(kPolicies).first(test::sanitized() ? 1 : 4); }

TrainingModel compiled_for(const Graph& graph, const std::string& policy, const char* target) {
  TrainingOptions training;
  training.optimizer.kind = Optimizer::kMomentum;
  CompileOptions compiling;
  compiling.target.name = target;
  compiling.policies = parse_policy_options({.policy = policy});
  return compile_training(graph, training, compiling);
}

int count_of(const Graph& graph, Op op, ElementType first = ElementType::kNone) {
  return int(std::ranges::count_if(graph.nodes, [&](const Node& node) {
    return node.op == op && (first == ElementType::kNone || graph.values[size_t(node.inputs[0])].type == first);
  }));
}

TEST(float8_products, the_three_products_of_a_layer_are_of_codes) {
  for (const char* policy : policies()) {
    const TrainingModel made = compiled_for(perceptron(4), policy, "cuda/sm90");
    const Graph& graph = made.gradients;
    EXPECT_EQ(count_of(graph, Op::kDense, ElementType::kFloat8E4M3), 2) << policy;
    EXPECT_EQ(count_of(graph, Op::kDense, ElementType::kFloat8E5M2), 1) << policy;  // nothing before the first layer
    EXPECT_EQ(count_of(graph, Op::kDense), 3) << policy;
    EXPECT_EQ(count_of(graph, Op::kDenseFloat8GradientW), 2) << policy;
    EXPECT_EQ(count_of(graph, Op::kTranspose, ElementType::kFloat8E4M3), 1) << policy;
    EXPECT_EQ(count_of(graph, Op::kDenseGradientX) + count_of(graph, Op::kDenseGradientW), 0) << policy;
    EXPECT_EQ(count_of(graph, Op::kFakeFloat8Gradient), 0) << policy;
    for (const Node& node : graph.nodes)
      if (node.op == Op::kFakeFloat8) {
        EXPECT_EQ(element_bits(graph.values[size_t(node.outputs[0])].type), 8u) << policy;
      }
    const bool multiplies = std::string(policy).ends_with("engine");  // its steps are made of the scales
    EXPECT_EQ(count_of(made.derive, Op::kUnary), multiplies ? 6 : 0) << policy;
  }
}

TEST(float8_products, what_has_no_codes_of_one_scale_is_left) {
  const auto left = [](const Graph& graph, const char* policy, const char* target) {
    const Graph made = compiled_for(graph, policy, target).gradients;
    return count_of(made, Op::kDenseFloat8GradientW) == 0 && count_of(made, Op::kDense, ElementType::kFloat8E4M3) == 0;
  };
  for (const char* target : {"host", "cuda/sm80", "cuda/sm86"})
    EXPECT_TRUE(left(perceptron(4), "float8_from_float32", target)) << target;
  EXPECT_FALSE(left(perceptron(4), "float8_from_float32", "cuda/sm89"));
  for (const char* policy : {"float8/current_from_float32", "float8_from_mixed_bfloat16", "float32"})
    EXPECT_TRUE(left(perceptron(4), policy, "cuda/sm90")) << policy;
}

// The first convolution has no gradient of x, because nothing before it is trained. Decoded values that only the
// products read are not computed: each quantizer that is left gives codes.
TEST(float8_products, the_three_products_of_every_convolution_are_of_codes) {
  for (const char* policy : policies())
    for (const auto& [network, convs] : {std::pair(residual(4), 5), std::pair(convolutional(4), 2)}) {
      const Graph graph = compiled_for(network, policy, "cuda/sm90").gradients;
      EXPECT_EQ(count_of(graph, Op::kConv2d), convs) << policy;
      EXPECT_EQ(count_of(graph, Op::kConv2d, ElementType::kFloat8E4M3), convs) << policy;
      EXPECT_EQ(count_of(graph, Op::kConv2dGradientX), convs - 1) << policy;
      EXPECT_EQ(count_of(graph, Op::kConv2dGradientX, ElementType::kFloat8E5M2), convs - 1) << policy;
      EXPECT_EQ(count_of(graph, Op::kConv2dFloat8GradientW), convs) << policy;
      EXPECT_EQ(count_of(graph, Op::kConv2dGradientW), 0) << policy;
      EXPECT_EQ(count_of(graph, Op::kTranspose, ElementType::kFloat8E4M3), 1) << policy;  // of the dense layer
      for (const Node& node : graph.nodes)
        if (node.op == Op::kFakeFloat8) {
          EXPECT_EQ(element_bits(graph.values[size_t(node.outputs[0])].type), 8u) << policy;
        }
    }
}

// A trained model whose state and losses can be read, on the host or on a simulated GPU.
struct Trained {
  test::Buffer file;
  Model model;
  Sizes sizes;
  std::optional<test::Blocks> blocks;
  Trainer trainer;

  void bind(const std::vector<uint8_t>& bytes, Places* places, cuda::Device* device) {
    file = test::Buffer(std::as_bytes(std::span(bytes)));
    ASSERT_TRUE(model.open(file.bytes()).ok());
    ASSERT_TRUE(Trainer::measure(model, nullptr, test::reference_kernels(), &sizes, {}, places).ok());
    blocks.emplace(sizes);
    if (places != nullptr) {
      ASSERT_TRUE(places->give(1, device->allocate(size_t(places->bytes(1)))).ok());
    }
    ASSERT_TRUE(trainer.bind(model, nullptr, test::reference_kernels(), blocks->memory, nullptr, places).ok());
    ASSERT_TRUE(trainer.start().ok());
  }

  float step(int i, uint32_t rows) {
    const std::span<std::byte> x = trainer.input(0), labels = trainer.input(1);
    for (size_t at = 0; at * 4 < x.size(); ++at) {
      const float v = std::sin(float(at * 7 + size_t(i) * 13));
      std::memcpy(x.data() + 4 * at, &v, 4);
    }
    for (size_t at = 0; at * 4 < labels.size(); ++at) {
      const auto v = int32_t((at + size_t(i)) % 2);
      std::memcpy(labels.data() + 4 * at, &v, 4);
    }
    Trainer::Report report;
    EXPECT_TRUE(trainer.accumulate(rows).ok());
    EXPECT_TRUE(trainer.commit(0.05f, &report).ok());
    return report.loss;
  }
};

// In float32 the losses equal those of products of values, except for roundings; in 16 bits also for the values'
// roundings. A code that a rounding changes differs by a sixteenth.
TEST(float8_products, learn_what_products_of_the_values_learn) {
  for (const char* policy : policies())
    for (const Graph& network : {perceptron(16), residual(8)}) {
      Trained codes, values;
      codes.bind(compiled_for(network, policy, "cuda/sm90").bytes, nullptr, nullptr);
      values.bind(compiled_for(network, policy, "host").bytes, nullptr, nullptr);
      const float first = std::string(policy).find("mixed") == std::string::npos ? 1e-5f : 1e-2f;
      for (int i = 0; i < 24; ++i) {
        const float loss = values.step(i, 0);
        EXPECT_NEAR(codes.step(i, 0), loss, (i == 0 ? first : 0.05f) * std::abs(loss)) << policy << ", step " << i;
      }
    }
}

// Expects the host's bytes, and `count` library products a step, for any number of rows. `turned` is how often in
// four steps a quantizer writes its codes transposed.
void compare_with_the_host(const Graph& network, const char* policy, bool products, uint64_t count, uint64_t turned) {
  const std::vector<uint8_t> bytes = compiled_for(network, policy, "cuda/sm90").bytes;
  Trained host;
  host.bind(bytes, nullptr, nullptr);
  test::FakeDriver driver;
  fake::FakeCublasLt library(driver);
  cuda::Device device;
  ASSERT_TRUE(device.open(&driver.driver(), test::kModules, 0, products ? &library.library() : nullptr));
  const Port* const ports[] = {nullptr, &device.port()};
  Places places(ports);
  places.keep(1);
  Trained gpu;
  gpu.bind(bytes, &places, &device);
  for (int i = 0; i < 4; ++i) {
    const uint32_t rows = i == 2 ? 5 : 0;
    const uint64_t before = device.counts().products;
    EXPECT_EQ(gpu.step(i, rows), host.step(i, rows)) << policy;
    EXPECT_EQ(device.counts().products - before, products ? count : 0u) << policy;
  }
  EXPECT_TRUE(std::ranges::equal(gpu.trainer.state(), host.trainer.state())) << policy;
  EXPECT_EQ(device.counts().turned, turned) << policy << (products ? ", products" : "");
  EXPECT_GT(device.counts().joined, 0u) << policy;
}

// The numbers of features and channels are no multiples of the library's units. The perceptron needs three
// transposes. The second layer needs w^T in each of the 4 steps. With 16-bit values another step still uses the
// memory of w^T when w is quantized, so the transpose stays a step. Both layers need dy^T, which the quantizer writes
// in the 3 steps of 16 rows. x^T must be padded to whole features, so the quantizer never writes it.
TEST(float8_products, are_the_librarys_on_a_gpu_and_give_the_hosts_bytes) {
  for (const char* policy : policies())
    for (const bool products : {false, true})
      compare_with_the_host(perceptron(16), policy, products, 5,
                            (products ? 3 * 2 : 0) + (std::string(policy).find("mixed") == std::string::npos ? 4 : 0));
}

TEST(float8_products, of_convolutions_are_the_librarys_on_a_gpu_and_give_the_hosts_bytes) {
  for (const char* policy : policies())
    for (const bool products : {false, true})
      compare_with_the_host(residual(6), policy, products, 14 + 3, products ? 4 * 4 : 0);
}

}  // namespace
}  // namespace nacre::tools
