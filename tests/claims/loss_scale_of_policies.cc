// Claim: the loss scale that a policy names, in any spelling, is used by the training: in the file's state and steps,
// and in the run.
//
// Every spelling goes through the tool as a user types it. `convert --train` must write this scale into the state,
// and its kind into the step adjust_loss_scale; `tune` must report it. Then the network is trained on samples that it
// gets wrong, so that gradients overflow float16 at the start. Each refused step must halve a dynamic scale, as in
// the system that the rule is named after (NUMERICS.md section 10).
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/claims/claims.h"
#include "tests/run_tool.h"
#include "tests/sanitized.h"
#include "tools/base/json.h"
#include "tools/files/npy.h"
#include "tools/model/loaded_model.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

struct Spelling {
  std::vector<std::string> options;
  LossScale kind;
  float scale;                 // at the start; 1 without a loss scale
  const char* file = nullptr;  // the file of --policy-file
};

const Spelling kSpellings[] = {
    {{"--policy", "mixed_float16"}, LossScale::kDynamic, 32768},
    {{"--policy", "mixed_float16;loss_scale=dynamic"}, LossScale::kDynamic, 32768},
    {{"--policy", "mixed_float16;loss_scale=auto"}, LossScale::kDynamic, 32768},
    {{"--policy", "mixed_float16;loss_scale=128"}, LossScale::kFixed, 128},
    {{"--policy", "mixed_float16;loss_scale=none"}, LossScale::kNone, 1},
    {{"--policy", "float16;loss_scale=none"}, LossScale::kNone, 1},
    {{"--policy", "float16;loss_scale=64"}, LossScale::kFixed, 64},
    {{"--policy", "float16"}, LossScale::kDynamic, 32768},
    {{"--policy", "params=float32,compute=float16,output=float16"}, LossScale::kDynamic, 32768},
    {{"--policy", "params=float32,compute=float16,output=float16;loss_scale=2"}, LossScale::kFixed, 2},
    {{"--policy", "float32"}, LossScale::kNone, 1},
    {{"--policy", "mixed_bfloat16"}, LossScale::kNone, 1},
    {{"--policy", "float32;loss_scale=8"}, LossScale::kFixed, 8},
    {{"--policy", "float32", "--set", "fc=mixed_float16;loss_scale=16"}, LossScale::kFixed, 16},
    {{"--policy", "mixed_float16;loss_scale=none", "--set", "fc=mixed_float16;loss_scale=16"}, LossScale::kNone, 1},
    {{"--rewrite", "mixed_float16"}, LossScale::kDynamic, 32768},
    {{"--rewrite", "mixed_bfloat16"}, LossScale::kNone, 1},
    {{"--rewrite", "mixed_float16", "--loss-scale", "fixed=32"}, LossScale::kFixed, 32},
    {{"--policy", "mixed_float16;loss_scale=128", "--only", "dense"}, LossScale::kFixed, 128},
    {{"--policy", "axon(compute=float16);loss_scale=2"}, LossScale::kFixed, 2},
    {{}, LossScale::kFixed, 256, R"({"default": {"policy": "mixed_float16", "loss_scale": 256}})"},
    {{}, LossScale::kNone, 1, R"({"default": {"policy": "mixed_float16", "loss_scale": "none"}})"},
    {{}, LossScale::kFixed, 512, R"({"layers": {"fc": {"policy": "mixed_float16", "loss_scale": 512}}})"},
    {{}, LossScale::kDynamic, 32768, R"({"class_name": "DTypePolicy", "config": {"name": "mixed_float16"}})"},
    {{"--policy", "mixed_float16;loss_scale=128", "--loss-scale", "none"}, LossScale::kNone, 1},
    {{"--policy", "mixed_float16;loss_scale=128", "--loss-scale", "fixed=4"}, LossScale::kFixed, 4},
    {{"--policy", "float32", "--set", "fc=mixed_float16;loss_scale=16", "--set", "conv1=mixed_float16", "--loss-scale",
      "fixed=4"},
     LossScale::kFixed,
     4},
    {{"--policy", "mixed_float16;loss_scale=none", "--loss-scale", "dynamic=1024"}, LossScale::kDynamic, 1024},
    {{"--policy", "float32", "--loss-scale", "fixed", "--loss-scale-rule", "fastai"}, LossScale::kFixed, 512},
    {{"--policy", "mixed_float16;loss_scale=100", "--loss-scale-rule", "tf"}, LossScale::kFixed, 100},
};

