// Tests plans for memory in several banks: which block goes into which bank, plans that do not fit, and banks as
// options.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/passes/plan_memory_graphs.h"
#include "tests/passes/random_graph.h"
#include "tests/sanitized.h"
#include "tools/passes/memory/plan_memory.h"

namespace nacre::tools {
namespace {

using namespace plan_memory_graphs;

TEST(banks, hot_tensors_lie_in_the_first_and_none_is_over_its_limit) {
  for (uint32_t seed = 0; seed < uint32_t(nacre::test::generated(200)); ++seed) {
    const Graph source = random_graph({.nodes = 30}, seed);
    const Graph alone = planned(source);
    const uint64_t first = used(alone) / 3;
    const Graph graph = planned(source, {.name = "host", .banks = {{"tcm", first, 0}, {"sram", 0, 0}}});
    EXPECT_LE(graph.banks[0].used, first);
    EXPECT_GT(graph.banks[0].used, 0u);
    EXPECT_GT(graph.banks[1].used, 0u);
  }
}

TEST(banks, what_is_used_most_goes_first) {
  Graph graph = chain({100, 1000, 1008, 16});
  node(graph, Op::kDense, {1, 2}, 8);  // reads 1 and 2 once more
  graph = planned(graph, {.name = "host", .banks = {{"tcm", 1008, 0}, {"sram", 4096, 0}}});
  EXPECT_EQ(graph.values[2].bank, 0);
  EXPECT_EQ(graph.values[1].bank, 1);
}

TEST(banks, a_limit_at_the_bound_is_enough_for_one_bank_and_one_byte_less_is_refused) {
  const std::vector<int64_t> bytes = {27648, 18432, 18432, 36864, 9216, 18432, 2};
  EXPECT_EQ(used(planned(chain(bytes), {.name = "m4", .banks = {{"sram", 55296, 0}}})), 55296u);
  Graph graph = chain(bytes);
  graph.source = "vww.tflite";
  const std::string why = refusal([&] { plan_memory(graph, {.name = "m4", .banks = {{"sram", 55295, 0}}}); });
  EXPECT_NE(why.find("vww.tflite"), std::string::npos) << why;
  EXPECT_NE(why.find("sram (55295 bytes) is 1 bytes short"), std::string::npos) << why;
  EXPECT_NE(why.find("at least 55296 bytes"), std::string::npos) << why;
}

TEST(banks, every_bank_says_what_it_lacks) {
  Graph graph = chain({4096, 4096, 64});
  const std::string why =
      refusal([&] { plan_memory(graph, {.name = "m4", .banks = {{"tcm", 2048, 0}, {"sram", 4096, 0}}}); });
  EXPECT_NE(why.find("tcm (2048 bytes) is 2048 bytes short"), std::string::npos) << why;
  EXPECT_NE(why.find("sram (4096 bytes) is 4096 bytes short"), std::string::npos) << why;
}

TEST(parse_bank_list, reads_sizes_with_units) {
  const std::vector<Bank> banks = parse_bank_list("tcm=64K,sram=2M,psram=100,flash");
  ASSERT_EQ(banks.size(), 4u);
  EXPECT_EQ(banks[0].name, "tcm");
  EXPECT_EQ(banks[0].limit, 65536u);
  EXPECT_EQ(banks[1].limit, 2097152u);
  EXPECT_EQ(banks[2].limit, 100u);
  EXPECT_EQ(banks[3].limit, 0u);
}

TEST(parse_bank_list, refuses_what_is_not_a_list_of_banks) {
  for (const char* text :
       {"", ",", "a=1,", "=64K", "a=", "a=0", "a=-1", "a=64k", "a=64KB", "a=1,a=2", "a,b=1", "a=2000000M",
        "a=99999999999999999999", "a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1", "a= 1", "a=0x10"})
    EXPECT_EQ(refusal([&] { parse_bank_list(text); }).substr(0, 6), "--bank") << text;
}

}  // namespace
}  // namespace nacre::tools
