// Tests operators on int16, int8 and uint8 codes with LiteRT's own arithmetic: imports and runs them, and compares
// with the codes that LiteRT gave (tests/peers/litert_operators.json).
#include <gtest/gtest.h>

#include <fstream>

#include "tests/graph/run_graph.h"
#include "tests/importers/tflite_imports.h"
#include "tests/project_path.h"
#include "tools/base/json.h"
#include "tools/passes/passes.h"

namespace nacre::tools::tflite {
namespace {

std::vector<uint8_t> bytes_of_hex(const std::string& text) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) bytes.push_back(uint8_t(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::vector<uint8_t> bytes_of_codes(const std::vector<int16_t>& codes, ElementType type) {
  if (type == ElementType::kInt16) return bytes_of(codes);
  if (type == ElementType::kUint8) return bytes_of(std::vector<uint8_t>(codes.begin(), codes.end()));
  return bytes_of(std::vector<int8_t>(codes.begin(), codes.end()));
}

TEST(litert_operators, give_the_codes_of_litert_without_a_float_step) {
  std::ifstream file(project_path("tests/peers/litert_operators.json"));
  const Json table = Json::parse(file);
  ASSERT_EQ(table.size(), 26u);
  for (const auto& [name, network] : table.items()) {
    SCOPED_TRACE(name);
    Graph graph = imported(bytes_of_hex(network.at("file").get<std::string>()));
    simplify(graph);
    apply_policy(graph, {.rounding = Rounding::kNone});
    check(graph);
    const bool in_float = name == "resize_uint8";  // as in LiteRT
    for (const Node& node : graph.nodes) EXPECT_TRUE(in_float || node.op != Op::kDequantize);
    std::vector<std::vector<uint8_t>> inputs;
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const auto codes = network.at("inputs")[i].get<std::vector<int16_t>>();
      inputs.push_back(bytes_of_codes(codes, graph.values[size_t(graph.inputs[i].value)].type));
    }
    const Graph run = run_graph(graph, inputs);
    const Value& y = run.values[size_t(run.outputs[0].value)];
    EXPECT_EQ(*y.data, bytes_of_codes(network.at("output").get<std::vector<int16_t>>(), y.type));
  }
}

}  // namespace
}  // namespace nacre::tools::tflite
