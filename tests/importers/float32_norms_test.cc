// Tests which nodes of a network compute in float32 if its policy is a 16-bit type.
#include <gtest/gtest.h>

#include <string>

#include "tools/importers/shared/float32_norms.h"

namespace nacre::tools {
namespace {

// Returns the text of a graph that computes x / sqrt(mean x^2 + e) step by step, and then a relu.
std::string spelled_out(const std::string& source) {
  return R"(graph "t" batch=1
layer "n" source=")" +
         source + R"("
layer "f" source="Relu"
value %x float32 [1, 4]
value %s float32 [1, 4]
value %m float32 [1, 1]
value %e float32 [] region=weights data=float32 {1e-6}
value %k float32 [1, 1]
value %r float32 [1, 1]
value %n float32 [1, 4]
value %y float32 [1, 4]
input "x" %x
output "y" %y
%s = mul(%x, %x) layer="n"
%m = mean(%s) axes=2 keep_dims=1 layer="n"
%k = add(%m, %e) layer="n"
%r = unary(%k) function=3 layer="n"
%n = binary(%x, %r) function=1 layer="n"
%y = clamp(%n) clamp=1 high=inf layer="f"
)";
}

int wide_nodes(const std::string& source, SourceLanguage language) {
  Graph graph = parse(spelled_out(source));
  find_float32_norms(graph, language);
  int count = 0;
  for (const Node& node : graph.nodes) count += node.wide ? 1 : 0;
  EXPECT_FALSE(graph.nodes.back().wide);
  return count;
}

TEST(float32_norms, a_formula_of_an_exporter_is_a_normalisation) {
  EXPECT_EQ(wide_nodes("Mul", SourceLanguage::kOnnx), 5);
  EXPECT_EQ(wide_nodes("MUL", SourceLanguage::kTflite), 5);
}

TEST(float32_norms, keras_layers_are_those_of_the_table) {
  EXPECT_EQ(wide_nodes("RMSNormalization", SourceLanguage::kKeras), 5);
  EXPECT_EQ(wide_nodes("UnitNormalization", SourceLanguage::kKeras), 0);
  EXPECT_EQ(wide_nodes("Multiply", SourceLanguage::kKeras), 0);
}

TEST(float32_norms, squares_without_a_root_are_none) {
  std::string text = spelled_out("Mul");
  text.replace(text.find("function=3"), 10, "function=6");  // abs
  Graph graph = parse(text);
  find_float32_norms(graph, SourceLanguage::kOnnx);
  for (const Node& node : graph.nodes) EXPECT_FALSE(node.wide);
}

}  // namespace
}  // namespace nacre::tools
