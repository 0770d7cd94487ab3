// Tests that layers frozen in the source do not train, however parameters are chosen. A norm without scale and bias
// learns only its statistics. A constant that the source calls a variable trains in any step that reads it.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/refused_with.h"
#include "tools/base/error.h"
#include "tools/base/table.h"
#include "tools/differentiate/adapters.h"
#include "tools/differentiate/parameters.h"
#include "tools/differentiate/trained_channels.h"
#include "tools/differentiate/trained_constants.h"
#include "tools/graph/graph.h"

namespace nacre::tools {
namespace {

std::string replaced_in(std::string text, const std::string& what, const std::string& with) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

const char kTwoDense[] = R"(graph "" batch=2
layer "a"
layer "n"
layer "b"
value %x float32 [2, 2] batched
value %w float32 [3, 2] data=float32 {1, 2, 3, 4, 5, 6} frozen
value %c float32 [3] data=float32 {1, 2, 3} frozen
value %scale float32 [3] data=float32 {1, 1, 1}
value %bias float32 [3] data=float32 {0, 0, 0}
value %mean float32 [3] data=float32 {0, 0, 0}
value %variance float32 [3] data=float32 {1, 1, 1}
value %v float32 [1, 3] data=float32 {1, 2, 3}
value %h float32 [2, 3] batched
value %m float32 [2, 3] batched
value %y float32 [2, 1] batched
input "x" %x
output "y" %y
%h = dense(%x, %w, %c) layer="a"
%m = batch_norm(%h, %scale, %bias, %mean, %variance) epsilon=0.001 layer="n"
%y = dense(%m, %v) layer="b"
)";

std::set<std::string> in_state(const Graph& graph) {
  std::set<std::string> names;
  for (const Value& v : graph.values)
    if (v.region == Region::kState) names.insert(v.name);
  return names;
}

std::set<std::string> trained_of(const std::string& text, const TrainedParameters& options = {}) {
  Graph graph = parse(text);
  make_parameters(graph, options);
  make_statistics(graph, options);
  return in_state(graph);
}

using Names = std::set<std::string>;

TEST(frozen_layers, do_not_train) {
  EXPECT_EQ(trained_of(kTwoDense), (Names{"scale", "bias", "mean", "variance", "v"}));
  EXPECT_EQ(trained_of(kTwoDense, {.layers = {".*"}}), (Names{"scale", "bias", "mean", "variance", "v"}));
  EXPECT_EQ(trained_of(kTwoDense, {.layers = {}, .last_layers = 2}), (Names{"scale", "bias", "mean", "variance", "v"}));
  EXPECT_NE(refused_with([&] { static_cast<void>(trained_of(kTwoDense, {.layers = {}, .last_layers = 3})); }, kUsage)
                .find("2 layers here can be trained"),
            std::string::npos);
  EXPECT_NE(refused_with([&] { static_cast<void>(trained_of(kTwoDense, {.layers = {"b", "a"}})); }, kUsage)
                .find("'a' names a, which the file freezes"),
            std::string::npos);
}

TEST(frozen_layers, are_counted) {
  const FrozenLayers found = frozen_layers(parse(kTwoDense));
  EXPECT_EQ(found.names, (std::vector<std::string>{"a"}));
  EXPECT_EQ(found.of_layers, 3u);
  EXPECT_EQ(found.weights, 9u);
  EXPECT_EQ(found.of_weights, 18u);
  EXPECT_EQ(frozen_text(found), "frozen by the file: 1 of 3 layers, 50 % of the weights");
  EXPECT_EQ(frozen_text({}), "");
}

TEST(frozen_layers, leave_nothing_where_they_are_all) {
  std::string text = kTwoDense;
  for (const char* name : {"%scale", "%bias", "%mean", "%variance", "%v "}) {
    const size_t line = text.find('\n', text.find(std::string("value ") + name));
    text.insert(line, " frozen");
  }
  EXPECT_NE(refused_with([&] { static_cast<void>(trained_of(text)); }, kUsage).find("the file freezes all its layers"),
            std::string::npos);
}

// A frozen norm keeps its statistics. A norm that is not frozen learns them, even if it has no parameters to learn.
TEST(frozen_layers, statistics_of_norms) {
  std::string frozen = kTwoDense, bare = kTwoDense;
  for (const char* name : {"%scale", "%bias", "%mean", "%variance"})
    frozen.insert(frozen.find('\n', frozen.find(std::string("value ") + name)), " frozen");
  EXPECT_EQ(trained_of(frozen), (Names{"v"}));
  for (const char* name : {"%scale", "%bias"})
    bare.insert(bare.find('\n', bare.find(std::string("value ") + name)), " fixed");
  EXPECT_EQ(trained_of(bare), (Names{"mean", "variance", "v"}));
  EXPECT_EQ(trained_of(bare, {.layers = {"b"}}), (Names{"v"}));
  EXPECT_EQ(trained_of(bare, {.layers = {}, .frozen_batch_norm = true}), (Names{"v"}));
  for (const char* name : {"%mean", "%variance"})
    bare.insert(bare.find('\n', bare.find(std::string("value ") + name)), " frozen");
  EXPECT_EQ(trained_of(bare), (Names{"v"}));
}

TEST(frozen_layers, get_no_adapters_and_no_channels) {
  Graph graph = parse(kTwoDense);
  add_adapters(graph, {.rank = 1, .alpha = 1}, {}, 1);
  std::set<std::string> adapted;
  for (const Value& v : graph.values)
    if (v.name.ends_with("/lora_a")) adapted.insert(v.name);
  EXPECT_EQ(adapted, (Names{"v/lora_a"}));
  Graph other = parse(kTwoDense);
  EXPECT_NE(refused_with([&] { static_cast<void>(add_adapters(other, {.rank = 1, .alpha = 1}, {.layers = {"a"}}, 1)); },
                         kUsage)
                .find("the file freezes them"),
            std::string::npos);
  TrainedParameters channels = {.layers = {}, .channels = {{.pattern = "a", .share = 0.5}}};
  EXPECT_NE(refused_with([&] { static_cast<void>(split_channels(other, channels)); }, kUsage)
                .find("'a' names a, which the file freezes"),
            std::string::npos);
}

const char kFactor[] = R"(graph "" batch=2
layer "p"
layer "b"
value %x float32 [2, 3] batched
value %s float32 [3] data=float32 {1, 2, 3} variable
value %one float32 [1] data=float32 {2} variable
value %v float32 [1, 3] data=float32 {1, 2, 3}
value %h float32 [2, 3] batched
value %k float32 [2, 3] batched
value %y float32 [2, 1] batched
input "x" %x
output "y" %y
%h = mul(%x, %s) layer="p"
%k = mul(%h, %one) layer="p"
%y = dense(%k, %v) layer="b"
)";

