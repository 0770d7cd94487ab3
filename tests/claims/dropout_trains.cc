// Claim: networks with dropout can be trained and deployed, and nothing is refused after the first step.
//
// Dropout is written as Keras and both ONNX exporters of torch write it: alone, after batch norms and after
// convolutions, under every kind of policy. `nacre tune` ends with a model whose outputs are the same in every run.
// After a training that changes no parameter the outputs equal those of the network without dropout. A network,
// policy or option that cannot be deployed, or a name that cannot be written, is refused before the first epoch is
// printed, and leaves no file. dropout_trains.txt has the curves beside those of Keras and torch.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/claims/claims.h"
#include "tests/importers/keras_builder.h"
#include "tests/importers/onnx_builder.h"
#include "tests/run_tool.h"
#include "tools/base/split_mix64.h"
#include "tools/files/npy.h"
#include "tools/model/loaded_model.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;
using Words = std::vector<std::string>;

constexpr int64_t kRows = 24, kIn = 8, kHidden = 8, kClasses = 3;

std::vector<float> drawn(size_t count, uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<float> numbers(count);
  for (float& x : numbers) x = float(double(random.next() >> 40) / 0x1p23 - 1);
  return numbers;
}

// Makes the Keras model of Axon's page on policies: dense, batch norm, dropout, dense with softmax; or without batch
// norm.
std::vector<uint8_t> keras(bool batch_norm, bool dropout) {
  const auto layer = [](const std::string& of, const std::string& config) {
    return R"(, {"class_name": ")" + of + R"(", "config": {)" + config + "}}";
  };
  std::string layers =
      R"({"class_name": "InputLayer", "config": {"batch_input_shape": [null, 8], "dtype": "float32", "name": "x"}})";
  layers += layer("Dense", R"("name": "d", "units": 8, "activation": "relu")");
  if (batch_norm) layers += layer("BatchNormalization", R"("name": "b", "momentum": 0.99, "epsilon": 0.001)");
  if (dropout) layers += layer("Dropout", R"("name": "o", "rate": 0.5)");
  layers += layer("Dense", R"("name": "e", "units": 3, "activation": "softmax")");
  std::map<std::string, std::vector<KerasVariable>> variables = {
      {"d", {{"d/kernel:0", {kIn, kHidden}, drawn(64, 1)}, {"d/bias:0", {kHidden}, drawn(8, 2)}}},
      {"e", {{"e/kernel:0", {kHidden, kClasses}, drawn(24, 3)}, {"e/bias:0", {kClasses}, drawn(3, 4)}}}};
  if (batch_norm)
    variables["b"] = {{"b/gamma:0", {kHidden}, std::vector<float>(8, 1)},
                      {"b/beta:0", {kHidden}, drawn(8, 5)},
                      {"b/moving_mean:0", {kHidden}, drawn(8, 6)},
                      {"b/moving_variance:0", {kHidden}, std::vector<float>(8, 1)}};
  const std::string config = R"({"class_name": "Sequential", "config": {"name": "s", "layers": [)" + layers + "]}}";
  return legacy_keras(config, variables);
}

enum class Form { kNone, kMaskNamed, kMaskAbsent };  // none, torch's older exporter, its newer one

struct Onnx {
  Form form = Form::kMaskNamed;
  bool batch_norm = false, conv = false;

  std::vector<uint8_t> file() const {
    OnnxBuilder b(conv ? 12 : 17);
    b.input("x", conv ? std::vector<int64_t>{1, 1, 4, 4} : std::vector<int64_t>{1, kIn}, {"n"});
    std::string last = conv ? convolution(b) : dense(b, "x", "1", kIn, kHidden);
    if (batch_norm) {
      b.filled("scale", {kHidden}, 1);
      b.filled("shift", {kHidden}, 0.5f);
      b.filled("mean", {kHidden}, 0.25f);
      b.filled("variance", {kHidden}, 1);
      b.node("BatchNormalization", {last, "scale", "shift", "mean", "variance"}, {"n", "new_mean", "new_variance"})
          .integer("training_mode", 1)
          .real("momentum", 0.9f);
      last = "n";
    }
    b.node("Relu", {last}, {"a"});
    last = "a";
    if (form != Form::kNone) {
      b.floats("ratio", {}, {0.5f});
      b.codes("training", {}, {1}, ::onnx::TensorProto::BOOL);
      b.node("Dropout", {last, "ratio", "training"},
             form == Form::kMaskNamed ? std::vector<std::string>{"o", "o_mask"} : std::vector<std::string>{"o"});
      last = "o";
    }
    b.node("Identity", {dense(b, last, "2", conv ? 4 * kHidden : kHidden, kClasses)}, {"y"});
    b.output("y");
    return b.finish();
  }

