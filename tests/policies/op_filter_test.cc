// Tests the names of ops in --only and --except.
#include "tools/policies/op_filter.h"

#include <gtest/gtest.h>

#include <utility>

namespace nacre::tools {
namespace {

TEST(op_filter, functions_are_named_in_the_words_of_other_systems_too) {
  Graph graph;
  graph.add_layer({.name = "a", .source_op = "Div", .policy = {}});
  graph.add_layer({.name = "b", .source_op = "MAXIMUM", .policy = {}});
  graph.add_layer({.name = "c", .source_op = "Where", .policy = {}});
  for (const auto& [name, layer] : {std::pair("divide", 0), std::pair("max", 1), std::pair("select_v2", 2)})
    for (int i = 0; i < 3; ++i) EXPECT_EQ(layer_is(graph, i, name), i == layer) << name;
}

}  // namespace
}  // namespace nacre::tools
