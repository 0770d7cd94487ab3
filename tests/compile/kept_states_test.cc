// keep_states: inputs that are the outputs of the run before. Silero's network over 50 chunks against onnxruntime,
// whose caller feeds the state back (tests/peers/silero_states.json).
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

// n = x + s, and a step that reads s after n is there: y = n - s.
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
  graph.values[2].dims = graph.values[3].dims = {1, 3};
  EXPECT_THROW(keep_states(graph, {"state=new"}), Error);
  graph = accumulator();
  EXPECT_THROW(keep_states(graph, {"state=new", "x=y"}), Error) << "no output is left";
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