struct Rule {
  const char* name;
  float start;
};
constexpr Rule kRules[] = {{"nacre", 32768}, {"tf", 32768},     {"keras", 32768},
                           {"jmp", 32768},   {"fastai", 65536}, {"axon", 32768}};

class Judge {
 public:
  void that(bool holds, const std::string& what) {
    ++checks;
    if (holds) return;
    ++failed;
    std::printf("FAILED: %s\n", what.c_str());
  }
  int checks = 0, failed = 0;
};

std::string text_of(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + " ";
  return text;
}

void check_file(const std::string& path, const Spelling& s, const std::string& what, Judge& judge) {
  const LoadedModel model(path);
  int states = 0, steps = 0;
  for (uint32_t id = 0; id < model.model().tensors().size(); ++id) {
    const TensorRecord& r = model.model().tensors()[id];
    if (r.region != Region::kState || model.tensor_name(id) != "loss_scale") continue;
    float initial = 0;
    if (r.initial != kNoIndex) std::memcpy(&initial, model.model().weights(r.initial), sizeof initial);
    judge.that(initial == s.scale, what + "the file starts with " + std::to_string(initial));
    ++states;
  }
  for (const StepRecord& step : model.model().steps()) {
    if (step.op != Op::kAdjustLossScale) continue;
    judge.that(model.model().words(step)[1] == uint32_t(s.kind), what + "the step is of another kind");
    ++steps;
  }
  judge.that(states == 1 && steps == 1, what + "the file has no loss scale");
}

// A training of twelve epochs with one step each.
struct Run {
  ToolRun tool;
  Json epochs;
};
Run tune(const std::string& images, const std::string& labels, std::vector<std::string> options,
         const std::string& model) {
  std::vector<std::string> words = {"tune",     project_path("tools/samples/digits.onnx"),
                                    "--loss",   "softmax_cross_entropy",
                                    "--data",   images,
                                    "--labels", labels,
                                    "--epochs", "12",
                                    "--batch",  "32",
                                    "--lr",     "0.001",
                                    "-o",       model,
                                    "--json",   "--cast-samples"};
  words.insert(words.end(), options.begin(), options.end());
  Run run = {run_tool(words), {}};
  if (run.tool.exit_code == 0) run.epochs = Json::parse(run.tool.out)["epochs"];
  return run;
}

// Checks the scale of every step: `start` first, then half of it after each refused step. Returns how many were
// refused.
int check_scales(const Run& run, float start, const std::string& what, Judge& judge) {
  float scale = start;
  int refused = 0;
  for (size_t i = 0; i < run.epochs.size(); ++i) {
    const auto found = run.epochs[i]["loss_scale"].get<float>();
    judge.that(found == scale, what + "step " + std::to_string(i) + " has the scale " + std::to_string(found));
    if (run.epochs[i]["refused"].get<int>() == 0) continue;
    scale /= 2;
    ++refused;
  }
  return refused;
}

