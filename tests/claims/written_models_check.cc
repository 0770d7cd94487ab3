// Claim: every model that convert, tune and export write passes `nacre check`. If they write no model, they refuse in
// one sentence.
//
// Random networks (random_files.h) go through the tool as a user calls it. They are converted under policies,
// calibrated, given golden pairs, made to train, tuned and exported. Each command must end in one of two ways:
//
//   It ends with 0, and `nacre check` of the model that it wrote ends with 0.
//   It ends with a documented code, leaves no file, and says what is wrong and where in its own words. The sentence
//   tells of no defect of the tool, no internal error and no word of a library; a limit is said as a limit.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "tests/claims/claims.h"
#include "tests/claims/random_files.h"
#include "tests/run_tool.h"
#include "tests/sanitized.h"
#include "tools/files/npy.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

constexpr const char* kPolicies[] = {"float32",
                                     "float16",
                                     "bfloat16",
                                     "mixed_float16",
                                     "mixed_bfloat16",
                                     "float64",
                                     "int8_from_float32",
                                     "int8/weights_from_float32",
                                     "int4/4_from_float32",
                                     "float8_from_float32"};
constexpr const char* kStatic[] = {"int8/static_from_float32", "float8_from_float32"};
// Words that no message about a network may contain, however strange the network is.
constexpr const char* kForbidden[] = {
    "defect",         "internal error",   "has no place for", "is not in the program", "libprotobuf",
    "json.exception", "terminate called", "runtime error:",   "AddressSanitizer"};

struct Counts {
  int written = 0, refused = 0, failed = 0;
  std::map<std::string, int> by_command;
};

class Judge {
 public:
  // Runs a command that must write `model`. Returns true if it did, and the model passes check.
  bool run(const std::string& what, const std::vector<std::string>& arguments, const std::string& model) {
    std::error_code ignored;
    std::filesystem::remove(model, ignored);
    const ToolRun made = run_tool(arguments);
    const bool exists = std::filesystem::exists(model);
    if (made.exit_code != 0) {
      refused(what, arguments, made, exists);
      return false;
    }
    const ToolRun checked = run_tool({"check", model});
    if (!exists || checked.exit_code != 0) {
      fail(what, arguments, exists ? "check: " + checked.err : "nothing was written");
      return false;
    }
    ++counts_.written;
    ++counts_.by_command[arguments[0]];
    return true;
  }

  void fail(const std::string& what, const std::vector<std::string>& arguments, const std::string& why) {
    if (++counts_.failed > 20) return;
    std::printf("%s:", what.c_str());
    for (const std::string& a : arguments) std::printf(" %s", a.c_str());
    std::printf("\n  %s\n", why.c_str());
  }

  const std::string& said() const { return said_; }
  const Counts& counts() const { return counts_; }

 private:
  void refused(const std::string& what, const std::vector<std::string>& arguments, const ToolRun& made, bool exists) {
    said_ = made.err;
    ++counts_.refused;
    if (made.exit_code < 1 || made.exit_code > 5)
      fail(what, arguments, "ended by " + std::to_string(made.signal) + ": " + made.err);
    if (exists) fail(what, arguments, "left a file: " + made.err);
    // Notices may come before the sentence.
    const size_t sentence = made.err.starts_with("nacre: ") ? 0 : made.err.find("\nnacre: ");
    if (sentence == std::string::npos || made.err.find(": ", sentence + 8) == std::string::npos)
      fail(what, arguments, "no sentence: " + made.err);
    for (const char* words : kForbidden)
      if (made.err.find(words) != std::string::npos) fail(what, arguments, made.err);
    for (const char c : made.err)
      if ((static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7F)
        return fail(what, arguments, "control codes: " + made.err);
  }

  Counts counts_;
  std::string said_;
};

template <class T>
NpyArray array_of(ElementType type, std::vector<int64_t> dims, const std::vector<T>& data) {
  NpyArray array = {.type = type, .dims = std::move(dims), .data = {}};
  array.data.resize(data.size() * sizeof(T));
  std::memcpy(array.data.data(), data.data(), array.data.size());
  return array;
}

void write_samples(SplitMix64& random, const RandomFile& file, const std::string& x, const std::string& labels) {
  constexpr int64_t kRows = 6;
  std::vector<int64_t> dims = file.sample;
  dims.insert(dims.begin(), kRows);
  int64_t count = 1;
  for (const int64_t d : dims) count *= d;
  std::vector<float> data;
  for (int64_t i = 0; i < count; ++i) data.push_back(float(random.below(2001)) / 1000 - 1);
  write_npy(x, array_of(ElementType::kFloat32, dims, data));
  std::vector<int64_t> classes;
  for (int64_t i = 0; i < kRows; ++i)
    classes.push_back(int64_t(random.below(uint64_t(std::max<int64_t>(1, file.classes)))));
  write_npy(labels, array_of(ElementType::kInt64, {kRows}, classes));
}

class WrittenModels {
 public:
  explicit WrittenModels(int files) : files_(files) {}