// A concatenation has any number of inputs.
const char kJoined[] = R"(graph "" batch=2
layer "p"
layer "b"
value %x float32 [2, 3] batched
value %s float32 [2, 2] data=float32 {1, 2, 3, 4} variable
value %v float32 [1, 5] data=float32 {1, 2, 3, 4, 5}
value %h float32 [2, 5]
value %y float32 [2, 1]
input "x" %x
output "y" %y
%h = concat(%x, %s) axis=1 layer="p"
%y = dense(%h, %v) layer="b"
)";

TEST(frozen_layers, variables_train_wherever_they_have_a_gradient) {
  EXPECT_EQ(trained_of(kJoined), (Names{"s", "v"}));
  EXPECT_EQ(trained_of(kFactor), (Names{"s", "one", "v"}));
  EXPECT_TRUE(untrained_constants(parse(kFactor), {}).empty());
  const std::string factor = replaced_in(kFactor, "{1, 2, 3} variable", "{1, 2, 3}");
  EXPECT_EQ(trained_of(factor), (Names{"one", "v"}));
  EXPECT_EQ(untrained_constants(parse(factor), {}), (std::vector<std::string>{"s (mul)"}));
  const std::string frozen = replaced_in(kFactor, "{1, 2, 3} variable", "{1, 2, 3} variable frozen");
  EXPECT_EQ(trained_of(frozen), (Names{"one", "v"}));
  EXPECT_TRUE(untrained_constants(parse(frozen), {}).empty()) << "which the source says itself";
}

TEST(trained_constants, are_named_in_lines_that_break_between_names) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(trained_lines({{"w", 1}}), (Lines{"trained: 1 constant, 1 number: w"}));
  EXPECT_EQ(trained_lines({{"conv1.weight", 1200}, {"conv1.bias", 16}}),
            (Lines{"trained: 2 constants, 1,216 numbers: conv1.weight, conv1.bias"}));
  const std::string one(60, 'a'), two(200, 'b'), three(40, 'c'), shown = shorten(two, kMostOfName);
  std::vector<TrainedConstant> many = {{one, 1}, {two, 2}, {three, 3}, {three, 4}};
  EXPECT_EQ(trained_lines(many),
            (Lines{"trained: 4 constants, 10 numbers:", one + ",", shown + ",", three + ", " + three}));
  many.resize(20, {three, 1});
  const Lines lines = trained_lines(many);
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[6], three + " and 12 more");
  for (const std::string& line : lines) EXPECT_LE(line.size(), 88u) << line;
}

}  // namespace
}  // namespace nacre::tools