int claim() {
  constexpr int64_t kRows = 32;
  const TemporaryDirectory directory;
  const std::string model = directory / "m.nacre", tuned = directory / "t.nacre", file = directory / "p.json";
  const std::string x = directory / "x.npy", y = directory / "y.npy";
  NpyArray images = read_npy(project_path("tools/samples/digits_images.npy"));
  NpyArray labels = read_npy(project_path("tools/samples/digits_labels.npy"));
  for (NpyArray* array : {&images, &labels}) {
    array->data.resize(array->data.size() / size_t(array->dims[0]) * size_t(kRows));
    array->dims[0] = kRows;
  }
  write_npy(x, images);
  write_npy(y, labels);
  Judge judge;
  for (const Spelling& s : kSpellings) {
    std::vector<std::string> options = s.options;
    if (s.file != nullptr) {
      std::ofstream(file) << s.file;
      options.insert(options.end(), {"--policy-file", file});
    }
    const std::string what = text_of(s.options) + (s.file != nullptr ? s.file : "") + ": ";
    std::vector<std::string> convert = {"convert", project_path("tools/samples/digits.onnx"),
                                        "-o",      model,
                                        "--train", "softmax_cross_entropy",
                                        "--batch", "8"};
    convert.insert(convert.end(), options.begin(), options.end());
    const ToolRun made = run_tool(convert);
    judge.that(made.exit_code == 0, what + made.err);
    if (made.exit_code != 0) continue;
    check_file(model, s, what, judge);
    const std::string words = text_of(s.options);
    const bool named = words.find("loss_scale=") != std::string::npos || words.starts_with("--rewrite mixed_float16");
    const bool overridden = named && words.find("--loss-scale ") != std::string::npos;
    judge.that((made.err.find("takes the place of") != std::string::npos) == overridden, what + "says " + made.err);
    const Run run = tune(x, y, options, tuned);
    judge.that(run.tool.exit_code == 0, what + run.tool.err);
    if (run.tool.exit_code != 0) continue;
    const int refused = check_scales(run, s.scale, what, judge);
    judge.that(refused == 0 || s.kind == LossScale::kDynamic, what + "steps were refused");
  }
  int overflows = 0;
  for (const Rule& rule : kRules) {
    const Run run =
        tune(x, y, {"--policy", "mixed_float16", "--loss-scale-rule", rule.name, "--scale", "0.0625"}, tuned);
    judge.that(run.tool.exit_code == 0, rule.name + (": " + run.tool.err));
    if (run.tool.exit_code != 0) continue;
    const int refused = check_scales(run, rule.start, rule.name + std::string(": "), judge);
    judge.that(refused > 0, std::string(rule.name) + ": no gradient overflowed");
    overflows += refused;
  }
  // Axon's own rule does not see NaN, so a scale whose gradients hold a NaN would never change.
  const Run axon =
      tune(x, y, {"--policy", "mixed_float16", "--loss-scale-rule", "axon", "--loss-scale", "dynamic=16777216"}, tuned);
  judge.that(axon.tool.exit_code == 0, "axon from 2^24: " + axon.tool.err);
  if (axon.tool.exit_code == 0) {
    const int refused = check_scales(axon, 16777216, "axon from 2^24: ", judge);
    judge.that(refused > 0 && refused < int(axon.epochs.size()), "axon from 2^24: no step is refused, or all are");
    overflows += refused;
  }
  if (judge.failed > 0) {
    std::printf("CLAIM loss_scale_of_policies NOT SHOWN: %d of %d checks failed\n", judge.failed, judge.checks);
    return 1;
  }
  std::printf(
      "CLAIM loss_scale_of_policies shown: %zu spellings, each in the state and the steps of the file and in a run; "
      "%zu "
      "rules, %d steps with gradients beyond float16; %d checks, 0 failed\n",
      std::size(kSpellings), std::size(kRules), overflows, judge.checks);
  return 0;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(loss_scale_of_policies) {
  if (nacre::test::sanitized()) {
    std::puts("sixty commands and trainings: the plain build runs them");
    return 77;
  }
  try {
    return nacre::test::claim();
  } catch (const std::exception& error) {
    std::printf("CLAIM loss_scale_of_policies NOT SHOWN: %s\n", error.what());
    return 1;
  }
}
