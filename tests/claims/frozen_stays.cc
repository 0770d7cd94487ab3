// Claim: the parameters that a Keras file freezes stay equal to the byte, and all others train as Keras trains them.
//
//   losses      20 steps in float64, each within 1e-6 of Keras's, relative
//   variables   after these steps, written back into the file: frozen ones byte for byte, others within 1e-6 of the
//               largest magnitude in their tensor, or of 1
//   how many    as many numbers train as in Keras
//
// The networks have frozen layers (models in models, batch norms, wrappers, cells, a backbone) or are recurrent.
// Recurrent ones are written out step by step, with only the file's own parameters. Configurations, variables and
// losses are in tests/peers/frozen_layers.json, written by the script beside it. The bound is not loose: each network
// with frozen layers is also trained with all layers unfrozen, and must miss the bound. Epsilons and momenta of norms
// are float32 here and float64 in Keras, 2^-24 apart; the bound covers this over 20 steps.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/claims/claims.h"
#include "tests/differentiate/training_run.h"
#include "tests/importers/keras_builder.h"
#include "tests/project_path.h"
#include "tests/run_tool.h"
#include "tools/base/error.h"
#include "tools/base/json.h"
#include "tools/base/split_mix64.h"
#include "tools/compile/training.h"
#include "tools/compile/write_back.h"
#include "tools/files/npy.h"
#include "tools/importers/keras/importer.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

constexpr double kLossBound = 1e-6, kVariableBound = 1e-6;

struct FrozenProblem {
  const Json& network;
  int index, steps, batch;

  int64_t numbers(const char* key) const {
    int64_t product = batch;
    for (const Json& dim : network.at(key).elements()) product *= dim.get<int64_t>();
    return product;
  }
};

std::vector<float> draws(uint64_t seed, int64_t count) {
  SplitMix64 random(seed);
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(float(random.next() >> 48) / 32768 - 1);
  return numbers;
}

void write_rows(TrainingRun& run, const FrozenProblem& problem) {
  const uint64_t seed = 1000 * uint64_t(problem.index);
  const int64_t count = problem.numbers("input"), row = count / problem.batch;
  if (const int64_t ids = problem.network.at("ids").get<int64_t>(); ids > 0) {
    SplitMix64 random(seed);
    std::vector<float> numbers;
    for (int64_t i = 0; i < count; ++i) numbers.push_back(float((random.next() >> 33) % uint64_t(ids)));
    run.write(0, numbers);
  } else {
    std::vector<float> x = draws(seed, count);
    const int64_t width = problem.network.at("input").elements().back().get<int64_t>();
    for (int64_t i = 0; i < count && problem.network.at("masked").get<bool>(); ++i) {
      const int64_t n = i / row, t = i % row / width;
      if ((n < 2 && t >= 2) || (n >= 2 && n < 4 && t < 1)) x[size_t(i)] = 0;
    }
    run.write(0, x);
  }
  run.write(1, draws(seed + 1, problem.numbers("output")));
}

std::vector<float> first_numbers(const Json& variable) {
  std::vector<float> numbers;
  for (const Json& n : variable.at("first").elements()) numbers.push_back(float(n.get<int64_t>()) / 1024);
  return numbers;
}

void write_network(const Json& network, const std::string& path) {
  std::vector<KerasVariable> variables;
  for (const Json& v : network.at("variables").elements()) {
    KerasVariable made = {v.at("path").text(), {}, first_numbers(v)};
    for (const Json& dim : v.at("dims").elements()) made.dims.push_back(hsize_t(dim.get<int64_t>()));
    variables.push_back(std::move(made));
  }
  write_bytes(path, keras_archive(network.at("config").text(), variables));
}

struct Trained {
  double losses = 0;     // largest relative difference
  uint64_t numbers = 0;  // numbers that train
  bool freezes = false;
  std::vector<uint8_t> file;
};

Trained train(const FrozenProblem& problem, const std::string& path, bool unfrozen) {
  ImportOptions importing = {.batch = problem.batch, .train = true};
  if (unfrozen) importing.unfreeze = {"all"};
  Graph graph = load_network(path, importing, kSimplifyToTrain);
  const bool adam = problem.network.at("optimizer").text() == "adam";
  TrainingOptions training;
  training.loss.kind = Loss::kSquaredError;
  training.optimizer.kind = adam ? Optimizer::kAdam : Optimizer::kSgd;
  training.optimizer.beta1 = 1 - 0x1p-3f;
  training.optimizer.beta2 = 1 - 0x1p-5f;
  training.optimizer.epsilon = 0x1p-40f;
  CompileOptions compiling;
  compiling.policies = parse_policy_options({.policy = "float64", .set = {}, .file = {}, .only = {}, .except = {}});
  const TrainingModel model = compile_training(std::move(graph), training, compiling);
  TrainingRun run(model.bytes);
  Trained found;
  found.freezes = !model.frozen.names.empty();
  for (const TensorRecord& r : run.model().model().tensors()) {
    uint64_t elements = 1;
    for (int i = 0; i < r.rank; ++i) elements *= uint64_t(r.dims[i]);
    if (r.region == Region::kState && (r.flags & kTrainable) != 0) found.numbers += elements;
  }
  for (int step = 0; step < problem.steps; ++step) {
    write_rows(run, problem);
    run.accumulate();
    const double expected = problem.network.at("losses").at(size_t(step)).get<double>();
    const double difference = std::abs(run.loss() - expected) / std::abs(expected);
    found.losses = difference <= found.losses ? found.losses : difference;  // keeps NaN
    if (!run.commit(adam ? 0x1p-7f : 0x1p-4f).applied)
      throw Error(kFailed, "step " + std::to_string(step), "was refused");
  }
  if (!unfrozen) found.file = write_back({.network = path}, run.model(), run.state()).counts.bytes;
  return found;
}

