// Runs nacre run: tests inputs, outputs, times and refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "tests/importers/onnx_builder.h"
#include "tests/run_tool.h"
#include "tools/base/json.h"
#include "tools/files/npy.h"

namespace nacre::tools {
namespace {

using Json = nacre::tools::Json;

// Holds the digits network in batches of 1 and 4, and the int8 keyword network if the shared data is there.
class run_command : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    models_ = new TemporaryDirectory;
    ASSERT_EQ(run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", digits()}).exit_code, 0);
    ASSERT_EQ(
        run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", batched(), "--batch", "4"}).exit_code, 0);
    const std::string kws = shared_path("models/mlperf_tiny/kws_ref_model.tflite");
    if (std::filesystem::exists(kws)) {
      ASSERT_EQ(run_tool({"convert", kws, "-o", keywords()}).exit_code, 0);
    }
  }
  static void TearDownTestSuite() {
    delete models_;
    models_ = nullptr;
  }

  static std::string digits() { return *models_ / "digits.nacre"; }
  static std::string batched() { return *models_ / "batched.nacre"; }
  static std::string keywords() { return *models_ / "kws.nacre"; }
  static std::string images() { return project_path("tools/samples/digits_images.npy"); }

  // Returns an array of these dims filled with `value`.
  static NpyArray reals(std::vector<int64_t> dims, float value = 0) {
    NpyArray array = {ElementType::kFloat32, dims, {}};
    const std::vector<float> data(size_t(array.elements()), value);
    const auto* bytes = reinterpret_cast<const uint8_t*>(data.data());
    array.data = ElementBytes(bytes, bytes + data.size() * sizeof(float));
    return array;
  }

  void expect_refusal(const ToolRun& run, int exit_code, const std::string& part) {
    EXPECT_EQ(run.exit_code, exit_code) << run.err;
    EXPECT_EQ(run.err.rfind("nacre: ", 0), 0u) << run.err;
    EXPECT_TRUE(has(run.err, part)) << run.err;
    EXPECT_EQ(run.out, "");
    EXPECT_FALSE(std::filesystem::exists(directory_ / "out"));
  }

  TemporaryDirectory directory_;

 private:
  static inline TemporaryDirectory* models_ = nullptr;
};

TEST_F(run_command, classifies_the_digits_as_onnxruntime_does) {
  const ToolRun run =
      run_tool({"run", digits(), "--input", "pixels=" + images(), "--cast-inputs", "--output", directory_ / "out"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(has(run.out, "1,797 samples, 1,797 runs: median ")) << run.out;
  EXPECT_EQ(run.err, "");  // no progress into a pipe
  const NpyArray y = read_npy(directory_ / "out/probabilities.npy");
  ASSERT_EQ(y.dims, (std::vector<int64_t>{1797, 10}));
  const std::vector<float> p = y.values<float>();
  const std::vector<uint8_t> labels = read_npy(project_path("tools/samples/digits_labels.npy")).values<uint8_t>();
  int right = 0;
  for (const int32_t i : read_npy(project_path("tools/samples/digits_test.npy")).values<int32_t>()) {
    const auto row = p.begin() + i * 10;
    right += std::max_element(row, row + 10) - row == labels[size_t(i)];
  }
  EXPECT_EQ(right, 444);  // tools/samples/digits_expected.json
}

TEST_F(run_command, a_batch_gives_what_single_runs_give_the_short_last_one_included) {
  for (const std::string& model : {digits(), batched()})
    ASSERT_EQ(run_tool({"run", model, "--kernels", "reference", "--input", images(), "--cast-inputs", "--output",
                        directory_ / std::filesystem::path(model).stem().string()})
                  .exit_code,
              0);
  EXPECT_EQ(read_bytes(directory_ / "digits/probabilities.npy"), read_bytes(directory_ / "batched/probabilities.npy"));
}

TEST_F(run_command, takes_samples_stacked_on_a_new_axis_or_on_the_first) {
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{3, 1, 8, 8}, std::vector<int64_t>{3, 1, 1, 8, 8}}) {
    write_npy(directory_ / "x.npy", reals(dims, 1));
    const ToolRun run = run_tool({"run", digits(), "--input", directory_ / "x.npy", "--json"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const Json json = Json::parse(run.out);
    EXPECT_EQ(json["samples"], 3);
    EXPECT_EQ(json["outputs"][0]["shape"], (std::vector<int>{3, 10}));
    EXPECT_EQ(json["outputs"][0]["values"].size(), 30u);
  }
}

TEST_F(run_command, raw_bytes_are_the_elements_alone) {
  const NpyArray x = reals({2, 1, 8, 8}, 3);
  write_npy(directory_ / "x.npy", x);
  write_bytes(directory_ / "x.bin", {x.data.begin(), x.data.end()});
  const ToolRun npy = run_tool({"run", digits(), "--input", directory_ / "x.npy", "--output", directory_ / "a"});
  const ToolRun bin = run_tool({"run", digits(), "--input", directory_ / "x.bin", "--output", directory_ / "b"});
  ASSERT_EQ(npy.exit_code + bin.exit_code, 0) << npy.err << bin.err;
  EXPECT_EQ(read_bytes(directory_ / "a/probabilities.npy"), read_bytes(directory_ / "b/probabilities.npy"));
}

TEST_F(run_command, repeat_times_every_run) {
  const ToolRun run = run_tool({"run", digits(), "--seed", "7", "--repeat", "20", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json json = Json::parse(run.out);
  EXPECT_EQ(json["runs"], 20);
  EXPECT_GE(json["median_us"], 0) << "a coarse clock may see none";
  EXPECT_GE(json["p99_us"], json["median_us"]);
}

// y = x plus the state. A stream of ones gives 1, 2, 3, ..
TEST_F(run_command, a_stream_begins_anew_where_it_is_told_and_with_every_repeat) {
  OnnxBuilder b;
  b.input("x", {1});
  b.input("before", {1});
  b.node("Add", {"x", "before"}, {"y"});
  b.node("Add", {"x", "before"}, {"after"});
  b.output("y");
  b.output("after");
  write_bytes(directory_ / "n.onnx", b.finish());
  const std::string model = directory_ / "sum.nacre";
  const std::string ones = directory_ / "x.npy";
  write_bytes(ones, npy_bytes(reals({5, 1}, 1)));
  const ToolRun made = run_tool({"convert", directory_ / "n.onnx", "-o", model, "--state", "before=after"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const auto values = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run", model, "--input", ones, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ToolRun run = run_tool(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return Json::parse(run.out)["outputs"][0]["values"].get<std::vector<int>>();
  };
  EXPECT_EQ(values({}), (std::vector<int>{1, 2, 3, 4, 5}));
  EXPECT_EQ(values({"--stream", "2"}), (std::vector<int>{1, 2, 1, 2, 1}));
  EXPECT_EQ(values({"--stream", "2", "--repeat", "3"}), (std::vector<int>{1, 2, 1, 2, 1}));
  expect_refusal(run_tool({"run", digits(), "--seed", "7", "--stream", "2"}), 2,
                 "--stream: the model keeps nothing from run to run");
}

// A program for another machine gives the same results here, but its time is not printed.
TEST_F(run_command, a_program_for_another_machine_runs_and_is_not_timed) {
  const std::string model = directory_ / "m4.nacre";
  ASSERT_EQ(
      run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", model, "--target", "arm/m4"}).exit_code, 0);
  const ToolRun here = run_tool({"run", digits(), "--seed", "7", "--kernels", "reference"}),
                there = run_tool({"run", model, "--seed", "7"});
  ASSERT_EQ(here.exit_code + there.exit_code, 0) << here.err << there.err;
  EXPECT_TRUE(has(here.out, "1 run: median"));
  EXPECT_EQ(here.out.rfind(there.out, 0), 0u) << "the same numbers, and no line of times: " << there.out;
  const ToolRun json = run_tool({"run", model, "--seed", "7", "--json"});
  EXPECT_FALSE(Json::parse(json.out).contains("median_us"));
  expect_refusal(run_tool({"run", model, "--seed", "7", "--repeat", "2"}), 2,
                 "its program is for arm/m4, and --repeat times runs on this machine");
}

TEST_F(run_command, all_tensors_are_indexed_and_end_with_the_output) {
  const ToolRun run =
      run_tool({"run", digits(), "--seed", "1", "--output", directory_ / "out", "--all-tensors", directory_ / "t"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::vector<uint8_t> text = read_bytes(directory_ / "t/index.json");
  const Json index = Json::parse(text)["tensors"];
  EXPECT_EQ(index.size(), 13u);  // the input, 10 steps, two views: of a layout and of a flatten
  for (const Json& entry : index) {
    const NpyArray array = read_npy(directory_ / ("t/" + entry["file"].get<std::string>()));
    EXPECT_EQ(array.dims, entry["shape"].get<std::vector<int64_t>>());
  }
  EXPECT_EQ(index.front()["file"], "input_pixels.npy");
  EXPECT_EQ(index.back()["layer"], "softmax");
  EXPECT_EQ(read_bytes(directory_ / "t/09_probabilities.npy"), read_bytes(directory_ / "out/probabilities.npy"));
}

TEST_F(run_command, refuses_another_shape_or_type) {
  const std::string x = directory_ / "x.npy", out = directory_ / "out";
  const auto run = [&](const NpyArray& array, const std::string& option = "--json") {
    write_npy(x, array);
    return run_tool({"run", digits(), "--input", "pixels=" + x, "--output", out, option});
  };
  expect_refusal(run(reals({1, 8, 8, 1})), 3, "holds [1, 8, 8, 1], but the input pixels is float32 [1, 1, 8, 8]");
  expect_refusal(run(reals({64})), 3, "holds [64]");
  expect_refusal(run(reals({0, 1, 8, 8})), 3, "holds no sample");
  expect_refusal(run({ElementType::kFloat64, {1, 1, 8, 8}, std::vector<uint8_t>(512)}), 3, "holds float64");
  expect_refusal(run({ElementType::kUint8, {1, 1, 8, 8}, std::vector<uint8_t>(64)}), 3, "--cast-inputs");
  // 0.1 as a float64 has no equal float32.
  NpyArray tenths = {ElementType::kFloat64, {1, 1, 8, 8}, {}};
  for (int i = 0; i < 64; ++i) {
    const double value = 0.1;
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    tenths.data.append({bytes, sizeof value});
  }
  expect_refusal(run(tenths, "--cast-inputs"), 3, "element 0 is 0.1");
}

TEST_F(run_command, refuses_wrong_inputs) {
  const std::string out = directory_ / "out";
  const auto run = [&](const std::vector<std::string>& inputs) {
    std::vector<std::string> arguments = {"run", digits(), "--output", out};
    for (const std::string& input : inputs) arguments.insert(arguments.end(), {"--input", input});
    return run_tool(arguments);
  };
  write_npy(directory_ / "x.npy", reals({1, 1, 8, 8}));
  write_bytes(directory_ / "x.bin", std::vector<uint8_t>(255));
  write_bytes(directory_ / "x.txt", {1});
  write_bytes(directory_ / "cut.npy", {0x93, 'N', 'U'});
  expect_refusal(run({}), 2, "nothing is given for an input: the input pixels is float32 [1, 1, 8, 8]");
  expect_refusal(run({"pixel=" + directory_ / "x.npy"}), 2, "has no input pixel");
  expect_refusal(run({"pixels="}), 2, "no file is named");
  expect_refusal(run({directory_ / "x.npy", directory_ / "x.npy"}), 2, "given twice");
  expect_refusal(run({directory_ / "x.bin"}), 3, "holds 255 bytes");
  expect_refusal(run({directory_ / "x.txt"}), 2, "neither .npy, .npz nor .bin");
  expect_refusal(run({directory_ / "cut.npy"}), 3, "cut.npy");
  expect_refusal(run({directory_ / "missing.npy"}), 5, "missing.npy");
  expect_refusal(run({directory_ / "missing.bin"}), 5, "missing.bin");
}

TEST_F(run_command, all_tensors_are_of_one_sample) {
  write_npy(directory_ / "x.npy", reals({2, 1, 8, 8}));
  expect_refusal(run_tool({"run", digits(), "--input", directory_ / "x.npy", "--all-tensors", directory_ / "out"}), 2,
                 "one sample");
}

TEST_F(run_command, leaves_nothing_where_outputs_cannot_be_written) {
  const auto run = [&](const std::string& output, const ToolOptions& options) {
    return run_tool({"run", digits(), "--seed", "1", "--output", output, "--all-tensors", directory_ / "t"}, options);
  };
  write_bytes(directory_ / "file", {1});
  expect_refusal(run(directory_ / "file", {}), 5, "is not a directory");
  expect_refusal(run(directory_ / "file/out", {}), 5, "is not a directory");
  expect_refusal(run(directory_ / "out", {.file_limit_bytes = 100}), 5, "cannot be written");
  expect_refusal(run(directory_ / "out/a/b", {.file_limit_bytes = 100}), 5, "cannot be written");
  EXPECT_EQ(directory_.entries(), 1u);  // "file"
}

TEST_F(run_command, makes_the_folders_of_its_outputs_and_what_leads_to_them) {
  const ToolRun run = run_tool(
      {"run", digits(), "--seed", "1", "--output", directory_ / "a/b", "--all-tensors", directory_ / "a/b/tensors"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(std::filesystem::exists(directory_ / "a/b/probabilities.npy"));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "a/b/tensors/index.json"));
  EXPECT_EQ(directory_.entries(), 1u);
}

TEST_F(run_command, refuses_outputs_that_need_one_place) {
  const auto both = [&](const std::string& tensors, const std::string& output) {
    return run_tool(
        {"run", digits(), "--seed", "1", "--all-tensors", directory_ / tensors, "--output", directory_ / output});
  };
  const size_t before = directory_.entries();
  for (const char* output : {"x/index.json", "x/index.json/deeper", "./x/../x/index.json"}) {
    const ToolRun run = both("x", output);
    EXPECT_EQ(run.exit_code, output[0] == '.' ? 5 : 2) << run.err;
    EXPECT_EQ(run.err.rfind("nacre: ", 0), 0u) << run.err;
    EXPECT_EQ(directory_.entries(), before) << output;
  }
  EXPECT_EQ(both("y", "y/tensors").exit_code, 0);
  const ToolRun through = run_tool({"run", digits(), "--seed", "1", "--output", directory_ / "none/../x"});
  EXPECT_EQ(through.exit_code, 5);
  EXPECT_NE(through.err.find("none, which is not there\n    name it without .."), std::string::npos) << through.err;
  EXPECT_EQ(directory_.entries(), before + 1);
}

TEST_F(run_command, an_interrupt_leaves_nothing) {
  const ToolRun run = run_tool(
      {"run", digits(), "--seed", "1", "--repeat", "100000000", "--output", directory_ / "out"}, {.interrupt = true});
  EXPECT_EQ(run.signal, SIGINT);
  EXPECT_TRUE(has(run.err, " of 100000000")) << "it came while it ran: " << run.err;
  EXPECT_EQ(directory_.entries(), 0u);
}

TEST_F(run_command, a_wait_for_progress_is_a_number) {
  for (const char* wait : {"soon", "-1", "1.5", "99999999999"}) {
    setenv("NACRE_PROGRESS_MS", wait, 1);
    expect_refusal(run_tool({"run", digits(), "--seed", "1"}), 2,
                   "NACRE_PROGRESS_MS: '" + std::string(wait) + "' is no number of milliseconds");
  }
  unsetenv("NACRE_PROGRESS_MS");
  EXPECT_EQ(run_tool({"run", digits(), "--seed", "1"}).exit_code, 0);
}

TEST_F(run_command, a_full_standard_output_is_an_error) {
  const ToolRun run = run_tool({"run", digits(), "--seed", "1"}, {.out_path = "/dev/full"});
  EXPECT_EQ(run.exit_code, 5);
  EXPECT_TRUE(has(run.err, "standard output: cannot be written")) << run.err;
}

TEST_F(run_command, int8_outputs_equal_tflite_to_the_byte) {
  const std::string golden = shared_path("golden/tflite/");
  if (!std::filesystem::exists(golden)) GTEST_SKIP() << "NACRE_SHARED has no " << golden;
  for (const char* seed : {"s1", "s2"}) {
    const std::string out = directory_ / seed, prefix = golden + "kws_ref_model." + seed;
    const ToolRun run = run_tool({"run", keywords(), "--input", prefix + ".in0.bin", "--output", out});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const std::filesystem::path file = std::filesystem::directory_iterator(out)->path();
    EXPECT_EQ(read_npy(file.string()).data, read_bytes(prefix + ".out0.bin"));
  }
}

// numpy has no bfloat16 and float8. Their numbers are written as float32, and the index names their type.
TEST_F(run_command, tensors_of_small_types_are_numbers_that_numpy_reads) {
  const std::string model = directory_ / "small.nacre", out = directory_ / "all";
  for (const auto& [policy, type] :
       {std::pair("bfloat16", "bfloat16"), std::pair("float8/current_from_float32", "float8_e4m3")}) {
    ASSERT_EQ(
        run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", model, "--policy", policy}).exit_code, 0);
    const ToolRun run = run_tool({"run", model, "--seed", "1", "--all-tensors", out});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const std::vector<uint8_t> text = read_bytes(out + "/index.json");
    const Json index = Json::parse(text);
    int small = 0;
    for (const Json& tensor : index["tensors"]) {
      if (tensor["type"] != type) continue;
      ++small;
      EXPECT_EQ(tensor["stored_as"], "float32");
      EXPECT_EQ(read_npy(out + "/" + tensor["file"].get<std::string>()).type, ElementType::kFloat32);
    }
    EXPECT_GT(small, 0) << policy;
    std::filesystem::remove_all(out);
  }
}

// With --io-types policy the tool rounds the file's numbers as the model's own cast does with --io-types source.
TEST_F(run_command, a_model_whose_borders_are_16_bits_takes_rounded_floats) {
  const std::string digits = project_path("tools/samples/digits.onnx");
  write_npy(directory_ / "x.npy", reals({1, 1, 8, 8}, 1.1f));
  for (const std::string policy : {"bfloat16", "float16", "float64"}) {
    std::vector<Json> values;
    for (const std::string types : {"source", "policy"}) {
      const std::string model = directory_ / types;
      ASSERT_EQ(run_tool({"convert", digits, "-o", model, "--policy", policy, "--io-types", types}).exit_code, 0);
      const ToolRun run = run_tool({"run", model, "--input", directory_ / "x.npy", "--quantize-inputs", "--json"});
      ASSERT_EQ(run.exit_code, 0) << run.err;
      values.push_back(Json::parse(run.out)["outputs"][0]["values"]);
    }
    ASSERT_EQ(values[0].size(), 10u);
    for (size_t i = 0; i < 10; ++i) EXPECT_EQ(float(values[0][i]), float(values[1][i])) << policy << i;
    const ToolRun plain = run_tool({"run", directory_ / "policy", "--input", directory_ / "x.npy"});
    EXPECT_EQ(plain.exit_code, 3);
    EXPECT_EQ(run_tool({"run", directory_ / "policy", "--seed", "1"}).exit_code, 0);
  }
}

TEST_F(run_command, floats_become_codes_only_when_asked) {
  if (!std::filesystem::exists(keywords())) GTEST_SKIP() << "NACRE_SHARED has no network of keywords";
  write_npy(directory_ / "x.npy", reals({1, 49, 10, 1}, 12.5f));
  const std::vector<std::string> plain = {"run", keywords(), "--input", directory_ / "x.npy", "--json"};
  const ToolRun refused = run_tool(plain);
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_TRUE(
      has(refused.err, "holds float32, but the input input_1 is int8 [1, 49, 10, 1], real = 0.5847029 * (code - 83)"))
      << refused.err;
  EXPECT_TRUE(has(refused.err, "--quantize-inputs")) << refused.err;

  std::vector<std::string> quantized = plain;
  quantized.push_back("--quantize-inputs");
  const int8_t code = int8_t(std::lround(12.5 / 0.5847029) + 83);
  write_bytes(directory_ / "codes.bin", std::vector<uint8_t>(490, uint8_t(code)));
  const Json a = Json::parse(run_tool(quantized).out);
  const Json b = Json::parse(run_tool({"run", keywords(), "--input", directory_ / "codes.bin", "--json"}).out);
  EXPECT_EQ(a["outputs"][0]["values"], b["outputs"][0]["values"]);
  EXPECT_EQ(a["outputs"][0]["type"], "int8");

  quantized.push_back("--dequantize-outputs");
  const Json reals_out = Json::parse(run_tool(quantized).out)["outputs"][0];
  EXPECT_EQ(reals_out["type"], "float32");
  double sum = 0;
  for (const Json& value : reals_out["values"]) sum += value.get<double>();
  EXPECT_NEAR(sum, 1, 12 * 0.5 / 256);  // a softmax: 12 outputs, each rounded to 1/256
}

}  // namespace
}  // namespace nacre::tools
