// Times one training step, a micro-batch of gradients and a commit. It runs whole networks under several policies,
// with the reference kernels and with those of every tier that runs here.
//
//   training [DIR_OF_MODELS] [--benchmark_filter=ad/mixed] [--benchmark_min_time=0.1]
//   [--benchmark_out=FILE]
//
// DIR_OF_MODELS holds the float networks of MLPerf Tiny as .tflite (default: models/mlperf_tiny of NACRE_SHARED, or
// of ../shared). The digits sample is always timed. Each network is compiled for training in this process, with
// batches of 16 and Adam. Before a step is timed, the program checks that its loss is finite and that it is applied.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "bench/report.h"
#include "ports/vector/tiers.h"
#include "tools/base/error.h"
#include "tools/compile/training.h"
#include "tools/importers/importer.h"
#include "tools/model/kernel_choice.h"
#include "tools/passes/passes.h"
#include "tools/tuner/tuner.h"

namespace nacre::bench {
namespace {

namespace fs = std::filesystem;
using tools::Error;

constexpr int kBatch = 16;
constexpr float kRate = 1e-3f;
constexpr const char* kPolicies[] = {"float32", "mixed_bfloat16", "mixed_float16", "float8/16_from_float32"};

struct Network {
  const char* name;
  const char* file;  // without ".tflite"
  tools::Loss loss;
};

constexpr Network kNetworks[] = {{"ad", "ad01_fp32", tools::Loss::kSquaredError},
                                 {"ic", "pretrainedResnet", tools::Loss::kSoftmaxCrossEntropy},
                                 {"vww", "vww_96_float", tools::Loss::kSoftmaxCrossEntropy}};

// A trainer that is ready to step. LoadedTrainer refers to the model.
struct Ready {
  std::unique_ptr<tools::LoadedModel> model;
  std::unique_ptr<tools::LoadedTrainer> trainer;
  uint64_t multiply_accumulates = 0;
};

// Converts the network as `nacre convert --train` does.
std::unique_ptr<tools::LoadedModel> convert(const fs::path& network, tools::Loss loss, const char* policy) {
  tools::ImportOptions importing;
  importing.batch = kBatch;
  importing.train = true;
  tools::Graph graph = tools::import_network(network.string(), importing);
  tools::simplify(graph);
  tools::TrainingOptions training;
  training.loss.kind = loss;
  training.optimizer.kind = tools::Optimizer::kAdam;
  tools::CompileOptions compiling;
  compiling.policies = tools::parse_policy_options({.policy = policy, .set = {}, .file = {}, .only = {}, .except = {}});
  return std::make_unique<tools::LoadedModel>(tools::compile_training(graph, training, compiling).bytes,
                                              network.string(), "");
}

// Writes reals in [0, 1); for integers, the label 0.
void write_inputs(const tools::LoadedModel& model, Trainer& trainer) {
  uint32_t feeding = 0;
  model.require(model.model().find(Entry::kGradients, nullptr, &feeding));
  for (uint32_t i = 0; i < trainer.input_count(); ++i) {
    const std::span<std::byte> input = trainer.input(i);
    std::memset(input.data(), 0, input.size());
    const uint32_t tensor = model.model().program(feeding).inputs[i];
    if (model.model().tensors()[tensor].element != ElementType::kFloat32) continue;
    for (size_t k = 0; k + sizeof(float) <= input.size(); k += sizeof(float)) {
      const float v = float(k * 2654435761u >> 8 & 1023) / 1024;
      std::memcpy(input.data() + k, &v, sizeof v);
    }
  }
}

Status step(const Ready& ready, Trainer::Report* report) {
  Trainer& trainer = ready.trainer->trainer();
  write_inputs(*ready.model, trainer);
  NACRE_TRY(trainer.accumulate());
  return trainer.commit(kRate, report);
}

Ready make_ready(const fs::path& network, tools::Loss loss, const char* policy, const Port* port) {
  Ready ready;
  ready.model = convert(network, loss, policy);
  ready.trainer = std::make_unique<tools::LoadedTrainer>(*ready.model, tools::Ports{port});
  Sizes sizes;
  const std::vector<const KernelSet*> kernels = tools::kernels_of_target("");
  ready.model->require(Trainer::measure(ready.model->model(), nullptr, kernels, &sizes));
  ready.multiply_accumulates = sizes.work;
  Trainer::Report report;
  for (int attempt = 0; attempt < 32 && !report.applied; ++attempt) ready.model->require(step(ready, &report));
  if (!report.applied || !std::isfinite(report.loss))
    throw Error(tools::kFailed, network.string(), fmt::format("does not train in {}", policy));
  return ready;
}

void time(benchmark::State& state, const Ready& ready) {
  for (auto _ : state) {
    const Status status = step(ready, nullptr);
    if (!status.ok()) return state.SkipWithError(sentence(status.code));
    benchmark::ClobberMemory();
  }
  set_rate(state, "MAC/s", double(ready.multiply_accumulates));
}

int time_networks(int argc, char** argv) {
  const fs::path folder = models_folder(argc, argv);
  std::vector<const Port*> ports = {nullptr};
  each_vector_tier([&](const VectorTier& tier) {
    if (tier.runs_here && !tier.emulated) ports.push_back(tier.port);
  });
  const auto register_network = [&](const std::string& name, const fs::path& file, tools::Loss loss) {
    for (const char* policy : kPolicies)
      for (const Port* port : ports) {
        const std::string types = std::string(policy).substr(0, std::string_view(policy).find('/'));
        const std::string path = fmt::format("train/{}/{}/{}", name, types, tools::name_of_port(port));
        // Made only when the benchmark runs, because a filter skips most of them.
        add(path, [=](benchmark::State& state) { time(state, make_ready(file, loss, policy, port)); });
      }
  };
  register_network("digits", project_root() / "tools" / "samples" / "digits.onnx", tools::Loss::kSoftmaxCrossEntropy);
  if (fs::is_directory(folder)) {
    for (const Network& n : kNetworks) register_network(n.name, folder / (std::string(n.file) + ".tflite"), n.loss);
  } else if (argc > 1) {
    throw Error(tools::kIo, folder.string(), "is no directory");
  } else {
    fmt::print(stderr, "{} is not there: only the sample is timed\n", folder.string());
  }
  return run_benchmarks();
}

}  // namespace
}  // namespace nacre::bench

int main(int argc, char** argv) {
  if (!nacre::bench::initialize(&argc, argv)) return nacre::tools::kUsage;
  try {
    return nacre::bench::time_networks(argc, argv);
  } catch (const nacre::tools::Error& error) {
    fmt::print(stderr, "training: {}\n", error.what());
    return error.code;
  }
}