struct Compared {
  double largest = 0;  // largest difference among numbers that train
  int frozen = 0, trained = 0;
  std::string wrong;
};

void compare(const Trained& trained, const Json& network, Compared& found) {
  const Hdf5File file = read_hdf5(keras::read_archive(trained.file, "written back").weights, "written back", {});
  for (const Json& v : network.at("variables").elements()) {
    const Hdf5Dataset& data = file.datasets.at(v.at("path").text());
    if (v.at("last").elements().empty()) {
      const std::vector<float> first = first_numbers(v);
      if (data.bytes.size() != first.size() * 4 || std::memcmp(data.bytes.data(), first.data(), data.bytes.size()) != 0)
        found.wrong = v.at("path").text() + " moved";
      ++found.frozen;
      continue;
    }
    const std::vector<float> numbers = data.reals();
    double scale = 1, most = 0;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const double expected = v.at("last").at(i).get<double>();
      scale = std::max(scale, std::abs(expected));
      most = std::max(most, std::abs(double(numbers[i]) - expected));
    }
    if (!(most / scale <= kVariableBound)) found.wrong = v.at("path").text() + " is apart";
    found.largest = std::max(found.largest, most / scale);
    ++found.trained;
  }
}

// Returns "" if the network trains as in Keras, else what differs.
std::string judge(const FrozenProblem& problem, const std::string& path, double& losses, Compared& all) {
  write_network(problem.network, path);
  const bool freezes = problem.network.at("freezes").get<bool>();
  const Trained found = train(problem, path, false);
  if (found.numbers != problem.network.at("trained").get<uint64_t>())
    return "trains " + std::to_string(found.numbers) + " numbers";
  losses = std::max(losses, found.losses);
  if (!(found.losses <= kLossBound)) return "has losses " + std::to_string(found.losses) + " apart";
  compare(found, problem.network, all);
  if (!all.wrong.empty()) return all.wrong;
  if (found.freezes && !(train(problem, path, true).losses > kLossBound)) return "unfrozen layers were not seen";
  return found.freezes || !freezes || problem.network.at("name").text().starts_with("batch norm")
             ? ""
             : "is not said to freeze";
}

int claim(const std::string& table_path) {
  const std::vector<uint8_t> text = read_file(table_path);
  const Json table = Json::parse(text);
  const TemporaryDirectory folder;
  std::string missing;
  Compared all;
  double losses = 0;
  int index = 0, freezing = 0;
  for (const Json& network : table.at("networks").elements()) {
    const FrozenProblem problem = {network, ++index, table.at("steps").get<int>(), table.at("batch").get<int>()};
    const std::string name = network.at("name").text();
    std::string why;
    all.wrong.clear();
    try {
      why = judge(problem, folder / (std::to_string(index) + ".keras"), losses, all);
    } catch (const Error& error) {
      why = error.what();
    }
    std::printf("%-44s %s\n", name.c_str(), why.empty() ? "as Keras" : why.c_str());
    if (!why.empty()) missing += (missing.empty() ? "" : "; ") + name + " " + why;
    freezing += network.at("freezes").get<bool>() ? 1 : 0;
  }
  if (!missing.empty()) {
    std::printf("CLAIM frozen_stays NOT SHOWN: %s\n", missing.c_str());
    return kFailed;
  }
  std::printf(
      "CLAIM frozen_stays shown: %d Keras files with frozen layers and %d of recurrent and scaled ones: %d frozen "
      "variables "
      "are the file's to the byte; float64 losses of %d steps at most %.2g from Keras %s, %d trained variables %.2g; "
      "the trained numbers are the file's own\n",
      freezing, index - freezing, all.frozen, table.at("steps").get<int>(), losses,
      table.at("versions").at("keras").text().c_str(), all.trained, all.largest);
  return kSuccess;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(frozen_stays) {
  try {
    return nacre::test::claim(nacre::tools::project_path("tests/peers/frozen_layers.json"));
  } catch (const std::exception& error) {
    std::printf("CLAIM frozen_stays NOT SHOWN: %s\n", error.what());
    return 1;
  }
}
