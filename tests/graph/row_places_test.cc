// Tests row_places.h against its definition: finds the rows of a batch in values by their numbers.
#include <gtest/gtest.h>

#include "tools/graph/row_places.h"

namespace nacre::tools {
namespace {

struct PlacedCase {
  const char* x;                          // dims
  const char* values;                     // beside x and y
  const char* nodes;                      // y is the last value
  int64_t count, outer_of_x, outer_of_y;  // count 0: not found
};

FoundRows placed_rows(const PlacedCase& c, int batch) {
  Graph graph = parse("graph \"t\" batch=" + std::to_string(batch) + "\nvalue %x float32 " + c.x +
                      "\nvalue %y float32 []\n" + c.values + "input \"x\" %x\noutput \"y\" %y\n" + c.nodes + "\n");
  infer_shapes(graph);
  return find_rows(graph, graph.outputs[0].value);
}

void expect_placed(const std::vector<PlacedCase>& cases, int batch) {
  for (const PlacedCase& c : cases) {
    const FoundRows rows = placed_rows(c, batch);
    EXPECT_EQ(rows.count, c.count) << c.nodes << ": " << rows.why;
    if (c.count == 0) {
      EXPECT_FALSE(rows.why.empty()) << c.nodes;
      continue;
    }
    if (rows.count == 0) continue;
    EXPECT_EQ(rows.outer[0], c.outer_of_x) << c.nodes;
    EXPECT_EQ(rows.outer_of_y, c.outer_of_y) << c.nodes;
  }
}

TEST(row_places, the_batch_is_followed_through_reshapes_and_transposes) {
  const std::string w = "value %w float32 [2, 3] data=float32 {1, 1, 1, 1, 1, 1}\n", a = "value %a float32 []\n",
                    ab = a + "value %b float32 []\n", wa = w + a, wab = w + ab;
  expect_placed(
      {{"[4, 5, 3]", ab.c_str(),
        "%a = reshape(%x) rank=2 dims=[20, 3]\n%b = sigmoid(%a)\n%y = reshape(%b) rank=3 dims=[4, 5, 3]", 4, 1, 1},
       {"[4, 5, 3]", wab.c_str(),
        "%a = reshape(%x) rank=2 dims=[20, 3]\n%b = dense(%a, %w)\n%y = reshape(%b) rank=3 dims=[4, 5, 2]", 4, 1, 1},
       {"[4, 5, 3]", wa.c_str(), "%a = dense(%x, %w)\n%y = reshape(%a) rank=2 dims=[20, 2]", 4, 1, 1},
       {"[4, 5, 3]", "", "%y = transpose(%x) perm=[1, 0, 2]", 4, 1, 5},
       {"[4, 5, 3]", ab.c_str(),
        "%a = transpose(%x) perm=[1, 0, 2]\n%b = softmax(%a) axis=0 beta=1\n%y = reshape(%b) rank=2 dims=[20, 3]", 4, 1,
        5},
       {"[4, 5, 3]", a.c_str(), "%a = transpose(%x) perm=[2, 1, 0]\n%y = reduce(%a) function=1 axes=1", 4, 1, 5},
       {"[4, 6]", ab.c_str(),  // heads: [rows, 2 heads, 3] -> [heads rows, 3] and back
        "%a = reshape(%x) rank=3 dims=[4, 2, 3]\n%b = transpose(%a) perm=[1, 0, 2]\n"
        "%y = reshape(%b) rank=2 dims=[8, 3]",
        4, 1, 2},
       {"[4, 3]", "", "%y = softmax(%x) axis=0 beta=1", 0, 0, 0},
       {"[4, 5, 3]", a.c_str(), "%a = reshape(%x) rank=2 dims=[20, 3]\n%y = softmax(%a) axis=0 beta=1", 0, 0, 0},
       {"[4, 5, 3]", a.c_str(), "%a = transpose(%x) perm=[0, 2, 1]\n%y = batched_matmul(%x, %a)", 4, 1, 1},
       {"[4, 5, 3]", a.c_str(), "%a = transpose(%x) perm=[2, 0, 1]\n%y = slice(%a) begin=[0, 1] size=[3, 2, 5]", 0, 0,
        0}},
      4);
}

// A recurrence over the first axis mixes its time steps, so the rows are along the second.
TEST(row_places, a_fixed_batch_may_lie_on_axis_1) {
  const std::string recurrence =
      "value %w float32 [4, 1] data=float32 {1, 1, 1, 1}\nvalue %a float32 []\nvalue %b float32 []\n";
  expect_placed({{"[5, 3, 4]", recurrence.c_str(),
                  "%a = transpose(%x) perm=[1, 0, 2]\n%b = lstm(%a, %w)\n%y = transpose(%b) perm=[1, 0, 2]", 3, 5, 5},
                 {"[5, 3, 4]", "", "%y = mean(%x) axes=1", 3, 5, 1},
                 {"[5, 3, 4]", "", "%y = sigmoid(%x)", 5, 1, 1}},
                1);
}

TEST(row_places, an_importer_s_word_counts) {
  Graph graph = parse(R"(graph "t" batch=3
value %x float32 [3, 3, 4]
value %y float32 [3, 3, 4]
input "x" %x
output "y" %y
%y = sigmoid(%x)
)");
  EXPECT_EQ(find_rows(graph, 1).outer[0], 1);
  graph.metadata = {{rows_metadata("x"), "1"}};
  const FoundRows rows = find_rows(graph, 1);
  EXPECT_EQ(rows.outer[0], 3);
  EXPECT_EQ(rows.outer_of_y, 3);
  const FoundRows read = parse_rows(rows_text(rows));
  EXPECT_EQ(read.count, 3);
  EXPECT_EQ(read.outer, rows.outer);
  EXPECT_EQ(parse_rows(rows_text({.why = "y reduces the batch"})).why, "y reduces the batch");
}

TEST(row_places, dims_of_a_row_are_those_without_the_rows) {
  using Dims = std::vector<int64_t>;
  EXPECT_EQ(dims_of_row({4, 5, 3}, 1, 4), (Dims{5, 3}));
  EXPECT_EQ(dims_of_row({5, 4, 3}, 5, 4), (Dims{5, 3}));
  EXPECT_EQ(dims_of_row({20, 3}, 1, 4), (Dims{5, 3}));  // rows of 5
  EXPECT_EQ(dims_of_row({20, 3}, 5, 4), (Dims{5, 3}));
  EXPECT_EQ(dims_of_row({4}, 1, 4), Dims{});
  EXPECT_EQ(dims_of_row({5, 1, 3}, 5, 1), (Dims{5, 3}));
}

}  // namespace
}  // namespace nacre::tools
