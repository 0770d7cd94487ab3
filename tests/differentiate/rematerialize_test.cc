// Tests rematerialization on graphs small enough to count by hand. dense(x [1, n], w [m, n]) gives [1, m]; 64 float32
// elements are 256 bytes.
#include "tools/differentiate/rematerialize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tools/passes/memory/plan_memory.h"

namespace nacre::tools {
namespace {

// x is 16 bytes; a, b, c and d are 256 each. In step 2 a, b and c live: 768 bytes.
const std::string kValues = R"(graph "net" batch=1
bank "arena" limit=0 used=0
value %x float32 [1, 4]
value %w1 float32 [64, 4] region=state kept=parameter
value %w2 float32 [64, 64] region=state kept=parameter
value %a float32 [1, 64]
value %b float32 [1, 64]
value %c float32 [1, 64]
value %d float32 [1, 64]
)";

// Returns the graph's text from the first node on.
std::string nodes_of(const Graph& graph) {
  const std::string text = dump(graph);
  const size_t at = text.find("\n%") + 1;
  return text.substr(at, text.find("\nlog ") + 1 - at);
}

uint64_t bound_of(Graph graph) {
  plan_memory(graph, {});
  return graph.liveness_bound;
}

TEST(rematerialize, what_fits_stays) {
  const std::string nodes = R"(%a = dense(%x, %w1)
%b = dense(%a, %w2)
%c = dense(%b, %w2)
%d = mul(%a, %c)
)";
  Graph graph = parse(kValues + "input \"x\" %x\noutput \"d\" %d\n" + nodes);
  const Rematerialized made = rematerialize(graph, 768);
  EXPECT_EQ(nodes_of(graph), nodes);
  EXPECT_EQ(made.steps, 0);
  EXPECT_EQ(made.bound, 768u);
  EXPECT_TRUE(made.reached);
  EXPECT_EQ(made.work, 0u);
  EXPECT_EQ(made.work_before, 64u * 4 + 2 * 64 * 64 + 64);  // the product of elements counts too
}

// In step 2 b, c and x are live; then a is computed again; in step 3 c and x are live. d takes the bytes of one of
// them.
TEST(rematerialize, a_value_is_computed_again_where_it_is_read) {
  Graph graph = parse(kValues + R"(input "x" %x
output "d" %d
%a = dense(%x, %w1)
%b = dense(%a, %w2)
%c = dense(%b, %w2)
%d = mul(%a, %c)
)");
  const Rematerialized made = rematerialize(graph, 767);
  EXPECT_EQ(nodes_of(graph), R"(%a = dense(%x, %w1)
%b = dense(%a, %w2)
%c = dense(%b, %w2)
%a/again = dense(%x, %w1)
%d = mul(%a/again, %c)
)");
  EXPECT_EQ(made.steps, 1);
  EXPECT_EQ(made.bound, 528u);
  EXPECT_TRUE(made.reached);
  EXPECT_EQ(made.work, 64u * 4);
  EXPECT_EQ(bound_of(graph), 528u);
}

// a and b are 128 bytes. b, c and d live in step 3: 640 bytes. Keeping a instead of b is no gain.
TEST(rematerialize, inputs_that_are_gone_are_computed_again_too) {
  Graph graph = parse(R"(graph "net" batch=1
bank "arena" limit=0 used=0
value %x float32 [1, 4]
value %w1 float32 [32, 4] region=state kept=parameter
value %w2 float32 [32, 32] region=state kept=parameter
value %w3 float32 [64, 32] region=state kept=parameter
value %w4 float32 [64, 64] region=state kept=parameter
value %w5 float32 [32, 64] region=state kept=parameter
value %a float32 [1, 32]
value %b float32 [1, 32]
value %c float32 [1, 64]
value %d float32 [1, 64]
value %e float32 [1, 32]
value %f float32 [1, 32]
input "x" %x
output "f" %f
%a = dense(%x, %w1)
%b = dense(%a, %w2)
%c = dense(%b, %w3)
%d = dense(%c, %w4)
%e = dense(%d, %w5)
%f = mul(%b, %e)
)");
  const Rematerialized made = rematerialize(graph, 600);
  EXPECT_EQ(nodes_of(graph), R"(%a = dense(%x, %w1)
%b = dense(%a, %w2)
%c = dense(%b, %w3)
%d = dense(%c, %w4)
%e = dense(%d, %w5)
%a/again = dense(%x, %w1)
%b/again = dense(%a/again, %w2)
%f = mul(%b/again, %e)
)");
  EXPECT_EQ(made.steps, 2);
  EXPECT_EQ(made.bound, 528u);  // x, c and d
}

// These steps need at least 528 bytes.
TEST(rematerialize, a_limit_out_of_reach_gives_the_least_that_is_found) {
  Graph graph = parse(kValues + R"(input "x" %x
output "d" %d
%a = dense(%x, %w1)
%b = dense(%a, %w2)
%c = dense(%b, %w2)
%d = mul(%a, %c)
)");
  const Rematerialized made = rematerialize(graph, 100);
  EXPECT_FALSE(made.reached);
  EXPECT_EQ(made.bound, 528u);
}

// The parameter changes between the two positions, so a step repeated there would compute another value.
TEST(rematerialize, a_step_is_not_repeated_after_what_it_reads_has_changed) {
  const std::string nodes = R"(%a = dense(%x, %w1)
%b = dense(%a, %w2)
%c = dense(%b, %w2)
none = sgd(%g, %report, %rate, %w1)
%d = mul(%a, %c)
)";
  Graph graph = parse(kValues + R"(value %g float32 [64, 4] region=step
value %report float32 [4]
value %rate float32 [1]
input "x" %x
input "report" %report
input "rate" %rate
output "d" %d
)" + nodes);
  const Rematerialized made = rematerialize(graph, 1);
  EXPECT_EQ(nodes_of(graph), nodes);
  EXPECT_FALSE(made.reached);
}

TEST(rematerialize, steps_that_observe_run_once) {
  const std::string nodes = R"(%a = fake_float8(%x1, %scale, %amax)
%b = dense(%a, %w2)
%c = dense(%b, %w2)
%d = mul(%a, %c)
)";
  Graph graph = parse(kValues + R"(value %x1 float32 [1, 64]
value %scale float32 [1] region=state kept=numerics
value %amax uint32 [1] region=step
input "x" %x1
output "d" %d
)" + nodes);
  rematerialize(graph, 1);
  EXPECT_EQ(nodes_of(graph), nodes);
}

}  // namespace
}  // namespace nacre::tools
