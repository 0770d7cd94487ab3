// Tests networks with padded features on a simulated GPU: no run copies anything for the library.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/run/on_device.h"
#include "tools/compile/compile.h"
#include "tools/policies/policy_request.h"

namespace nacre::tools {
namespace {

// Builds x [batch, 32] -> dense 18, relu -> dense 11, relu -> dense 5.
Graph odd_layers() {
  constexpr int kBatch = 3;
  Graph graph;
  graph.batch = kBatch;
  const auto value = [&](const std::string& name, int64_t width) {
    Value v;
    v.name = name, v.dims = {kBatch, width}, v.batched = true;
    return graph.add(std::move(v));
  };
  const auto add = [&](Op op, std::vector<ValueId> inputs, int64_t width) {
    const std::string name = "l" + std::to_string(graph.nodes.size());
    Node node = make_step(op, Node(), name, std::move(inputs), {value(name + ":0", width)});
    node.layer = graph.add_layer({.name = name, .source_op = "", .policy = {}});
    if (op == Op::kClamp) set_integer(node, "clamp", 1), set_real(node, "high", INFINITY);
    graph.nodes.push_back(std::move(node));
    return graph.nodes.back().outputs[0];
  };
  int64_t in = 32;
  ValueId x = value("x", in);
  graph.inputs.push_back({"x", x, ""});
  for (const int64_t out : {18, 11, 5}) {
    std::vector<float> w(size_t(out * in)), b(size_t(out), 0.25f);
    for (size_t i = 0; i < w.size(); ++i) w[i] = std::sin(float(i * 7 + 3)) / 4;
    x = add(Op::kDense, {x, graph.constant("w", {out, in}, w), graph.constant("b", {out}, b)}, out);
    if (out != 5) x = add(Op::kClamp, {x}, out);
    in = out;
  }
  graph.outputs.push_back({"y", x, ""});
  return graph;
}

struct OfARun {
  std::vector<std::byte> outputs;
  uint64_t products, launches;
};
OfARun run_on_gpu(const char* policy, bool pads) {
  CompileOptions options;
  options.policies = parse_policy_options({.policy = policy});
  options.pad_features = pads;
  options.target.name = "cuda/sm90";
  const std::vector<uint8_t> bytes = compile(odd_layers(), options).bytes;
  const test::Buffer file(std::as_bytes(std::span(bytes)));
  Model model;
  EXPECT_TRUE(model.open(file.bytes()).ok());
  test::FakeDriver driver;
  fake::FakeCublasLt library(driver);
  cuda::Device device;
  EXPECT_TRUE(device.open(&driver.driver(), test::kModules, 0, &library.library()));
  const Port* const ports[] = {nullptr, &device.port()};
  Places places(ports);
  Sizes sizes;
  EXPECT_TRUE(places.measure(model, 0, test::reference_kernels(), &sizes).ok());
  test::Blocks blocks(sizes, std::byte{0});
  EXPECT_TRUE(places.give(1, device.allocate(size_t(places.bytes(1)))).ok());
  Program program;
  EXPECT_TRUE(places.bind(&program, model, 0, test::reference_kernels(), blocks.memory).ok());
  test::write_inputs(program, model);
  EXPECT_TRUE(program.run().ok());
  OfARun made = {test::outputs_of(program), device.counts().products, driver.calls("cuLaunchKernel")};
  program.unbind();
  return made;
}

TEST(padded_features, give_the_same_bytes_with_fewer_kernels) {
  for (const char* policy : {"int8_from_float32", "float8/current_from_float32"}) {
    const OfARun plain = run_on_gpu(policy, false), padded = run_on_gpu(policy, true);
    EXPECT_EQ(padded.outputs, plain.outputs) << policy;
    EXPECT_EQ(padded.products, 3u) << policy;
    EXPECT_EQ(plain.products, 3u) << policy;
    EXPECT_LT(padded.launches, plain.launches) << policy;
  }
}

}  // namespace
}  // namespace nacre::tools
