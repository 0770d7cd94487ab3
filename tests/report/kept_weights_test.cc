// Tests reports, with bytes, on weights that a policy names but leaves unchanged, and on weights that become wider.
#include <gtest/gtest.h>

#include "tools/compile/compile.h"
#include "tools/model/loaded_model.h"
#include "tools/report/kept_weights.h"

namespace nacre::tools {
namespace {

const std::string kTable = R"(graph "t" batch=1
layer "table" source="Embedding"
layer "fc" source="Dense"
value %i int32 [1, 1]
value %t float32 [3, 4] region=weights data=float32 {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
value %e float32 [1, 1, 4]
value %w float32 [2, 4] region=weights data=float32 {1, 2, 3, 4, 5, 6, 7, 8}
value %y float32 [1, 1, 2]
input "i" %i
output "y" %y
%e = embedding(%t, %i) layer="table"
%y = dense(%e, %w, none) layer="fc"
)";

std::vector<std::string> kept_under(const std::string& policy) {
  CompileOptions options;
  options.policies = parse_policy_options({.policy = policy});
  const Compiled compiled = compile(parse(kTable), options);
  return kept_weights(LoadedModel(compiled.bytes, "t", ""), 0);
}

TEST(kept_weights, a_table_without_codes_is_named_with_its_bytes) {
  for (const char* policy : {"int8_from_float32", "int8/weights_from_float32", "int4_from_float32"}) {
    const std::vector<std::string> kept = kept_under(policy);
    ASSERT_EQ(kept.size(), 1u) << policy;
    EXPECT_TRUE(kept[0].starts_with("table (Embedding): ")) << kept[0];
    EXPECT_TRUE(kept[0].ends_with("has no form for its weights: they stay float32, 48 bytes")) << kept[0];
  }
}

TEST(kept_weights, floats_that_were_asked_for_are_no_news) { EXPECT_TRUE(kept_under("float16").empty()); }

TEST(widened_weights, what_the_file_keeps_narrower_is_named_with_its_bytes) {
  Graph graph = parse(kTable);
  for (Value& value : graph.values)
    if (value.name == "w") value.source_type = ElementType::kFloat16;
    else if (value.name == "t") value.source_type = ElementType::kInt8;
  EXPECT_EQ(widened_weights(graph),
            (std::vector<std::string>{"float16 weights of the file become float32: 32 bytes instead of 16, in 1 layer",
                                      "table (Embedding): int8 weights of the file become float32: "
                                      "48 bytes instead of 12"}));
  for (Layer& layer : graph.layers) layer.asked = true;
  EXPECT_TRUE(widened_weights(graph).empty());
}

}  // namespace
}  // namespace nacre::tools
