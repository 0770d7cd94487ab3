// Claim: parameters that a file shares, and parameters that merely have equal values, are trained as torch trains
// them.
//
//   losses       50 steps in float64, each within 1e-9 of torch's, relative
//   parameters   after these steps, with the running statistics, within 1e-9 of the largest magnitude in their
//                tensor, or of 1
//   how many     there are as many parameters as in torch
//
// The fifteen networks have fresh batch norms, trained and frozen, whose scale, variance, bias and mean are equal;
// layers, norms and convolutions that are applied twice, beside one that is only equal; a bias of two layers; an
// embedding that is also the output layer's matrix, with and without a bias; a matrix and its transpose; and matrices
// and biases computed from others that are used too (their rows, in another order, joined, repeated, their multiples,
// sums, differences and products, beside numbers of the code). Optimizers are SGD, momentum, Adam and AdamW. Each
// network has the forms in which torch.onnx.export writes it. In evaluation mode it merges equal initializers by
// value, and an Identity stands for each one that is gone. In training mode it merges only those that are one tensor.
// Files, losses and numbers are in tests/peers/tied_parameters.json, written by the script beside it. To show that
// the bound is not idle, each network is also trained from a graph that was imported only to be run, in which
// parameters of one value are one, and matrices of two layers are two. None may come within the bound of the losses.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "tests/claims/claims.h"
#include "tests/claims/keras_tables.h"
#include "tests/differentiate/training_run.h"
#include "tests/project_path.h"
#include "tools/base/error.h"
#include "tools/base/print.h"
#include "tools/base/split_mix64.h"
#include "tools/compile/training.h"
#include "tools/files/npy.h"
#include "tools/importers/importer.h"
#include "tools/passes/passes.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

constexpr double kBound = 1e-9;

std::vector<uint8_t> bytes_of(const std::string& base64) {
  const Bytes bytes = decode_base64(base64);
  return {bytes.begin(), bytes.end()};
}

struct Problem {
  const Json& network;
  int index, steps, batches, batch;

  uint64_t seed(int step) const { return uint64_t(1000 * index + 500 + 2 * (step % batches)); }
  int64_t number(const char* key) const { return network.at(key).get<int64_t>(); }
};

std::vector<float> uniform(uint64_t seed, int64_t count) {
  SplitMix64 random(seed);
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(float(random.next() >> 48) / 32768 - 1);
  return numbers;
}

template <class T>
std::vector<T> integers(uint64_t seed, int64_t count, int64_t below) {
  SplitMix64 random(seed);
  std::vector<T> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(T((random.next() >> 33) % uint64_t(below)));
  return numbers;
}

void write_batch(TrainingRun& run, const Problem& problem, int step) {
  int64_t elements = problem.batch;
  for (const Json& dim : problem.network.at("input")) elements *= dim.get<int64_t>();
  const uint64_t seed = problem.seed(step);
  if (problem.number("ids") > 0) {
    const std::vector<int64_t> ids = integers<int64_t>(seed, elements, problem.number("ids"));
    const std::span<std::byte> to = run.trainer().input(0);
    if (to.size() != ids.size() * sizeof(int64_t)) throw Error(kFailed, "the ids", "have another size");
    std::memcpy(to.data(), ids.data(), to.size());
  } else {
    run.write(0, uniform(seed, elements));
  }
  const int64_t classes = problem.number("classes");
  if (classes > 0) run.write(1, integers<int32_t>(seed + 1, problem.batch, classes));
  else run.write(1, uniform(seed + 1, problem.batch * problem.number("outputs")));
}

TrainingOptions options_of(const Json& network) {
  TrainingOptions training;
  training.loss.kind = network.at("classes").get<int>() > 0 ? Loss::kSoftmaxCrossEntropy : Loss::kSquaredError;
  const std::string optimizer = network.at("optimizer");
  training.optimizer.kind = optimizer == "sgd"        ? Optimizer::kSgd
                            : optimizer == "momentum" ? Optimizer::kMomentum
                            : optimizer == "adam"     ? Optimizer::kAdam
                                                      : Optimizer::kAdamW;
  training.optimizer.epsilon = 1e-7f;
  training.optimizer.weight_decay = optimizer == "adamw" ? 0.125f : 0.0f;
  training.train.frozen_batch_norm = network.at("frozen");
  training.batch_norm_momentum = 0.9f;
  training.unbiased_variance = true;
  return training;
}

std::vector<uint8_t> compiled(const Problem& problem, const std::string& file, bool to_train) {
  Graph graph = import_onnx(bytes_of(file), problem.network.at("name"), {.batch = problem.batch, .train = to_train});
  simplify(graph, to_train ? kSimplifyToTrain : SimplifyOptions{.fold_batch_norm = false});
  CompileOptions compiling;
  compiling.policies = parse_policy_options({.policy = "float64", .set = {}, .file = {}, .only = {}, .except = {}});
  return compile_training(std::move(graph), options_of(problem.network), compiling).bytes;
}