  static std::string dense(OnnxBuilder& b, const std::string& x, const std::string& name, int64_t in, int64_t out) {
    b.floats("w" + name, {in, out}, drawn(size_t(in * out), size_t(in)));
    b.floats("b" + name, {out}, drawn(size_t(out), 9));
    b.node("Gemm", {x, "w" + name, "b" + name}, {"h" + name});
    return "h" + name;
  }

  static std::string convolution(OnnxBuilder& b) {
    b.floats("k", {kHidden, 1, 3, 3}, drawn(kHidden * 9, 7));
    b.node("Conv", {"x", "k"}, {"c"});
    b.node("Flatten", {"c"}, {"f"});
    return "f";
  }
};

struct Network {
  std::string name;
  std::vector<uint8_t> file;
  std::vector<uint8_t> plain;  // the network without dropout; empty if batch norm statistics move in any training
  bool images = false;
};

std::vector<Network> networks() {
  const auto onnx = [](Form form, bool batch_norm, bool conv) {
    return Onnx{.form = form, .batch_norm = batch_norm, .conv = conv}.file();
  };
  return {{"keras.h5", keras(false, true), keras(false, false)},
          {"axon.h5", keras(true, true), {}},
          {"older.onnx", onnx(Form::kMaskNamed, false, false), onnx(Form::kNone, false, false)},
          {"newer.onnx", onnx(Form::kMaskAbsent, false, false), onnx(Form::kNone, false, false)},
          {"norm.onnx", onnx(Form::kMaskNamed, true, false), {}},
          {"conv.onnx", onnx(Form::kMaskNamed, false, true), onnx(Form::kNone, false, true), true}};
}

const char* const kPolicies[] = {"",
                                 "mixed_float16",
                                 "mixed_bfloat16",
                                 "axon(params=float32,compute=float16,output=float32)",
                                 "float64",
                                 "int8/static_from_float32",
                                 "int8_from_float32",
                                 "int4_from_float32",
                                 "float8_from_float32",
                                 "float8/16_from_mixed_bfloat16",
                                 "int8/weights_from_float32",
                                 "int8/full_from_float32",
                                 "int8/static_from_float16",
                                 "gptq/4/-1_from_float32",
                                 "awq/4/-1_from_float32"};
const Words kOptions[] = {{}, {"--update", "immediate"}, {"--lora", "2"}, {"--train-last", "1"}, {"--learned-ranges"}};

class Trial {
 public:
  Trial() {
    const auto write = [&](const char* name, ElementType type, std::vector<int64_t> dims, const auto& numbers) {
      NpyArray array = {.type = type, .dims = std::move(dims), .data = {}, .place = name};
      array.data = std::vector<uint8_t>(reinterpret_cast<const uint8_t*>(numbers.data()),
                                        reinterpret_cast<const uint8_t*>(numbers.data() + numbers.size()));
      write_npy(folder_ / name, array);
    };
    write("x.npy", ElementType::kFloat32, {kRows, kIn}, drawn(kRows * kIn, 11));
    write("images.npy", ElementType::kFloat32, {kRows, 1, 4, 4}, drawn(kRows * 16, 12));
    std::vector<int32_t> labels(kRows);
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = int32_t(i % kClasses);
    write("y.npy", ElementType::kInt32, {kRows}, labels);
  }

  void network(const Network& n) {
    path_ = folder_ / n.name;
    write_bytes(path_, n.file);
    data_ = folder_ / (n.images ? "images.npy" : "x.npy");
    for (const char* policy : kPolicies)
      for (const Words& options : kOptions) {
        Words words = options;
        if (*policy != 0) words.insert(words.end(), {"--policy", policy});
        train(words);
      }
    for (const char* unwritable : {"none/o.nacre", "."}) ends_early({"-o", folder_ / unwritable}, "its output");
    ends_early({"-o", out(), "--csv", folder_ / "none/o.csv"}, "its log");
    ends_early({"-o", out(), "--html", folder_ / "none/o.html"}, "its page");
    if (!n.plain.empty()) moves_nothing(n);
  }

