// Tests commands that a program runs in its own process: what they print and ask, and what they leave unchanged.
#include "tools/base/caller.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "tests/run_tool.h"
#include "tools/base/error.h"
#include "tools/base/print.h"
#include "tools/cli/tool.h"

namespace nacre::tools {
namespace {

struct RecordingCaller : Caller {
  std::string printed;
  std::vector<std::string> notes, warnings, epochs;
  int shown = 0, interrupts_after = -1, last_epoch = -1;

  void print(const std::string& text) override { printed += text; }
  void note(const std::string& line) override { notes.push_back(line); }
  void warn(const std::string& sentence) override { warnings.push_back(sentence); }
  void progress(const std::string&, uint64_t done, uint64_t total) override {
    EXPECT_LE(done, total);
    ++shown;
  }
  bool epoch(const std::string& record) override {
    epochs.push_back(record);
    return int(epochs.size()) != last_epoch;
  }
  std::string option(std::string_view id, std::string_view value) const override {
    return std::string(id) + (value.empty() ? "" : "=") + std::string(value);
  }
  bool interrupted() override { return interrupts_after >= 0 && shown > interrupts_after; }
};

class caller : public testing::Test {
 protected:
  void run(std::vector<std::string> words) {
    const CallerScope scope(caller_);
    testing::internal::CaptureStdout();
    run_command(std::move(words));
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  }
  std::vector<std::string> tune(const std::string& output) {
    return {"tune",
            project_path("tools/samples/digits.onnx"),
            "--data",
            "--labels",
            project_path("tools/samples/digits_labels.npy"),
            "--cast-samples",
            "--loss",
            "softmax_cross_entropy",
            "--epochs",
            "4",
            "--batch",
            "256",
            "--json",
            "-o",
            output};
  }

  RecordingCaller caller_;
  TemporaryDirectory folder_;
  const std::string digits_ = project_path("tools/samples/digits.onnx");
  const std::string images_ = project_path("tools/samples/digits_images.npy");
  const std::string labels_ = project_path("tools/samples/digits_labels.npy");
};

TEST_F(caller, is_given_what_a_command_prints_and_notes) {
  run({"policies", "mixed_bfloat16", "--json"});
  EXPECT_NE(caller_.printed.find("\"compute\": \"bfloat16\""), std::string::npos);
  run({"convert", digits_, "--verbose", "-o", folder_ / "m.nacre"});
  EXPECT_FALSE(caller_.notes.empty());
}

TEST_F(caller, is_told_warnings_apart_from_notices) {
  testing::internal::CaptureStderr();
  warn("a terminal is warned");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "warning: a terminal is warned\n");
  const CallerScope scope(caller_);
  note("a notice");
  warn("a warning");
  EXPECT_EQ(caller_.notes, std::vector<std::string>{"a notice"});
  EXPECT_EQ(caller_.warnings, std::vector<std::string>{"a warning"});
}

TEST_F(caller, catches_what_the_command_line_would_say) {
  const CallerScope scope(caller_);
  const auto sentence = [](std::vector<std::string> words) -> std::string {
    try {
      run_command(std::move(words));
    } catch (const Error& error) {
      EXPECT_EQ(error.code, kUsage);
      return error.what();
    }
    return "nothing was refused";
  };
  EXPECT_EQ(sentence({"convert", digits_, "--batch=0"}), "convert: --batch: '0' is no whole number from 1 to 1048576");
  EXPECT_EQ(sentence({"size"}), "size: MODEL is required");
  EXPECT_NE(sentence({"convert", digits_, "--policy", "int8/static_from_float32", "-o", folder_ / "m.nacre"})
                .find("calibrate=FILE"),
            std::string::npos);
  EXPECT_NE(sentence({"conver", digits_}).find("conver"), std::string::npos);
  EXPECT_NE(sentence({}), "nothing was refused");
}

TEST_F(caller, ends_a_training_with_an_epoch) {
  caller_.last_epoch = 2;
  std::vector<std::string> words = tune(folder_ / "t.nacre");
  words.insert(words.begin() + 3, images_);
  run(words);
  EXPECT_EQ(caller_.epochs.size(), 2u);
  EXPECT_NE(caller_.printed.find("\"stopped_early\": true"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "t.nacre"));
}

TEST_F(caller, interrupts_work_which_then_leaves_nothing_or_a_checkpoint) {
  const CallerScope scope(caller_);
  caller_.interrupts_after = 2;
  EXPECT_THROW(run_command({"search", digits_, "--data", images_, "--labels", labels_, "--cast-inputs", "-o",
                            folder_ / "map.json"}),
               Interrupted);
  EXPECT_EQ(folder_.entries(), 0u);
  caller_.shown = 0;
  std::vector<std::string> words = tune(folder_ / "t.nacre");
  words.insert(words.begin() + 3, images_);
  words.insert(words.end(), {"--checkpoint", folder_ / "ck"});
  EXPECT_THROW(run_command(words), Interrupted);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "ck/slot0.checkpoint"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "t.nacre"));
}

TEST_F(caller, keeps_its_signals) {
  const CallerScope scope(caller_);
  struct sigaction before = {}, after = {};
  for (const int number : {SIGINT, SIGTERM, SIGPIPE}) {
    sigaction(number, nullptr, &before);
    run_command({"convert", digits_, "-o", folder_ / "m.nacre"});
    sigaction(number, nullptr, &after);
    EXPECT_EQ(before.sa_handler, after.sa_handler);
  }
}

TEST(command_table, names_every_command_and_option) {
  const Json table = command_table();
  EXPECT_EQ(table.size(), 16u);
  for (const Json& command : table)
    for (const Json& option : command.at("options")) {
      EXPECT_NE(option.at("name"), "");
      const bool shown = option.at("group") != "";
      EXPECT_EQ(shown && option.at("help") == "", false) << command.at("name").dump() << option.at("name").dump();
    }
}

}  // namespace
}  // namespace nacre::tools
