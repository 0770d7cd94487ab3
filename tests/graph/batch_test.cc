// Tests mark_batched, which marks the values whose axis 0 is the batch.
#include <gtest/gtest.h>

#include "tools/graph/batch.h"

namespace nacre::tools {
namespace {

struct Case {
  const char* values;  // beside x and y
  const char* node;
  int rank_of_x;
  bool kept;
};

// Returns the marked graph of one node over x [4, ..], with y inferred.
Graph marked(const Case& c, int batch = 4) {
  std::string dims = "[4";
  for (int i = 1; i < c.rank_of_x; ++i) dims += ", 3";
  Graph graph = parse("graph \"t\" batch=" + std::to_string(batch) + "\nvalue %x float32 " + dims +
                      "]\nvalue %y float32 []\n" + c.values + "input \"x\" %x\noutput \"y\" %y\n" + c.node + "\n");
  infer_shapes(graph);
  mark_batched(graph, true);
  return graph;
}

TEST(mark_batched, an_op_keeps_the_batch_or_fixes_it) {
  const std::string ones = "data=float32 {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}\n",
                    row = "value %c float32 [3] data=float32 {1, 1, 1}\n";
  const std::string full = "value %c float32 [4, 3] " + ones, wide = "value %c float32 [1, 3] data=float32 {1, 1, 1}\n";
  const std::string w = "value %c float32 [2, 3] data=float32 {1, 1, 1, 1, 1, 1}\n";
  const Case cases[] = {
      {"", "%y = sigmoid(%x)", 2, true},
      {"", "%y = softmax(%x) axis=1 beta=1", 2, true},
      {"", "%y = softmax(%x) axis=0 beta=1", 2, false},
      {"", "%y = log_softmax(%x) axis=1", 2, true},
      {"", "%y = log_softmax(%x) axis=0", 2, false},
      {"", "%y = reduce(%x) function=1 axes=2", 2, true},
      {"", "%y = reduce(%x) function=2 axes=1", 2, false},
      {"", "%y = arg_max(%x) axis=1", 2, true},
      {"", "%y = arg_max(%x) axis=0", 2, false},
      {full.c_str(), "%y = binary(%c, %x) function=1", 2, false},
      {row.c_str(), "%y = binary(%x, %c) function=1", 2, true},
      {"", "%y = mean(%x) axes=2", 2, true},
      {"", "%y = mean(%x) axes=1 keep_dims=1", 2, false},
      {"", "%y = reshape(%x) rank=3 dims=[4, 3, 1]", 2, true},
      {"", "%y = reshape(%x) rank=1 dims=[12]", 2, false},
      {"", "%y = transpose(%x) perm=[0, 2, 1]", 3, true},
      {"", "%y = transpose(%x) perm=[1, 0]", 2, false},
      {"", "%y = pad(%x) before=[0, 1]", 2, true},
      {"", "%y = pad(%x) after=[1, 0]", 2, false},
      {"", "%y = slice(%x) begin=[0, 1] size=[4, 2]", 2, true},
      {"", "%y = slice(%x) begin=[1, 0] size=[3, 3]", 2, false},
      {"", "%y = concat(%x, %x) axis=1", 2, true},
      {"", "%y = concat(%x, %x) axis=0", 2, false},
      {full.c_str(), "%y = concat(%x, %c) axis=1", 2, false},  // with fewer rows they would not fit
      {row.c_str(), "%y = add(%x, %c)", 2, true},
      {wide.c_str(), "%y = add(%x, %c)", 2, true},
      {full.c_str(), "%y = mul(%c, %x)", 2, false},
      {w.c_str(), "%y = dense(%x, %c)", 2, true},
      {w.c_str(), "%y = dense(%c, %x)", 2, false},
  };
  for (const Case& c : cases) {
    const Graph graph = marked(c);
    EXPECT_EQ(graph.values[0].batched, c.kept) << c.node;
    EXPECT_EQ(graph.values[1].batched, c.kept) << c.node;
    EXPECT_EQ(graph.log.empty(), c.kept) << c.node;
    check(graph);
  }
}

TEST(mark_batched, an_input_of_another_first_axis_is_not_batched) {
  EXPECT_FALSE(marked({"", "%y = sigmoid(%x)", 2, true}, 5).values[0].batched);
}

TEST(mark_batched, what_does_not_depend_on_the_inputs_is_not_batched) {
  Graph graph = parse(R"(graph "t" batch=2
value %x float32 [2, 3]
value %c float32 [3] data=float32 {1, 2, 3}
value %s float32 [3]
value %y float32 [2, 3]
input "x" %x
output "y" %y
%s = sigmoid(%c)
%y = add(%x, %s)
)");
  mark_batched(graph, true);
  EXPECT_FALSE(graph.values[2].batched);
  EXPECT_TRUE(graph.values[3].batched);
  mark_batched(graph, false);
  EXPECT_FALSE(graph.values[3].batched);
}

}  // namespace
}  // namespace nacre::tools
