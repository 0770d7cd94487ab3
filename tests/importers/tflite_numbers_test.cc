// Runs imported operators on reals and integers that become several steps, and compares most of them with the numbers
// of LiteRT in tests/peers/litert_numbers.json. Reals are within 1e-5 of the largest; integers are equal.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "tests/graph/run_graph.h"
#include "tests/importers/tflite_imports.h"
#include "tests/project_path.h"
#include "tools/base/json.h"

namespace nacre::tools::tflite {
namespace {

std::vector<uint8_t> bytes_of_file(const std::string& hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes.push_back(uint8_t(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::vector<uint8_t> bytes_of_numbers(const std::vector<double>& numbers, ElementType type) {
  if (type == ElementType::kFloat32) return bytes_of(std::vector<float>(numbers.begin(), numbers.end()));
  if (type == ElementType::kInt32) return bytes_of(std::vector<int32_t>(numbers.begin(), numbers.end()));
  return bytes_of(std::vector<uint8_t>(numbers.begin(), numbers.end()));
}

void expect_numbers(const Value& y, const std::vector<double>& expected) {
  if (y.type != ElementType::kFloat32) {
    EXPECT_EQ(integers(y), Dims(expected.begin(), expected.end()));
    return;
  }
  const std::vector<float> found = reals(y);
  ASSERT_EQ(found.size(), expected.size());
  double most = 0;
  for (const double v : expected) most = std::max(most, std::abs(v));
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5 * most) << i;
}

TEST(litert_numbers, are_those_of_litert) {
  std::ifstream file(project_path("tests/peers/litert_numbers.json"));
  const Json table = Json::parse(file);
  ASSERT_EQ(table.size(), 33u);
  for (const auto& [name, network] : table.items()) {
    SCOPED_TRACE(name);
    const Graph graph = imported(bytes_of_file(network.at("file").get<std::string>()));
    std::vector<std::vector<uint8_t>> inputs;
    for (size_t i = 0; i < graph.inputs.size(); ++i)
      inputs.push_back(bytes_of_numbers(network.at("inputs")[i].get<std::vector<double>>(),
                                        graph.values[size_t(graph.inputs[i].value)].type));
    const Graph run = run_graph(graph, inputs);
    expect_numbers(run.values[size_t(run.outputs[0].value)], network.at("output").get<std::vector<double>>());
  }
}

// Finds the 3 largest values of x [2, 5] and their positions. If values are equal, the first comes first.
TEST(litert_numbers, the_largest_and_their_places) {
  TfliteBuilder b;
  const int x = b.activation("x", {2, 5}), k = b.int32s("k", {}, {3}), y = b.activation("y", {2, 3}),
            places = whole(b, "places", {2, 3});
  b.op(BuiltinOperator::TOPK_V2, {x, k}, {y, places});
  constexpr float kLow = -std::numeric_limits<float>::infinity();
  const std::vector<float> numbers = {3, 7, 7, -1, 5, kLow, 2, kLow, kLow, kLow};
  const Graph run = run_graph(imported(b.finish({x}, {y, places})), {bytes_of(numbers)});
  EXPECT_EQ(reals(value(run, "y")), (std::vector<float>{7, 7, 5, 2, kLow, kLow}));
  EXPECT_EQ(integers(value(run, "places")), (Dims{1, 2, 4, 1, 0, 2}));
  TfliteBuilder far;
  const int z = far.activation("x", {2, 5}), more = far.int32s("k", {}, {6}), of_z = far.activation("y", {2, 6}),
            at = whole(far, "places", {2, 6});
  far.op(BuiltinOperator::TOPK_V2, {z, more}, {of_z, at});
  refusal(far.finish({z}, {of_z, at}), kBadInput);
}

// The Fourier transform of 1, 2, 3, 4 is 10, -2 + 2i, -2.
TEST(litert_numbers, magnitudes_of_a_transform) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 1, 4}), length = b.int32s("length", {2}, {1, 4}), y = b.activation("y", {1, 3});
  const auto complex = [&](const std::string& name, const std::vector<int32_t>& shape) {
    return b.tensor(
        {.name = name, .type = TensorType::COMPLEX64, .shape = shape, .data = {}, .codes = {}, .signature = {}});
  };
  const int bins = complex("bins", {1, 1, 3}), row = complex("row", {1, 3});
  b.op(BuiltinOperator::RFFT2D, {x, length}, {bins});
  b.op(BuiltinOperator::RESHAPE, {bins, b.int32s("shape", {2}, {1, 3})}, {row});
  b.op(BuiltinOperator::COMPLEX_ABS, {row}, {y});
  const Graph run = run_graph(imported(b.finish({x}, {y})), {bytes_of(std::vector<float>{1, 2, 3, 4})});
  const std::vector<float> magnitudes = reals(value(run, "y"));
  ASSERT_EQ(magnitudes.size(), 3u);
  const float expected[] = {10, std::sqrt(8.0f), 2};
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(magnitudes[i], expected[i], 1e-5f) << i;
}

TEST(litert_numbers, places_outside_are_refused) {
  TfliteBuilder b;
  const int x = b.activation("x", {2, 3}), ids = b.int32s("ids", {2, 1}, {0, 4}),
            shape = b.int32s("shape", {2}, {4, 3}), y = b.activation("y", {4, 3});
  b.op(BuiltinOperator::SCATTER_ND, {ids, x, shape}, {y});
  EXPECT_NE(refusal(b.finish({x}, {y}), kBadInput).find("an index is outside its output"), std::string::npos);
}

TEST(import_tflite_control, a_condition_of_run_time_chooses) {
  for (const bool taken : {false, true}) {
    TfliteBuilder b;
    const auto branch = [&](BuiltinOperator code) {
      return b.graph([&] {
        const int x = b.activation("x", {1, 2}), y = b.activation("y", {1, 2});
        b.op(code, {x}, {y});
        return TfliteBuilder::Ends{{x}, {y}};
      });
    };
    const int yes = branch(BuiltinOperator::NEG), no = branch(BuiltinOperator::ABS);
    const int c = bools(b, "c", {}), x = b.activation("in", {1, 2}), y = b.activation("out", {1, 2});
    b.op(BuiltinOperator::IF, {c, x}, {y}, CreateIfOptions(b.fbb(), yes, no));
    const Graph run =
        run_graph(imported(b.finish({c, x}, {y})), {{uint8_t(taken ? 1 : 0)}, bytes_of(std::vector<float>{-1, 2})});
    EXPECT_EQ(reals(value(run, "out")), taken ? (std::vector<float>{1, -2}) : (std::vector<float>{1, 2}));
  }
}

}  // namespace
}  // namespace nacre::tools::tflite