struct Difference {
  double losses = 0, tensors = 0;
  int numbers = 0;
  std::string worst;
};

void compare_tensors(const TrainingRun& run, const Json& expected, Difference& found) {
  for (const Json& tensor : expected) {
    const std::vector<double> numbers = run.numbers(tensor.at("name"));
    const std::vector<double> wanted = tensor.at("numbers");
    if (numbers.size() != wanted.size()) throw Error(kFailed, tensor.at("name"), "has another size");
    double largest = 1;
    for (const double v : wanted) largest = std::max(largest, std::abs(v));
    for (size_t i = 0; i < wanted.size(); ++i) {
      const double difference = std::abs(numbers[i] - wanted[i]) / largest;
      if (!(difference <= found.tensors)) found.tensors = difference, found.worst = tensor.at("name");
    }
    found.numbers += int(wanted.size());
  }
}

size_t parameters_of(const TrainingRun& run) {
  size_t count = 0;
  for (const TensorRecord& r : run.model().model().tensors())
    count += r.region == Region::kState && (r.flags & kTrainable) != 0 ? 1 : 0;
  return count;
}

double losses_apart(TrainingRun& run, const Problem& problem) {
  double worst = 0;
  for (int step = 0; step < problem.steps; ++step) {
    write_batch(run, problem, step);
    run.accumulate();
    const double expected = problem.network.at("losses").at(size_t(step));
    const double difference = std::abs(run.loss() - expected) / std::abs(expected);
    worst = difference <= worst ? worst : difference;  // keeps NaN
    if (!run.commit(problem.network.at("learning_rate")).applied)
      throw Error(kFailed, "step " + std::to_string(step), "was refused");
  }
  return worst;
}

Difference train(const Problem& problem, const std::string& file) {
  TrainingRun run(compiled(problem, file, true));
  const Json& parameters = problem.network.at("parameters");
  if (parameters_of(run) != parameters.size())
    throw Error(
        kFailed, problem.network.at("name"),
        "has " + std::to_string(parameters_of(run)) + " parameters, torch's " + std::to_string(parameters.size()));
  Difference found;
  found.losses = losses_apart(run, problem);
  compare_tensors(run, parameters, found);
  compare_tensors(run, problem.network.at("statistics"), found);
  return found;
}

// Trains a graph that was imported only to be run. Its other parameters must move the losses apart.
bool other_parameters_are_seen(const Problem& problem, const std::string& file) {
  TrainingRun run(compiled(problem, file, false));
  return losses_apart(run, problem) > kBound;
}

int claim(const std::filesystem::path& root) {
  const std::vector<uint8_t> text = read_file((root / "tests/peers/tied_parameters.json").string());
  const Json table = Json::parse(text);
  const auto whole = [&](const char* key) { return table.at(key).get<int>(); };
  std::string missing;
  Difference worst;
  int files = 0, seen = 0;
  for (int i = 0; i < int(table.at("networks").size()); ++i) {
    const Json& network = table.at("networks").at(size_t(i));
    const Problem problem = {network, i + 1, whole("steps"), whole("batches"), whole("batch")};
    const std::string name = network.at("name");
    for (const Json& file : network.at("onnx")) {
      try {
        const Difference d = train(problem, file);
        const bool differs = !(d.losses <= kBound && d.tensors <= kBound);
        std::printf("%-24s losses %8.2g   tensors %8.2g  %s%s\n", name.c_str(), d.losses, d.tensors, d.worst.c_str(),
                    differs ? "   DIFFERS" : "");
        if (differs) missing += (missing.empty() ? "" : "; ") + name + " differs";
        worst.losses = std::max(worst.losses, d.losses);
        worst.tensors = std::max(worst.tensors, d.tensors);
        worst.numbers += d.numbers;
        ++files;
      } catch (const Error& error) {
        missing += (missing.empty() ? "" : "; ") + name + ": " + error.what();
      }
    }
    if (other_parameters_are_seen(problem, network.at("onnx").at(0))) ++seen;
    else missing += (missing.empty() ? "" : "; ") + name + ": other parameters were not seen";
  }
  if (!missing.empty()) {
    std::printf("CLAIM tied_parameters NOT SHOWN: %s\n", missing.c_str());
    return kFailed;
  }
  const std::string torch = table.at("versions").at("torch");
  std::printf(
      "CLAIM tied_parameters shown: %d networks in %d files as torch %s trains them: float64 losses of %d steps at "
      "most %.2g apart, %d "
      "numbers of parameters and statistics %.2g; tied and equal parameters the other way round are seen in %d\n",
      int(table.at("networks").size()), files, torch.c_str(), whole("steps"), worst.losses, worst.numbers,
      worst.tensors, seen);
  return kSuccess;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(tied_parameters) {
  try {
    return nacre::test::claim(nacre::tools::project_path(""));
  } catch (const std::exception& error) {
    std::printf("CLAIM tied_parameters NOT SHOWN: %s\n", error.what());
    return 1;
  }
}
