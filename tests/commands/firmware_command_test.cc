// Tests nacre firmware, which writes the sources of a static program.
#include <gtest/gtest.h>

#include <span>
#include <string>

#include "tests/run_tool.h"
#include "tools/base/json.h"
#include "tools/model/ready_entries.h"

namespace nacre::tools {
namespace {

class firmware_command : public testing::Test {
 protected:
  void convert(const std::vector<std::string>& options = {}) {
    std::vector<std::string> words = {"convert", project_path("tools/samples/digits.onnx"), "-o", model_};
    words.insert(words.end(), options.begin(), options.end());
    const ToolRun run = run_tool(words);
    ASSERT_EQ(run.exit_code, 0) << run.err;
  }
  std::string text_of(const std::string& name) const {
    const std::vector<uint8_t> bytes = read_bytes(sources_ + "/" + name);
    return {bytes.begin(), bytes.end()};
  }

  const TemporaryDirectory directory_;
  const std::string model_ = directory_ / "digits.nacre", sources_ = directory_ / "sources";
};

TEST_F(firmware_command, writes_sources_that_name_the_model) {
  convert();
  const ToolRun run = run_tool({"firmware", model_, "-o", sources_, "--name", "digits", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json json = Json::parse(run.out);
  EXPECT_EQ(json["machine"], "arm/m4");
  EXPECT_EQ(json["files"].size(), 8u);
  const Json size = Json::parse(run_tool({"size", model_, "--target", "arm/m4", "--json"}).out);
  EXPECT_EQ(json["table_bytes"], size["static_flash"]["tables"]);
  const Json said = size["programs"][0];
  const std::string tables = text_of("digits.cc");
  EXPECT_TRUE(has(tables, "static_assert(sizeof(Calls) == " + said["blocks"]["calls"].dump() + ");"));
  EXPECT_TRUE(has(tables, "static_assert(sizeof(void*) == 4"));
  EXPECT_TRUE(has(text_of("digits.h"), "extern const struct nacre_static_program digits_program;"));
  EXPECT_TRUE(has(text_of("digits_weights.cc"), "alignas(64) constinit const uint8_t digits_weights["));
  EXPECT_TRUE(has(text_of("digits_test.cc"), "nacre::close_floats"));
  EXPECT_TRUE(has(text_of("digits_main.c"), "printf(\"%d failed\\n\", failed);"));
  EXPECT_TRUE(has(text_of("CMakeLists.txt"), "add_library(digits STATIC digits.cc digits_weights.cc digits_test.cc)"));
  EXPECT_EQ(json["ram_bytes"], said["arena"][0]["bytes"].get<uint64_t>() + said["blocks"]["scratch"].get<uint64_t>());
}

// Tests the host too: its sources compile with this machine's compiler and flags.
TEST_F(firmware_command, the_sources_compile_for_their_machine_and_no_other) {
  convert();
  ASSERT_EQ(run_tool({"firmware", model_, "-o", sources_, "--target", "host"}).exit_code, 0);
  const std::string cpp = " -std=c++20",
                    flags = " -fsyntax-only -Wall -Wextra -Werror -Wshadow -Wconversion " + include_options() + " ";
  const auto compile = [&](const std::string& compiler, const std::string& file) {
    return std::system((compiler + flags + sources_ + "/" + file + " 2>" + (directory_ / "errors")).c_str());
  };
  for (const char* file : {"model.cc", "model_weights.cc", "model_test.cc"})
    EXPECT_EQ(compile("c++" + cpp, file), 0) << file;
  EXPECT_EQ(compile("cc -std=c11 -pedantic", "model_main.c"), 0);
  if (std::system("command -v arm-none-eabi-g++ >/dev/null") != 0) return;
  EXPECT_NE(compile("arm-none-eabi-g++ -mcpu=cortex-m4 -mthumb" + cpp, "model.cc"), 0);
  const std::vector<uint8_t> errors = read_bytes(directory_ / "errors");
  EXPECT_TRUE(has({errors.begin(), errors.end()}, "these tables are for host"));
}

// The model gets the kernels of ports/cortex_m, which run here as plain C++ and give the reference's numbers.
TEST_F(firmware_command, int8_of_a_model_for_m4_runs_by_the_fast_kernels) {
  const std::vector<std::string> int8 = {"--policy", "int8/static_from_float32", "--cast-samples", "--calibrate",
                                         project_path("tools/samples/digits_images.npy")};
  const auto sources_for = [&](const char* target) {
    std::vector<std::string> options = int8;
    options.insert(options.end(), {"--target", target});
    convert(options);
    const ToolRun run = run_tool({"firmware", model_, "-o", sources_});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return text_of("model.cc");
  };
  const std::string small = sources_for("host");
  const Json reference = Json::parse(run_tool({"run", model_, "--seed", "3", "--kernels", "reference", "--json"}).out);
  EXPECT_TRUE(has(small, "nacre::reference::ready::kConv2dI8Double, "));
  EXPECT_FALSE(has(small, "cortex_m"));
  const std::string fast = sources_for("arm/m4");
  EXPECT_TRUE(has(fast, "nacre::cortex_m::ready::kConv2dI8Double, "));
  EXPECT_TRUE(has(fast, "#include <nacre/cortex_m_functions.h>\n"));
  EXPECT_FALSE(has(fast, "nacre::reference::ready::kConv2dI8Double, "));
  EXPECT_TRUE(has(run_tool({"kernels", model_}).out, "&nacre::cortex_m::kConv2dI8Double,"));
  EXPECT_EQ(Json::parse(run_tool({"run", model_, "--seed", "3", "--json"}).out)["outputs"], reference["outputs"]);
  if (std::system("command -v arm-none-eabi-g++ >/dev/null") != 0) return;
  const std::string command = "arm-none-eabi-g++ -mcpu=cortex-m4 -mthumb -std=c++20 -fsyntax-only -Wall -Werror " +
                              include_options() + " " + sources_ + "/model.cc";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

// Without --target the machine is the model's only microcontroller, for the programs that train too.
TEST_F(firmware_command, is_for_the_only_microcontroller_of_the_model) {
  const struct {
    const char *targets, *machine;
    bool trains;
  } rows[] = {{"host", "arm/m4", false},
              {"arm/m55", "arm/m55", false},
              {"host,arm/m0plus", "arm/m0plus", false},
              {"host,arm/m7,riscv/rv32imac", "arm/m4", false},
              {"arm/m7,arm/m4", "arm/m4", false},
              {"riscv/rv32imafc", "riscv/rv32imafc", true},
              {"host,arm/armv7", "arm/m4", false}};
  for (const auto& row : rows) {
    std::vector<std::string> options = {"--target", row.targets}, train;
    if (row.trains) options.insert(options.end(), {"--train", "softmax_cross_entropy", "--train-last", "1"});
    convert(options);
    std::vector<std::string> words = {"firmware", model_, "-o", sources_, "--json"};
    if (row.trains) words.push_back("--train");
    const ToolRun run = run_tool(words);
    ASSERT_EQ(run.exit_code, 0) << row.targets << run.err;
    EXPECT_EQ(Json::parse(run.out)["machine"], row.machine) << row.targets;
    EXPECT_TRUE(has(text_of("model.cc"), std::string("these tables are for ") + row.machine)) << row.targets;
  }
  convert({"--target", "arm/m55"});
  const ToolRun other = run_tool({"firmware", model_, "-o", sources_, "--target", "arm/m7"});
  EXPECT_EQ(other.exit_code, 4);
  EXPECT_TRUE(has(other.err, "--target arm/m7: ")) << other.err;
}

// This compiler counts a prepared op's size, and the target's compiler makes the constant. So no such op holds an
// address.
TEST_F(firmware_command, ops_that_can_be_ready_have_one_size_on_every_machine) {
  if (std::system("command -v arm-none-eabi-g++ >/dev/null") != 0)
    GTEST_SKIP() << "asks the compiler of Cortex-M: arm-none-eabi-g++ is not installed";
  std::string text = "#include \"engine/kernels/entry_functions.h\"\n#include \"engine/ops/all.h\"\n";
  text += "#include \"ports/cortex_m/entry_functions.h\"\n";
  size_t types = 0;
  for (const std::span<const ReadyEntry> list : ready_entries())
    for (const ReadyEntry& entry : list)
      if (entry.ready != nullptr)
        text +=
            "static_assert(sizeof(nacre::" + std::string(entry.type) + ") == " + std::to_string(entry.bytes) + ");\n",
            ++types;
  EXPECT_GT(types, 200u);
  const std::string source = directory_ / "sizes.cc";
  write_bytes(source, {text.begin(), text.end()});
  const std::string command =
      "arm-none-eabi-g++ -mcpu=cortex-m4 -mthumb -std=c++20 -fsyntax-only " + include_options() + " " + source;
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(firmware_command, of_a_model_that_trains_all_programs_compile) {
  convert({"--train", "softmax_cross_entropy", "--train-last", "2", "--batch", "4"});
  const ToolRun run = run_tool({"firmware", model_, "--train", "-o", sources_, "--name", "digits", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json json = Json::parse(run.out);
  EXPECT_TRUE(json["trains"]);
  EXPECT_GT(json["state_bytes"], 5000u);
  const std::string header = text_of("digits.h"), tables = text_of("digits.cc");
  EXPECT_TRUE(has(header, "extern const struct nacre_static_training digits_training;"));
  EXPECT_TRUE(has(header, "//   of a micro-batch, input 1 labels: int32 [4], 16 bytes\n")) << header;
  EXPECT_TRUE(has(header, "#define DIGITS_OUTPUT_0_ELEMENTS 40\n"));
  for (const char* program : {"digits_gradients = {", "digits_update = {"})
    EXPECT_TRUE(has(tables, program)) << program;
  EXPECT_TRUE(has(text_of("digits_test.cc"), "nacre::self_test(digits_training, golden, print)"));
  for (const std::string& compiler : {std::string("c++"), std::string("arm-none-eabi-g++ -mcpu=cortex-m4 -mthumb")}) {
    if (std::system(("command -v " + compiler.substr(0, compiler.find(' ')) + " >/dev/null").c_str()) != 0) continue;
    for (const char* file : {"digits.cc", "digits_weights.cc", "digits_test.cc"}) {
      if (compiler[0] == 'c' && std::string(file) == "digits.cc") continue;  // its tables are for 32 bits
      const std::string command = compiler + " -std=c++20 -fsyntax-only -Wall -Wextra -Werror -Wshadow -Wconversion " +
                                  include_options() + " " + sources_ + "/" + file;
      EXPECT_EQ(std::system(command.c_str()), 0) << command;
    }
  }
}

TEST_F(firmware_command, refusals_leave_nothing_behind) {
  const auto refuse = [&](const std::vector<std::string>& options, int code, const std::string& why) {
    std::vector<std::string> words = {"firmware", model_, "-o", sources_};
    words.insert(words.end(), options.begin(), options.end());
    const ToolRun run = run_tool(words);
    EXPECT_EQ(run.exit_code, code) << run.err;
    EXPECT_TRUE(has(run.err, why)) << run.err;
    EXPECT_FALSE(std::filesystem::exists(sources_));
  };
  convert();
  refuse({"--name", "two words"}, 2, "is no identifier of C");
  refuse({"--name", "9lives"}, 2, "is no identifier of C");
  refuse({"--target", "arm/m5"}, 2, "'arm/m5' is not one of");
  refuse({"--golden", "0"}, 2, "--golden");
  refuse({"--train"}, 4, "has no program that trains");
  convert({"--train", "softmax_cross_entropy"});
  refuse({}, 4, "what training learns");
  convert({"--train", "softmax_cross_entropy", "--target", "cuda/sm90"});
  refuse({"--train", "--target", "arm/m4"}, 4, "has no training program for it\n    it has: cuda/sm90");
}

}  // namespace
}  // namespace nacre::tools