  int trained = 0, refused = 0, plain = 0, failed = 0;

 private:
  std::string out() const { return folder_ / "o.nacre"; }

  void fail(const std::string& what) {
    ++failed;
    std::printf("FAILED: %s\n", what.c_str());
  }

  ToolRun tune(const Words& more) const {
    Words words = {"tune", path_, "--loss", "softmax_cross_entropy", "--data", data_, "--labels", folder_ / "y.npy"};
    words.insert(words.end(), {"--epochs", "1", "--batch", "8"});
    words.insert(words.end(), more.begin(), more.end());
    return run_tool(words);
  }

  static std::string text(const std::string& path, const Words& words) {
    std::string all = path;
    for (const std::string& word : words) all += " " + word;
    return all;
  }

  void train(Words words) {
    words.insert(words.end(), {"-o", out()});
    const ToolRun run = tune(words);
    const bool there = std::filesystem::exists(out());
    if (run.exit_code != 0) {
      ++refused;
      if (there || has(run.out, "epoch")) fail(text(path_, words) + " is refused late: " + run.err);
      if (run.exit_code != kUsage && run.exit_code != kUnsupported) fail(text(path_, words) + ": " + run.err);
    } else if (!there) {
      fail(text(path_, words) + " writes nothing");
    } else {
      ++trained;
      if (outputs(0) != outputs(2)) fail(text(path_, words) + ": two runs of the model differ");
    }
    std::filesystem::remove(out());
  }

  void ends_early(const Words& words, const std::string& what) {
    const ToolRun run = tune(words);
    ++refused;
    if (run.exit_code != kIo || has(run.out, "epoch") || std::filesystem::exists(out()))
      fail(path_ + ": " + what + " is not refused before it trains: " + run.err);
  }

  void moves_nothing(const Network& n) {
    const ToolRun run = tune({"--optimizer", "sgd", "--lr", "1e-30", "-o", out()});
    if (run.exit_code != 0) return fail(path_ + ": " + run.err);
    const std::vector<uint8_t> learned = outputs(0);
    const std::string path = folder_ / ("plain_" + n.name);
    write_bytes(path, n.plain);
    const ToolRun converted = run_tool({"convert", path, "-o", out()});
    if (converted.exit_code != 0) return fail(path + ": " + converted.err);
    if (outputs(0) != learned) fail(path_ + ": what is deployed is not the network without dropout");
    else ++plain;
    std::filesystem::remove(out());
  }

  // Returns the outputs for seeded inputs, after `runs` runs of the same program.
  std::vector<uint8_t> outputs(int runs) const {
    const LoadedModel model(out());
    const BoundProgram bound(model, model.infer_program());
    const std::span<std::byte> in = bound.program().input(0);
    const std::vector<float> x = drawn(in.size() / sizeof(float), 13);
    for (int run = 0; run <= runs; ++run) {
      std::memcpy(in.data(), x.data(), x.size() * sizeof(float));
      model.require(bound.program().run());
    }
    const std::span<const std::byte> y = bound.program().output(0);
    return {reinterpret_cast<const uint8_t*>(y.data()), reinterpret_cast<const uint8_t*>(y.data()) + y.size()};
  }

  TemporaryDirectory folder_;
  std::string path_, data_;
};

NACRE_CLAIM(dropout_trains) {
  Trial trial;
  const std::vector<Network> all = networks();
  for (const Network& n : all) trial.network(n);
  if (trial.failed > 0) {
    std::printf("CLAIM dropout_trains NOT SHOWN: %d failures over %zu networks\n", trial.failed, all.size());
    return 1;
  }
  std::printf(
      "CLAIM dropout_trains shown: %zu networks with dropout under %zu policies: %d trainings end with a model of the "
      "same outputs in every run, %d are the network without dropout, all %d refusals come before the first epoch\n",
      all.size(), std::size(kPolicies), trial.trained, trial.plain, trial.refused);
  return 0;
}

}  // namespace
}  // namespace nacre::test
