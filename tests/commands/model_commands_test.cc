// Runs nacre size, check and kernels, and the help of all commands.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "engine/base/crc32c.h"
#include "tests/run_tool.h"
#include "tools/base/json.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/loaded_model.h"
#include "tools/model/machines.h"

namespace nacre::tools {
namespace {

using Json = nacre::tools::Json;

class model_commands : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(
        run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", digits_, "--golden", "2"}).exit_code, 0);
  }

  void expect_refusal(const ToolRun& run, int exit_code, const std::string& part) {
    EXPECT_EQ(run.exit_code, exit_code) << run.err;
    EXPECT_EQ(run.err.rfind("nacre: ", 0), 0u) << run.err;
    EXPECT_TRUE(has(run.err, part)) << run.err;
  }

  // Writes the model back with a corrected checksum of header and FlatBuffer.
  static void write_with_checksum(const std::string& path, std::vector<uint8_t> bytes) {
    FileHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    const auto all = std::as_bytes(std::span(bytes));
    header.crc = crc32c(all.subspan(16, sizeof header + header.flatbuffer_bytes - 16), crc32c(all.first(12)));
    std::memcpy(bytes.data(), &header, sizeof header);
    write_bytes(path, bytes);
  }

  const TemporaryDirectory directory_;
  const std::string digits_ = directory_ / "digits.nacre";
};

TEST_F(model_commands, size_is_what_measure_says_on_every_machine) {
  const LoadedModel model(digits_);
  for (const TargetMachine& machine : machines()) {
    const ToolRun run = run_tool({"size", digits_, "--target", machine.name, "--json"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const Json program = Json::parse(run.out)["programs"][0];
    const Sizes sizes = measure(model, 0, {.pointer_bytes = machine.pointer_bytes, .workers = 1});
    EXPECT_EQ(program["arena"][0]["bytes"], sizes.bytes[kArena]);
    EXPECT_EQ(program["blocks"]["calls"], sizes.bytes[kCalls]);
    EXPECT_EQ(program["blocks"]["scratch"], sizes.bytes[kScratch]);
    EXPECT_EQ(program["total"], sizes.total() + machine.model_bytes + machine.program_bytes);
  }
  EXPECT_TRUE(has(run_tool({"size", digits_}).out, "total"));
}

TEST_F(model_commands, size_of_m4_counts_12_bytes_a_step_and_8_an_operand) {
  const LoadedModel model(digits_);
  uint64_t calls = 0;
  for (const StepRecord& step : model.model().steps()) calls += 12 + 8 * uint64_t{step.operand_count};
  EXPECT_EQ(measure(model, 0, {.pointer_bytes = 4, .workers = 1}).bytes[kCalls], calls);
}

// object_sizes.h asserts its numbers when each machine's compiler compiles it.
TEST_F(model_commands, size_of_the_objects_on_m4_is_what_its_compiler_says) {
  if (std::system("command -v arm-none-eabi-g++ >/dev/null") != 0)
    GTEST_SKIP() << "asks the compiler of Cortex-M: arm-none-eabi-g++ is not installed";
  const std::string command = "arm-none-eabi-g++ -mcpu=cortex-m4 -mthumb -std=c++20 -fsyntax-only -x c++ " +
                              include_options() + " " + project_path("engine/train/object_sizes.h");
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(model_commands, check_runs_the_golden_pairs) {
  const ToolRun run = run_tool({"check", digits_, "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json json = Json::parse(run.out);
  EXPECT_EQ(json["ok"], true);
  ASSERT_EQ(json["golden"].size(), 2u);
  for (const Json& pair : json["golden"]) EXPECT_EQ(pair["largest_difference"], 0);
  EXPECT_TRUE(has(run_tool({"check", digits_}).out, "golden 1   ok"));
}

TEST_F(model_commands, check_fails_where_a_golden_output_differs) {
  std::vector<uint8_t> bytes = read_bytes(digits_);
  {
    const LoadedModel model(digits_);
    const auto* first = reinterpret_cast<const uint8_t*>(model.model().bytes().data());
    const float wrong = 7;  // no probability
    std::memcpy(&bytes[size_t(model.golden()[1].outputs.data() - first)], &wrong, sizeof wrong);
  }
  write_with_checksum(digits_, bytes);
  const ToolRun run = run_tool({"check", digits_});
  expect_refusal(run, 1, "1 of 2 golden pairs differ");
  EXPECT_TRUE(has(run.out, "golden 0   ok")) << run.out;
  EXPECT_TRUE(has(run.out, "golden 1   FAILED")) << run.out;
}

TEST_F(model_commands, check_finds_damage_and_names_it) {
  const std::vector<uint8_t> whole = read_bytes(digits_);
  const auto damaged = [&](size_t at) {
    std::vector<uint8_t> bytes = whole;
    bytes[at] ^= 1;
    return bytes;
  };
  write_bytes(digits_, damaged(whole.size() - 1));
  expect_refusal(run_tool({"check", digits_}), 3, "segment 0: CRC-32C");
  write_bytes(digits_, damaged(200));
  expect_refusal(run_tool({"check", digits_}), 3, "CRC-32C of header and FlatBuffer differs");
  write_bytes(digits_, damaged(0));
  expect_refusal(run_tool({"check", digits_}), 3, "nacre convert NETWORK");
  write_bytes(digits_, {whole.begin(), whole.begin() + 5000});
  expect_refusal(run_tool({"check", digits_}), 3, "given 5,000");
  write_bytes(digits_, {});
  expect_refusal(run_tool({"check", digits_}), 3, "is empty");
}

TEST_F(model_commands, a_refused_step_is_named_with_its_layer) {
  // Writes an op id that no kernel has. StepRecord 0 starts with the op id.
  std::vector<uint8_t> bytes = read_bytes(digits_);
  {
    const LoadedModel model(digits_);
    const auto* first = reinterpret_cast<const uint8_t*>(model.model().bytes().data());
    const auto at = size_t(reinterpret_cast<const uint8_t*>(model.model().steps().data()) - first);
    bytes[at] = 0x77;
  }
  write_with_checksum(digits_, bytes);
  for (const char* command : {"check", "size", "run", "kernels"})
    expect_refusal(run_tool({command, digits_}), 4, "digits.nacre, step 0 (scale): no linked kernel");
}

TEST_F(model_commands, kernels_header_compiles_as_c_and_as_cpp) {
  const std::string header = directory_ / "model_kernels.h";
  ASSERT_EQ(run_tool({"kernels", digits_, "-o", header}).exit_code, 0);
  const auto compile = [&](const std::string& compiler, const std::string& name, const std::string& text) {
    write_bytes(directory_ / name, {text.begin(), text.end()});
    return std::system(
        (compiler + " -fsyntax-only -Wall -Wextra -Werror " + include_options() + " " + (directory_ / name)).c_str());
  };
  const std::string c = "#include \"model_kernels.h\"\nconst void* use(void) { return &model_kernels; }\n";
  const std::string cpp =
      "#define NACRE_DEFINE_MODEL_KERNELS\n#include \"model_kernels.h\"\n"
      "const nacre::KernelSet* use() { return &model_kernels; }\n";
  EXPECT_EQ(compile("cc -std=c99 -pedantic", "a.c", c), 0);
  EXPECT_EQ(compile("c++ -std=c++20", "a.cc", cpp), 0);
  if (std::system("command -v arm-none-eabi-g++ >/dev/null") == 0) {
    EXPECT_EQ(compile("arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -std=c99 -pedantic", "a.c", c), 0);
    EXPECT_EQ(compile("arm-none-eabi-g++ -mcpu=cortex-m4 -mthumb -std=c++20 -fno-exceptions -fno-rtti", "a.cc", cpp),
              0);
  }
}

TEST_F(model_commands, kernels_without_a_model_are_the_sets_and_what_is_in_one) {
  const Json sets = Json::parse(run_tool({"kernels", "--json"}).out)["sets"];
  std::vector<std::string> names;
  for (const Json& set : sets) {
    names.push_back(set["set"]);
    const Json listed = Json::parse(run_tool({"kernels", "--set", names.back(), "--json"}).out)["kernels"];
    EXPECT_EQ(listed.size(), set["kernels"].get<size_t>());
    EXPECT_TRUE(has(run_tool({"kernels"}).out, names.back()));
  }
  EXPECT_EQ(names, kernel_sets_listed());
  expect_refusal(run_tool({"kernels", digits_, "--set", "avx2"}), 2, "is about the sets of kernels");
}

TEST_F(model_commands, a_model_for_a_tier_runs_with_its_kernels_and_no_others) {
  const std::string model = directory_ / "tier.nacre", set = best_set(), target = port_named(set)->name;
  ASSERT_EQ(run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", model, "--target", target}).exit_code,
            0);
  const ToolRun run = run_tool({"run", model, "--seed", "1", "--profile", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json json = Json::parse(run.out), steps = json["profile"]["steps"];
  EXPECT_EQ(json["kernels"], set);
  for (const Json& step : steps) {  // the roof is known for x86 only
    EXPECT_EQ(step.contains("share_of_roof"), !target_runs_here("arm/neon") && !target_runs_here("arm/armv7"));
    if (!step.contains("share_of_roof")) continue;
    EXPECT_GT(step["roof_us"].get<double>(), 0);
    EXPECT_DOUBLE_EQ(step["share_of_roof"].get<double>(), step["roof_us"].get<double>() / step["us"].get<double>());
  }
  EXPECT_TRUE(std::ranges::any_of(
      steps, [&](const Json& step) { return step["kernel"].get<std::string>().starts_with(set + "/conv2d"); }));
  expect_refusal(run_tool({"run", model, "--seed", "1", "--kernels", "reference"}), 2, "compiled for " + target);
  const Json timed =
      Json::parse(run_tool({"bench", model, "--runs", "3", "--min-ms", "0", "--warmup-ms", "0", "--json"}).out);
  EXPECT_EQ(timed["runs"], 3);
  EXPECT_GT(timed["median_us"].get<double>(), 0);
}

TEST_F(model_commands, bench_ends_soon_and_says_its_runs) {
  const std::string model = directory_ / "soon.nacre";
  ASSERT_EQ(run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", model}).exit_code, 0);
  const auto begun = std::chrono::steady_clock::now();
  const Json timed = Json::parse(run_tool({"bench", model, "--json"}).out);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
  EXPECT_GE(timed["runs"], 50);
  EXPECT_EQ(timed["cut_short"], false);
  EXPECT_GE(timed["standard_deviation_us"].get<double>(), 0);
  EXPECT_GE(Json::parse(run_tool({"bench", model, "--json", "--runs", "3000", "--min-ms", "0"}).out)["runs"], 3000);
}

TEST_F(model_commands, a_model_for_a_tier_of_another_machine_is_made_and_checked_but_not_run) {
  const std::string model = directory_ / "tier.nacre", target = target_runs_here("arm/neon") ? "x86/avx2" : "arm/neon";
  ASSERT_EQ(run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", model, "--target", target}).exit_code,
            0);
  EXPECT_TRUE(has(run_tool({"check", model}).out, "measured for " + target));
  EXPECT_EQ(run_tool({"size", model}).exit_code, 0);
  expect_refusal(run_tool({"run", model, "--seed", "1"}), 4, "a program for " + target);
  expect_refusal(run_tool({"bench", model}), 4, "a program for " + target);
}

TEST_F(model_commands, kernels_are_those_of_the_steps_and_no_others) {
  const std::string text = run_tool({"kernels", digits_}).out;
  for (const char* name : {"kConv2dF32", "kDepthwiseConv2dF32", "kDenseF32", "kSoftmaxF32"})
    EXPECT_TRUE(has(text, name)) << text;
  EXPECT_FALSE(has(text, "I8")) << text;
  EXPECT_FALSE(has(text, "Hybrid")) << text;
}

TEST_F(model_commands, kernels_leaves_nothing_where_it_cannot_write) {
  expect_refusal(run_tool({"kernels", digits_, "-o", "/dev/full"}), 5, "No space left");
  expect_refusal(run_tool({"kernels", digits_, "-o", directory_ / "no/such.h"}), 5, "No such file");
  EXPECT_EQ(directory_.entries(), 1u);
}

TEST_F(model_commands, files_that_are_no_models_are_refused_by_every_command) {
  for (const char* command : {"check", "size", "run", "bench", "kernels"}) {
    expect_refusal(run_tool({command, directory_ / "missing"}), 5, "No such file");
    expect_refusal(run_tool({command, directory_.path().string()}), 5, "is a directory");
    expect_refusal(run_tool({command, "/dev/zero"}), 5, "is a device");
    expect_refusal(run_tool({command, project_path("tools/samples/digits.onnx")}), 3, "nacre convert NETWORK");
    if (std::string_view(command) != "kernels") expect_refusal(run_tool({command}), 2, "MODEL is required");
  }
}

TEST(nacre, help_and_version_of_every_command) {
  EXPECT_TRUE(has(run_tool({"--help"}).out, "Exit codes: 0 done"));
  EXPECT_EQ(run_tool({"--version"}).out.rfind("nacre ", 0), 0u);
  for (const char* command : {"convert", "size", "run", "check", "kernels", "bench"}) {
    const ToolRun run = run_tool({command, "--help"});
    EXPECT_EQ(run.exit_code, 0) << command;
    EXPECT_TRUE(has(run.out, std::string("nacre ") + command)) << run.out;
    EXPECT_TRUE(has(run.out, "Example")) << command;
  }
}

TEST(nacre, wrong_commands_are_refused_with_the_way_to_the_help) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{}, {"frobnicate"}, {"size", "a", "b"}}) {
    const ToolRun run = run_tool(arguments);
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_TRUE(has(run.err, "--help")) << run.err;
    EXPECT_EQ(run.out, "");
  }
}

}  // namespace
}  // namespace nacre::tools
