// Tests estimates for GPUs against numbers computed by hand: 2 m n k operations at 780 T (16 bits) or 1400 T (float8)
// a second, bytes at 3.8 T a second, and 1.65 us a kernel. A float8 training step also costs 4 bytes per element of
// x, w and y, and 6 us.
#include "tools/evaluate/gpu_cost.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tools/compile/training.h"
#include "tools/evaluate/gpu_advice.h"
#include "tools/evaluate/gpu_estimate.h"
#include "tools/graph/batch.h"
#include "tools/model/gpu.h"
#include "tools/model/machines.h"

namespace nacre::tools {
namespace {

constexpr ProductForm kInBfloat16 = {.type = ElementType::kBfloat16}, kInFloat8 = {.type = ElementType::kFloat8E4M3},
                      kInFloat32 = {.type = ElementType::kFloat32}, kInInt8 = {.type = ElementType::kInt8};

const GpuArchitecture& h200() { return *find_gpu_architecture("cuda/sm90"); }

double us(const Product& p, int passes, const ProductForm& form) { return product_us(p, passes, form, h200()); }

TEST(gpu_cost, training_steps_of_float8_pay_where_products_are_large) {
  struct Case {
    Product product;
    double bfloat16, float8, gain;  // us, us, their ratio
  };
  // 1024^3: 2 1024^3 / 780 T = 2.753 us, three of them and three kernels 13.21 us. In float8 3 (1.534 + 1.65) us,
  // 4 (3 1024^2) / 3.8 T = 3.311 us, and 6. Without the kernels' 1.65 us that would be 8.26 and 13.91 us, 0.59.
  const Case cases[] = {{{.m = 1024, .n = 1024, .k = 1024}, 13.21, 18.86, 0.70},
                        {{.m = 1024, .n = 1024, .k = 2048}, 21.47, 25.67, 0.84},
                        {{.m = 2048, .n = 2048, .k = 2048}, 71.03, 61.01, 1.16},
                        {{.m = 4096, .n = 4096, .k = 4096}, 533.56, 358.44, 1.49},
                        {{.m = 16384, .n = 4096, .k = 4096}, 2119.40, 1347.94, 1.57},
                        {{.m = 15872, .n = 16384, .k = 4096}, 8198.43, 4988.69, 1.64}};
  for (const Case& c : cases) {
    const double half = us(c.product, 3, kInBfloat16), eight = us(c.product, 3, kInFloat8);
    EXPECT_NEAR(half, c.bfloat16, 0.01) << c.product.m << " " << c.product.k;
    EXPECT_NEAR(eight, c.float8, 0.01) << c.product.m << " " << c.product.k;
    EXPECT_NEAR(half / eight, c.gain, 0.006) << c.product.m << " " << c.product.k;
  }
}

TEST(gpu_cost, a_product_of_one_row_is_as_fast_as_its_weights_are_read) {
  const Product p = {.m = 1, .n = 4096, .k = 4096};
  EXPECT_NEAR(us(p, 1, kInFloat32), 17.66 + 0.01 + 1.65, 0.01);  // 4 4096^2 / 3.8 T; 32 KiB of x and y
  EXPECT_NEAR(us(p, 1, kInBfloat16), 8.83 + 1.65, 0.01);
  EXPECT_NEAR(us(p, 1, kInInt8), 4.42 + 1.65 + 1.66, 0.01);  // and a kernel for 20 KiB
  const ProductForm weights = {.type = ElementType::kBfloat16, .weight_bits = 4};
  EXPECT_NEAR(us(p, 1, weights), 2.21 + 1.65, 0.01);
  const ProductForm dynamic = {.type = ElementType::kInt8, .dynamic = true};
  EXPECT_NEAR(us(p, 1, dynamic) - us(p, 1, kInInt8), 1.66, 0.01);
}

TEST(gpu_cost, windows_are_gathered_by_a_kernel_of_their_own) {
  Product p = {.m = 4096, .n = 64, .k = 576};
  const double without = us(p, 1, kInBfloat16);
  p.gathers = true;
  EXPECT_NEAR(us(p, 1, kInBfloat16) - without, 1.65 + 1.24, 0.01);  // 2 4096 576 / 3.8 T
}

TEST(gpu_cost, every_gpu_target_has_its_rates_and_types) {
  for (const TargetMachine& machine : machines()) {
    const GpuArchitecture* const gpu = find_gpu_architecture(machine.name);
    ASSERT_EQ(gpu != nullptr, is_gpu_target(machine.name)) << machine.name;
    if (gpu == nullptr) continue;
    const int sm = architecture_of(machine.name);
    EXPECT_EQ(has_tensor_cores(*gpu, ElementType::kBfloat16), sm >= 80) << machine.name;
    EXPECT_EQ(has_tensor_cores(*gpu, ElementType::kFloat8E4M3), sm >= 89) << machine.name;
    EXPECT_TRUE(has_tensor_cores(*gpu, ElementType::kFloat16) && has_tensor_cores(*gpu, ElementType::kInt8));
    EXPECT_FALSE(has_tensor_cores(*gpu, ElementType::kFloat32));
    EXPECT_EQ(half_type(*gpu), sm >= 80 ? ElementType::kBfloat16 : ElementType::kFloat16);
    EXPECT_LT(gpu->float32, gpu->half) << machine.name;
  }
  EXPECT_EQ(find_gpu_architecture("cuda/sm70"), nullptr);
}

TEST(gpu_cost, features_are_padded_to_powers_of_two_and_above_256_to_multiples) {
  const std::pair<int64_t, int64_t> by_8[] = {{1, 8}, {10, 16}, {100, 128}, {250, 256}, {257, 264}, {1001, 1008}};
  for (const auto& [count, padded] : by_8) EXPECT_EQ(padded_features(count, 8), padded) << count;
  EXPECT_EQ(padded_features(1, 16), 16);
  EXPECT_EQ(padded_features(257, 16), 272);
}

// Builds x [rows, in] -> dense `out`, in the layer fc.
Graph dense(int rows, int in, int out) {
  Graph graph;
  graph.batch = rows;
  Value x, y;
  x.name = "x", x.dims = {rows, in};
  y.name = "y", y.dims = {rows, out};
  const ValueId input = graph.add(x);
  const ValueId w = graph.constant("w", {out, in}, std::vector<float>(size_t(in) * size_t(out), 0.01f));
  Node node;
  node.op = Op::kDense;
  node.name = "fc";
  node.layer = graph.add_layer({.name = "fc", .source_op = "Dense", .policy = {}});
  node.inputs = {input, w, kNone};
  node.outputs = {graph.add(y)};
  graph.inputs.push_back({"x", input, ""});
  graph.outputs.push_back({"y", node.outputs[0], ""});
  graph.nodes.push_back(node);
  mark_batched(graph, true);
  return graph;
}

struct DenseOf {
  int rows, in, out;
  const char *policy, *target = "cuda/sm90";
  bool trains = false;
};

GpuEstimate estimate(const DenseOf& d) {
  CompileOptions compiling;
  compiling.policies = parse_policy_options({.policy = d.policy});
  const Graph graph = dense(d.rows, d.in, d.out);
  const std::vector<uint8_t> bytes =
      d.trains ? compile_training(graph, {}, compiling).bytes : compile(graph, compiling).bytes;
  const LoadedModel model(bytes, "test", "");
  return estimate_gpu(model, *find_gpu_architecture(d.target));
}

bool says(const GpuEstimate& e, const std::string& part) {
  return std::ranges::any_of(e.layers.at(0).advice,
                             [&](const std::string& s) { return s.find(part) != std::string::npos; });
}

TEST(gpu_estimate, a_training_step_has_the_products_of_the_gradients_too) {
  const GpuEstimate e = estimate({.rows = 64, .in = 256, .out = 16, .policy = "mixed_bfloat16", .trains = true});
  ASSERT_EQ(e.layers.size(), 1u);
  EXPECT_TRUE(e.trains);
  EXPECT_EQ(e.layers[0].name, "fc");
  EXPECT_EQ(e.layers[0].passes, 2);  // nothing before it needs the gradient of x
  const Product& p = e.layers[0].product;
  EXPECT_EQ((std::vector<int64_t>{p.m, p.n, p.k, p.count}), (std::vector<int64_t>{64, 16, 256, 1}));
  EXPECT_GT(e.other_steps, 0u);  // the loss and the update
  EXPECT_DOUBLE_EQ(e.layers[0].policy_us, us(p, 2, kInBfloat16));
}

TEST(gpu_estimate, small_networks_belong_on_the_host_and_large_ones_on_the_gpu) {
  const GpuEstimate small = estimate({.rows = 1, .in = 512, .out = 512, .policy = "float32"});  // 0.52 M operations
  EXPECT_TRUE(small.on_host());
  EXPECT_NEAR(small.host_us, 10.49, 0.01);
  EXPECT_TRUE(gpu_verdict(small).starts_with("host: 0.5 M operations")) << gpu_verdict(small);
  const GpuEstimate large = estimate({.rows = 256, .in = 512, .out = 512, .policy = "float32"});
  EXPECT_FALSE(large.on_host());
  EXPECT_TRUE(gpu_verdict(large).starts_with("GPU: 134.2 M operations")) << gpu_verdict(large);
}

TEST(gpu_advice, there_is_none_where_there_is_nothing_to_say) {
  EXPECT_TRUE(estimate({.rows = 64, .in = 256, .out = 64, .policy = "mixed_bfloat16"}).layers[0].advice.empty());
  EXPECT_TRUE(estimate({.rows = 1, .in = 100, .out = 10, .policy = "float32"}).layers[0].advice.empty())
      << "no type makes it faster, so no count matters";
}

TEST(gpu_advice, names_the_counts_that_tensor_cores_do_not_take) {
  const GpuEstimate half = estimate({.rows = 3, .in = 100, .out = 300, .policy = "mixed_bfloat16"});
  EXPECT_TRUE(says(half,
                   "300 features are no multiple of 8, as Tensor Cores take bfloat16: pad to 304, or convert with "
                   "--pad-features"));
  EXPECT_TRUE(says(half, "100 inputs are no multiple of 8, as Tensor Cores take bfloat16: pad to 128"));
  EXPECT_FALSE(says(half, "rows")) << "of an inference rows are free";
  const GpuEstimate trained = estimate({.rows = 3, .in = 104, .out = 304, .policy = "mixed_bfloat16", .trains = true});
  EXPECT_TRUE(says(trained, "3 rows are no multiple of 8"));
  const GpuEstimate eight =
      estimate({.rows = 24, .in = 24, .out = 8, .policy = "float8/16_from_float32", .trains = true});
  EXPECT_TRUE(says(eight, "8 features are no multiple of 16, as Tensor Cores take float8: pad to 16"));
  EXPECT_FALSE(says(eight, "--pad-features")) << "of networks that infer";
  EXPECT_TRUE(says(eight, "24 rows are no multiple of 16"));
}

TEST(gpu_advice, names_types_without_tensor_cores_and_what_has_them) {
  EXPECT_TRUE(says(estimate({.rows = 512, .in = 2048, .out = 2048, .policy = "float32"}),
                   "float32 has no Tensor Cores: mixed_bfloat16 takes "));
  EXPECT_TRUE(says(estimate({.rows = 64, .in = 64, .out = 64, .policy = "mixed_bfloat16", .target = "cuda/sm75"}),
                   "bfloat16 has no Tensor Cores before cuda/sm80: mixed_float16 "));
  EXPECT_TRUE(says(
      estimate(
          {.rows = 64, .in = 64, .out = 64, .policy = "float8/16_from_float32", .target = "cuda/sm80", .trains = true}),
      "float8 has no Tensor Cores before cuda/sm89: mixed_bfloat16 "));
}

TEST(gpu_advice, says_where_float8_is_slower_and_where_it_would_help) {
  const GpuEstimate small =
      estimate({.rows = 64, .in = 64, .out = 64, .policy = "float8/16_from_float32", .trains = true});
  EXPECT_TRUE(small.layers[0].float8_is_slower());
  EXPECT_TRUE(says(small, "float8 is slower than bfloat16, "));
  const GpuEstimate large =
      estimate({.rows = 16384, .in = 2048, .out = 2048, .policy = "mixed_bfloat16", .trains = true});
  EXPECT_TRUE(says(large, "float8 takes ")) << large.layers[0].half_us << " " << large.layers[0].float8_us;
}

}  // namespace
}  // namespace nacre::tools
