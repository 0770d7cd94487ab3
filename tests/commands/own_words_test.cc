// Tests that refusals by libraries are in the tool's words: no message of CLI11, RE2, nlohmann, libzip or protobuf is
// shown.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/run_tool.h"
#include "tools/files/npy.h"

namespace nacre::tools {
namespace {

class own_words : public testing::Test {
 protected:
  own_words() {
    write_text("bad.json", "{\n  \"default\": \"float32\",\n  oops\n}");
    write_text("short.json", "{\"default\": ");
    write_text("huge.json", "{\"default\": 1e999}");
    write_text("latin.json", "{\"default\": \"\xe9\"}");
    write_text("no.npz", "this is no archive");
    std::vector<uint8_t> npz =
        npz_bytes({{"x", {.type = ElementType::kFloat32, .dims = {4}, .data = std::vector<uint8_t>(16, 7)}}});
    npz[npz.size() / 3] ^= 0x55;
    write_bytes(folder_ / "damaged.npz", npz);
    npz.resize(npz.size() / 2);
    write_bytes(folder_ / "short.npz", npz);
    std::vector<uint8_t> onnx = read_bytes(project_path("tools/samples/digits.onnx"));
    onnx.insert(onnx.end(), {0x3a, 0x05, 0x0a, 0x7f, 1, 2, 3});  // a graph whose node is longer than the graph
    write_bytes(folder_ / "damaged.onnx", onnx);
  }

  void write_text(const std::string& name, const std::string& text) {
    write_bytes(folder_ / name, {text.begin(), text.end()});
  }

  TemporaryDirectory folder_;
};

TEST_F(own_words, are_all_that_reaches_a_terminal) {
  const std::string network = project_path("tools/samples/digits.onnx"), model = folder_ / "m.nacre";
  const auto with = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"convert", network, "-o", model});
    return options;
  };
  const auto calibrate = [&](const std::string& data) {
    return with({"--policy", "int8/static_from_float32", "--calibrate", folder_ / data});
  };
  const struct {
    std::vector<std::string> arguments;
    const char* said;
  } cases[] = {
      {with({"--nonsense"}), "--nonsense: this command has no such option or argument\n"},
      {with({"--polcy=float32"}), "no such option or argument; did you mean --policy?"},
      {{"conver"}, "nacre: conver: there is no such command; did you mean convert?"},
      {{"x.onnx", "conver"}, "nacre: x.onnx: there is no such command\n"},
      {{"--verson"}, "nacre: --verson: there is no such option; did you mean --version?"},
      {with({"--batch", "many"}), "'many' is no whole number from"},
      {with({"--batch", "99999999999999999999"}), "is no whole number from"},
      {with({"--golden", "-1"}), "'-1' is no whole number from 0 to 1000"},
      {with({"--target", "toaster"}), "'toaster' is not one of host"},
      {with({"--stop-after", "lunch"}), "'lunch' is not one of import"},
      {with({"--percentile", "many", "--calibrate", "x"}), "--percentile: its value is of another kind than it takes"},
      {with({"--batch"}), "--batch: is given twice, or takes another number of values"},
      {{"check"}, "MODEL is required"},
      {with({"--set", "[a=float16"}), "missing ] of a set of characters"},
      {with({"--set", "(a=float16"}), "missing ) of a group"},
      {with({"--set", "[z-a]=float16"}), "no set of characters is written 'z-a'"},
      {with({"--set", "*a=float16"}), "nothing stands before the repetition '*'"},
      {with({"--set", "a\\=float16"}), "it ends with a backslash that escapes nothing"},
      {with({"--train", "softmax_cross_entropy", "--train-layers", "("}), "missing ) of a group"},
      {with({"--train", "softmax_cross_entropy", "--train-channels", "(=0.5"}), "missing ) of a group"},
      {with({"--train", "softmax_cross_entropy", "--optimizer", "adamw,weight_decay=0.1", "--no-decay", "("}),
       "missing ) of a group"},
      {with({"--policy", "int8/static_from_float32", "--calibrate", project_path("tools/samples/digits_images.npy"),
             "--cast-samples", "--range", "(=mse"}),
       "missing ) of a group"},
      {with({"--policy-file", folder_ / "bad.json"}), "is no JSON: 'o' in line 3, column 3, cannot stand there"},
      {with({"--policy-file", folder_ / "short.json"}), "is no JSON: it ends too early"},
      {with({"--policy-file", folder_ / "huge.json"}), "is no JSON: it holds a number that no float64 holds"},
      {with({"--policy-file", folder_ / "latin.json"}), "is no JSON: "},
      {calibrate("no.npz"), "not a .npz file: it is no zip archive"},
      {calibrate("short.npz"), "not a .npz file: it"},
      {calibrate("damaged.npz"), ""},
      {{"convert", folder_ / "damaged.onnx", "-o", model}, "is not a whole ONNX file"},
  };
  for (const auto& c : cases) {
    const ToolRun run = run_tool(c.arguments);
    SCOPED_TRACE(testing::PrintToString(c.arguments) + "\n" + run.err);
    EXPECT_NE(run.exit_code, 0);
    EXPECT_TRUE(run.err.starts_with("nacre: "));
    EXPECT_NE(run.err.find(c.said), std::string::npos);
    for (const char* theirs : {"not in range", "not in {", "Could not convert", "was not expected", "were not expected",
                               "required TEXT", "required INT", "json.exception", "syntax error", "libprotobuf",
                               "Not a zip archive", "Zip archive inconsistent", "no argument for repetition"})
      EXPECT_EQ(run.err.find(theirs), std::string::npos) << theirs;
  }
}

// Names come from files and may hold any bytes.
TEST_F(own_words, hold_no_control_codes) {
  const ToolRun run = run_tool({"check", "\x1b[31mno\a such\x7f file"});
  EXPECT_NE(run.err.find("\\x1B[31mno\\x07 such\\x7F file"), std::string::npos) << run.err;
}

// A path is shown in one line of a sentence, whatever it holds: as the subject of a refusal, in its fact or advice, and
// in messages about options.
TEST_F(own_words, show_a_new_line_in_a_name_as_one) {
  const std::string network = project_path("tools/samples/digits.onnx");
  write_text("a\nb", "no network");
  const std::vector<std::string> cases[] = {
      {"check", folder_ / "a\nb"},
      {"check", folder_ / "none\n    a\nb"},
      {"convert", folder_ / "a\nb", "-o", folder_ / "m"},
      {"convert", network, "-o", folder_ / "none/a\nb"},
      {"convert", network, "-o", folder_ / "m", "--a\nb"},
      {"convert", network, "-o", folder_ / "m", "--target", "a\nb"},
      {"eval", folder_ / "a\nb", "--data", folder_ / "a\nb.npy", "--labels", "a\nb"}};
  for (const auto& arguments : cases) {
    const ToolRun run = run_tool(arguments);
    EXPECT_NE(run.exit_code, 0);
    EXPECT_NE(run.err.find("a\\nb"), std::string::npos) << run.err;
    const auto lines = std::ranges::count(run.err, '\n');
    EXPECT_TRUE(lines == 1 || (lines == 2 && run.err.find("\n    ") != std::string::npos)) << run.err;
  }
}

}  // namespace
}  // namespace nacre::tools
