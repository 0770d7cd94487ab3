// Tests simplify on values that nothing reads, constants, identities, and equal steps.
#include <gtest/gtest.h>

#include "tests/passes/simplified_text.h"
#include "tools/graph/graph.h"

namespace nacre::tools {
namespace {

using namespace simplified_text;

TEST(simplify, nodes_that_nothing_reads_are_removed_with_their_values) {
  EXPECT_EQ(after(R"(graph "" batch=1
value %x float32 [2]
value %c float32 [2] data=float32 {1, 2}
value %u float32 [2]
value %t float32 [2]
value %y float32 [2]
input "x" %x
output "y" %y
%u = add(%x, %c)
%t = tanh(%u)
%y = tanh(%x)
)"),
            R"(graph "" batch=1
value %x float32 [2]
value %y float32 [2]
input "x" %x
output "y" %y
%y = tanh(%x)
)");
}

TEST(simplify, every_change_is_one_line_of_the_log) {
  const Graph g = simplified(R"(graph "net" batch=1
value %x float32 [2]
value %u float32 [2]
value %y float32 [2]
input "x" %x
output "y" %y
%u = tanh(%x) name="dead"
%y = tanh(%x)
)");
  EXPECT_EQ(g.log, std::vector<std::string>{"simplify: removed dead (tanh): nothing reads it"});
}

TEST(simplify, constants_are_folded) {
  EXPECT_EQ(after(R"(graph "" batch=1
value %x float32 [2]
value %a float32 [2] data=float32 {1, 2}
value %b float32 [1] data=float32 {10}
value %c float32 [2]
value %d float32 [2]
value %y float32 [2]
input "x" %x
output "y" %y
%c = mul(%a, %b)
%d = add(%c, %a)
%y = mul(%x, %d)
)"),
            R"(graph "" batch=1
value %x float32 [2]
value %d float32 [2] region=weights data=float32 {11, 22}
value %y float32 [2]
input "x" %x
output "y" %y
%y = mul(%x, %d)
)");
}

TEST(simplify, a_constant_output_stays_a_step) {
  const Graph g = simplified(R"(graph "" batch=1
value %a float32 [2] data=float32 {1, 2}
value %y float32 [2]
output "y" %y
%y = tanh(%a)
)");
  EXPECT_EQ(g.nodes.size(), 1u);
}

TEST(simplify, a_constant_that_would_enlarge_the_file_is_not_folded) {
  const char text[] = R"(graph "" batch=1
value %x float32 [1, 300000]
value %a float32 [1, 1] data=float32 {1}
value %b float32 [1, 300000]
value %y float32 [1, 300000]
input "x" %x
output "y" %y
%b = pad(%a) after=[0, 299999]
%y = add(%x, %b)
)";
  EXPECT_EQ(count(simplified(text), Op::kPad), 1);
}

TEST(simplify, codes_are_moved_and_never_evaluated) {
  EXPECT_EQ(after(R"(graph "" batch=1
value %x float32 [1, 3]
value %w float32 [3, 2] codes=int8 axis=1 scale=[0.5, 2] zero=[0, 0] data=int8 {1, 2, 3, 4, 5, 6}
value %t float32 [2, 3]
value %y float32 [1, 2]
input "x" %x
output "y" %y
%t = transpose(%w) perm=[1, 0]
%y = dense(%x, %t)
)"),
            R"(graph "" batch=1
value %x float32 [1, 3]
value %y float32 [1, 2]
value %w float32 [2, 3] codes=int8 axis=0 scale=[0.5, 2] zero=[0, 0] data=int8 {1, 3, 5, 2, 4, 6}
input "x" %x
output "y" %y
%y = dense(%x, %w)
)");
}

TEST(simplify, reshapes_of_reshapes_merge_and_identities_go) {
  EXPECT_EQ(after(R"(graph "" batch=1
value %x float32 [2, 6]
value %a float32 [3, 4]
value %b float32 [2, 6]
value %c float32 [12]
value %y float32 [12]
input "x" %x
output "y" %y
%a = reshape(%x) rank=2 dims=[3, 4]
%b = reshape(%a) rank=2 dims=[2, 6]
%c = reshape(%b) rank=1 dims=[12]
%y = tanh(%c)
)"),
            R"(graph "" batch=1
value %x float32 [2, 6]
value %c float32 [12]
value %y float32 [12]
input "x" %x
output "y" %y
%c = reshape(%x) rank=1 dims=[12]
%y = tanh(%c)
)");
}

TEST(simplify, an_identity_before_an_output_keeps_the_outputs_value) {
  EXPECT_EQ(after(R"(graph "" batch=1
value %x float32 [2, 6]
value %a float32 [2, 6]
value %y float32 [2, 6]
input "x" %x
output "y" %y
%a = tanh(%x)
%y = reshape(%a) rank=2 dims=[2, 6]
)"),
            R"(graph "" batch=1
value %x float32 [2, 6]
value %y float32 [2, 6]
input "x" %x
output "y" %y
%y = tanh(%x)
)");
}

TEST(simplify, an_identity_from_input_to_output_stays) {
  const Graph g = simplified(R"(graph "" batch=1
value %x float32 [2, 6]
value %y float32 [2, 6]
input "x" %x
output "y" %y
%y = transpose(%x) perm=[0, 1]
)");
  EXPECT_EQ(count(g, Op::kReshape), 1);
}

TEST(simplify, twins_become_one) {
  const Graph g = simplified(R"(graph "" batch=1
value %x float32 [2, 3]
value %a float32 [3, 2]
value %b float32 [3, 2]
value %r float32 [6]
value %s float32 [6]
value %c float32 [3, 2]
value %d float32 [6]
input "x" %x
output "c" %c
output "d" %d
%a = transpose(%x) perm=[1, 0]
%b = transpose(%x) perm=[1, 0]
%r = reshape(%x) rank=1 dims=[6]
%s = reshape(%x) rank=1 dims=[6]
%c = softmax(%a) axis=1 beta=1
%d = mul(%r, %s)
)");
  EXPECT_EQ(count(g, Op::kReshape), 1);
  EXPECT_LE(count(g, Op::kTranspose), 1);
}

}  // namespace
}  // namespace nacre::tools
