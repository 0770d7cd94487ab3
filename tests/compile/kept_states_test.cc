// Tests keep_states, which makes inputs the outputs of the run before. Silero's network is compared over 50 chunks
// with onnxruntime, whose caller feeds the state back (tests/peers/silero_states.json).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/compile/streamed.h"
#include "tests/project_path.h"
#include "tools/base/error.h"
#include "tools/base/json.h"
#include "tools/importers/importer.h"
#include "tools/model/golden.h"

namespace nacre::tools {
namespace {

// Builds n = x + s, and y = n - s, a step that reads s after n is computed.
Graph accumulator() {
  return parse(R"(graph "t" batch=1
value %x float32 [1, 2] batched
value %s float32 [1, 2] batched
value %n float32 [1, 2] batched
value %y float32 [1, 2] batched
input "x" %x
input "state" %s
output "new" %n
output "y" %y
%n = add(%x, %s)
%y = sub(%n, %s)
)");
}

TEST(keep_states, a_state_is_what_the_run_before_left) {
  Graph graph = accumulator();
  graph.outputs.push_back({"sum", graph.outputs[0].value, ""});
  keep_states(graph, {"state=new"});
  check(graph);
  ASSERT_EQ(graph.inputs.size(), 1u);
  ASSERT_EQ(graph.outputs.size(), 2u);
  Streamed streamed(graph);
  EXPECT_EQ(streamed.stream_bytes(), 16u);
  for (int run = 1; run <= 4; ++run)
    EXPECT_EQ(streamed.run(std::vector<float>{1, -2}), (std::vector<float>{1, -2, float(run), float(-2 * run)}));
}

TEST(keep_states, a_state_of_a_layer_in_16_bits_stays_float32) {
  Graph graph = accumulator();
  graph.nodes[0].layer = graph.nodes[1].layer = graph.add_layer({"sum", "Add", {}});
  graph.outputs.push_back({"sum", graph.outputs[0].value, ""});
  keep_states(graph, {"state=new"});
  CompileOptions options;
  options.policies = parse_policy_options({.policy = "mixed_bfloat16"});
  Streamed streamed(graph, options);
  EXPECT_EQ(streamed.stream_bytes(), 16u);
  for (int run = 1; run <= 4; ++run)
    EXPECT_EQ(streamed.run(std::vector<float>{1, -2}), (std::vector<float>{1, -2, float(run), float(-2 * run)}));
}

TEST(keep_states, pairs_that_do_not_fit_are_refused) {
  const std::pair<const char*, const char*> wrong[] = {
      {"state", "is not IN=OUT"},
      {"=new", "is not IN=OUT"},
      {"h=new", "the network has no input h\n    it has x, state"},
      {"state=z", "the network has no output z\n    it has new, y"},
  };
  for (const auto& [pair, why] : wrong) {
    Graph graph = accumulator();
    try {
      keep_states(graph, {pair});
      ADD_FAILURE() << pair;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  }
  Graph graph = accumulator();
  graph.values[2].dims = graph.values[3].dims = {1, 1};
  EXPECT_THROW(keep_states(graph, {"state=new"}), Error);
  graph = accumulator();
  EXPECT_THROW(keep_states(graph, {"state=new", "x=y"}), Error) << "no output is left";
}

// Builds y = past joined with x, the stream's position, and which rows of y are valid.
Graph joined_with_past(int64_t rows) {
  const std::string past = std::to_string(rows), all = std::to_string(rows + 2);
  return parse(R"(graph "t" batch=1
value %x float32 [1, 2, 1]
value %past float32 [1, )" +
               past + R"(, 1]
value %position int64 [1, 2]
value %mask float32 [1, )" +
               all + R"(]
value %y float32 [1, )" +
               all + R"(, 1]
value %p int64 [1, 2]
value %m float32 [1, )" +
               all + R"(]
input "x" %x
input "past" %past
input "position" %position
input "mask" %mask
output "new" %y
output "p" %p
output "m" %m
%y = concat(%past, %x) axis=1
%p = copy(%position)
%m = copy(%mask)
)");
}

TEST(keep_states, a_longer_output_leaves_its_last_rows) {
  Graph graph = joined_with_past(3);
  graph.outputs.push_back({"y", graph.outputs[0].value, ""});
  keep_states(graph, {"past=new", "position=@position", "mask=@mask"});
  check(graph);
  ASSERT_EQ(graph.inputs.size(), 1u);
  Streamed streamed(graph);
  const std::vector<float> rows[] = {{0, 0, 0, 1, 2}, {0, 1, 2, 3, 4}, {2, 3, 4, 5, 6}};
  const std::vector<float> masks[] = {{0, 0, 0, 1, 1}, {0, 1, 1, 1, 1}, {1, 1, 1, 1, 1}};
  for (size_t run = 0; run < 3; ++run) {
    const auto before = int64_t(2 * run);
    std::vector<uint8_t> expected = bytes_of(std::vector<int64_t>{before, before + 1});
    for (const std::vector<float>& numbers : {masks[run], rows[run]}) {
      const std::vector<uint8_t> bytes = bytes_of(numbers);
      expected.insert(expected.end(), bytes.begin(), bytes.end());
    }
    const std::vector<float> x = {float(before + 1), float(before + 2)};
    EXPECT_EQ(streamed.run(bytes_of(x)), expected) << run;
  }
}

// Without a sliding state, a cache is filled from its first row on until it is full.
TEST(keep_states, a_mask_counts_the_rows_of_a_cache) {
  Graph graph = joined_with_past(3);
  graph.inputs.erase(graph.inputs.begin() + 2);
  graph.nodes.erase(graph.nodes.begin() + 1);
  graph.outputs.erase(graph.outputs.begin(), graph.outputs.begin() + 2);
  keep_states(graph, {"mask=@mask"});
  check(graph);
  Streamed streamed(graph);
  const std::vector<float> inputs(5, 0);
  EXPECT_EQ(streamed.run(inputs), (std::vector<float>{1, 1, 0, 0, 0}));
  EXPECT_EQ(streamed.run(inputs), (std::vector<float>{1, 1, 1, 1, 0}));
  EXPECT_THROW(streamed.run(inputs), Error);
}

TEST(keep_states, counters_that_do_not_fit_are_refused) {
  const std::pair<std::vector<std::string>, const char*> wrong[] = {
      {{"mask=@position"}, "its input has 5 places, and a run has 2, as x says"},
      {{"past=@position"}, "only the last axis may be longer than 1"},
      {{"x=@position", "past=@position", "position=@position", "mask=@mask"}, "leaves the network without an input"},
      {{"h=@mask"}, "the network has no input h"},
      {{"past=new", "x=@position", "mask=@mask"}, "only the last axis may be longer than 1"},
  };
  for (const auto& [pairs, why] : wrong) {
    Graph graph = joined_with_past(3);
    try {
      keep_states(graph, pairs);
      ADD_FAILURE() << why;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  }
}

TEST(keep_states, a_mask_of_other_rows_than_a_run_has_is_refused) {
  Graph graph = joined_with_past(3);
  Value wide = graph.values[0];
  wide.dims = {1, 4, 1};
  const ValueId first = graph.add(std::move(wide));
  graph.inputs.insert(graph.inputs.begin(), {"wide", first, ""});
  try {
    keep_states(graph, {"past=new", "mask=@mask"});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a state grows by 2 rows, and a run has 4"), std::string::npos)
        << error.what();
  }
}

TEST(keep_states, golden_pairs_begin_without_a_past) {
  Graph graph = accumulator();
  keep_states(graph, {"state=new"});
  graph.outputs.push_back({"sum", graph.nodes[0].outputs[0], ""});
  const LoadedModel model(compile(std::move(graph), {}).bytes, "golden", "");
  for (const GoldenPair& pair : make_golden(model, 0, 3)) {
    BoundProgram bound(model, 0);
    EXPECT_EQ(bound.run(pair.inputs), pair.outputs);
  }
}

std::vector<float> samples_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<float> samples;
  for (size_t at = 44; at + 1 < bytes.size(); at += 2)  // behind the header
    samples.push_back(float(int16_t(uint16_t(uint8_t(bytes[at]) | uint8_t(bytes[at + 1]) << 8))) / 32768);
  return samples;
}

TEST(keep_states, silero_keeps_its_state_over_50_chunks) {
  const std::string network = shared_path("models/silero/silero_vad_openvino_16k.onnx");
  if (!std::filesystem::exists(network)) GTEST_SKIP() << "no " << network;
  constexpr size_t kContext = 64, kNew = 512;
  std::vector<float> sound(kContext, 0.0f);
  for (const char* word : {"yes", "no"}) {
    const std::vector<float> samples = samples_of(shared_path(std::string("models/tflm/") + word + "_1000ms.wav"));
    sound.insert(sound.end(), samples.begin(), samples.end());
  }
  Graph graph = import_network(network);
  keep_states(graph, {"state=stateN"});
  Streamed streamed(std::move(graph));
  std::ifstream file(project_path("tests/peers/silero_states.json"));
  const Json table = Json::parse(file);
  const Json& speech = table.at("speech");
  ASSERT_EQ(speech.size(), 50u);
  for (size_t i = 0; i < speech.size(); ++i) {
    const auto first = sound.begin() + long(i * kNew);
    const std::vector<float> y = streamed.run(std::vector<float>(first, first + long(kContext + kNew)));
    ASSERT_NEAR(double(y.at(0)), speech[i].get<double>(), 1e-4) << "chunk " << i;
  }
}

}  // namespace
}  // namespace nacre::tools