  void run() {
    using Make = RandomFile (*)(SplitMix64&);
    constexpr Make kKinds[] = {&random_float_onnx, &random_float_onnx, &random_quantized_onnx, &random_tflite,
                               &random_sizes};
    for (int i = 0; i < files_; ++i) {
      SplitMix64 random{uint64_t(i)};
      const RandomFile file = kKinds[i % std::size(kKinds)](random);
      through(random, file, "seed " + std::to_string(i) + ", " + file.text);
    }
    beyond_limits();
  }

  int report() const {
    const Counts& c = judge_.counts();
    const bool shown = c.failed == 0 && c.written > files_ / 3 && c.refused > files_ / 10 && limits_ > 4 &&
                       c.by_command.contains("tune") && c.by_command.contains("export");
    if (!shown) {
      std::printf(
          "CLAIM written_models_check NOT SHOWN: %d of %d commands went wrong (%d models written, %d refusals, %d "
          "limits)\n",
          c.failed, c.written + c.refused, c.written, c.refused, limits_);
      return 1;
    }
    std::printf("CLAIM written_models_check shown: %d files, %d models written (", files_, c.written);
    const char* comma = "";
    for (const auto& [command, count] : c.by_command)
      std::printf("%s%s %d", comma, command.c_str(), count), comma = ", ";
    std::printf("), all pass check; %d refusals, each one sentence, none of a defect; %d limits said as limits\n",
                c.refused, limits_);
    return 0;
  }

 private:
  void through(SplitMix64& random, const RandomFile& file, const std::string& what) {
    const std::string network = folder_ / "network", x = folder_ / "x.npy", labels = folder_ / "y.npy",
                      model = folder_ / "m.nacre";
    write_bytes(network, file.bytes);
    std::vector<std::string> convert = {"convert", network, "-o", model};
    if (random.below(3) == 0) convert.insert(convert.end(), {"--golden", "2"});
    judge_.run(what, convert, model);
    convert.resize(4);
    convert.insert(convert.end(), {"--policy", kPolicies[random.below(std::size(kPolicies))]});
    judge_.run(what, convert, model);
    if (file.sample.empty()) return;
    write_samples(random, file, x, labels);
    convert.resize(4);
    convert.insert(convert.end(), {"--policy", kStatic[random.below(std::size(kStatic))], "--calibrate", x});
    judge_.run(what, convert, model);
    if (file.classes > 0) train(random, what, network, model);
  }

  void train(SplitMix64& random, const std::string& what, const std::string& network, const std::string& model) {
    const std::string x = folder_ / "x.npy", labels = folder_ / "y.npy", checkpoint = folder_ / "run",
                      tuned = folder_ / "tuned.nacre";
    const std::string rate = random.below(3) == 0 ? "1e30" : "0.01";
    const bool trains = judge_.run(what, {"convert", network, "-o", model, "--train", "softmax_cross_entropy"}, model);
    std::error_code ignored;
    std::filesystem::remove_all(checkpoint, ignored);
    std::filesystem::create_directory(checkpoint);
    const std::string& trained = trains && random.below(2) == 0 ? model : network;
    std::vector<std::string> tune = {"tune", trained, "--data",       x,          "--labels", labels, "--epochs", "2",
                                     "--lr", rate,    "--checkpoint", checkpoint, "-o",       tuned};
    if (trained == network) tune.insert(tune.end(), {"--loss", "softmax_cross_entropy", "--batch", "3"});
    judge_.run(what, tune, tuned);
    if (trained == model) judge_.run(what, {"export", model, "--checkpoint", checkpoint, "-o", tuned}, tuned);
  }

  void beyond_limits() {
    const std::string network = folder_ / "network", model = folder_ / "m.nacre";
    for (const BeyondLimit& limit : files_beyond_limits()) {
      write_bytes(network, limit.file.bytes);
      const std::vector<std::string> arguments = {"convert", network, "-o", model, "--golden", "1"};
      if (judge_.run(limit.file.text, arguments, model)) judge_.fail(limit.file.text, arguments, "was written");
      else if (judge_.said().find(limit.said) == std::string::npos)
        judge_.fail(limit.file.text, arguments, "not said: " + judge_.said());
      else ++limits_;
    }
  }

  int files_, limits_ = 0;
  TemporaryDirectory folder_;
  Judge judge_;
};

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(written_models_check) {
  const bool slow = nacre::test::sanitized() || std::getenv("NACRE_ANY_SPEED") != nullptr;
  nacre::test::WrittenModels claim(count > 1 ? std::atoi(arguments[1]) : slow ? 100 : 300);
  claim.run();
  return claim.report();
}
