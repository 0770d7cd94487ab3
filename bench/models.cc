// Times one inference of whole networks, with the reference kernels and with those of every tier that runs here.
//
//   models [DIR_OF_MODELS] [--benchmark_filter=kws] [--benchmark_min_time=0.1]
//   [--benchmark_out=FILE]
//
// DIR_OF_MODELS holds the MLPerf Tiny networks as .tflite (default: models/mlperf_tiny of NACRE_SHARED, or of
// ../shared). The digits sample is always timed. Each network is converted in this process, bound, run and checked
// before it is timed. It is checked against golden outputs if there are any (golden/tflite beside models/), else for
// finite numbers. An inference includes copying the input into the arena.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "bench/report.h"
#include "ports/vector/tiers.h"
#include "tools/base/error.h"
#include "tools/graph/graph.h"
#include "tools/importers/importer.h"
#include "tools/model/golden.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/program_cost.h"
#include "tools/model/writer.h"
#include "tools/passes/passes.h"

namespace nacre::bench {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;
using tools::Error;

struct Network {
  const char *name, *types, *file;  // without ".tflite"
};

constexpr Network kNetworks[] = {
    {"ad", "int8", "ad01_int8"},
    {"ad", "float32", "ad01_fp32"},
    {"kws", "int8", "kws_ref_model"},
    {"kws", "hybrid", "kws_ref_model_float32"},
    {"ic", "int8", "pretrainedResnet_quant"},
    {"ic", "float32", "pretrainedResnet"},
    {"vww", "int8", "vww_96_int8"},
    {"vww", "float32", "vww_96_float"},
    {"str_ww", "int8", "str_ww_ref_model"},
};

// A network that is ready to run. BoundProgram refers to the model.
struct Ready {
  std::unique_ptr<tools::LoadedModel> model;
  std::unique_ptr<tools::BoundProgram> bound;
  Bytes input;
  uint64_t multiply_accumulates = 0;
  std::string checked;  // what the outputs were compared with
};

// Converts the network with the passes of `nacre convert`.
std::unique_ptr<tools::LoadedModel> convert(const fs::path& network) {
  tools::Graph graph = tools::import_network(network.string());
  tools::simplify(graph);
  tools::apply_policy(graph);
  tools::fuse(graph);
  const tools::Target target;
  tools::schedule(graph, target);
  tools::plan_memory(graph, target);
  tools::check(graph);
  const tools::ProgramSource source = {.graph = &graph};
  return std::make_unique<tools::LoadedModel>(tools::write_model({&source, 1}), network.string(), "");
}

std::optional<Bytes> read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return Bytes{std::istreambuf_iterator<char>(file), {}};
}

void require_finite(const tools::LoadedModel& model, const Bytes& outputs, const std::string& place) {
  for (const uint32_t id : model.model().program(0).outputs) {
    if (model.model().tensors()[id].element != ElementType::kFloat32) continue;
    for (size_t i = 0; i + sizeof(float) <= outputs.size(); i += sizeof(float)) {
      float value;
      std::memcpy(&value, outputs.data() + i, sizeof value);
      if (!std::isfinite(value)) throw Error(tools::kFailed, place, "gives numbers that are not finite");
    }
  }
}

// Runs once and compares the outputs with the golden ones. Integers must be equal to the byte; float32 may differ by
// kFloatTolerance of the largest magnitude.
void check_result(Ready& ready, const std::optional<Bytes>& golden, const std::string& place) {
  const Bytes outputs = ready.bound->run(ready.input);
  require_finite(*ready.model, outputs, place);
  ready.checked = "finite";
  if (!golden) return;
  if (golden->size() != outputs.size()) throw Error(tools::kFailed, place, "the golden output has another size");
  const tools::Difference d = tools::difference(*ready.model, 0, *golden, outputs);
  if (!d.within(tools::kFloatTolerance))
    throw Error(tools::kFailed, place,
                fmt::format("differs from the golden output: {} bytes, {:.3g} relative", d.bytes, d.largest));
  ready.checked = "golden";
}

Ready make_ready(const fs::path& network, const fs::path& golden, const Port* port) {
  Ready ready;
  ready.model = convert(network);
  ready.bound = std::make_unique<tools::BoundProgram>(*ready.model, 0, port);
  ready.multiply_accumulates = tools::statistics(*ready.model, 0).multiply_accumulates;
  const std::string stem = network.stem().string() + ".s1.";
  const std::optional<Bytes> input = read(golden / (stem + "in0.bin")), output = read(golden / (stem + "out0.bin"));
  ready.input = input && output ? *input : tools::seeded_inputs(*ready.model, 0, 1);
  if (ready.input.size() != ready.bound->program().input(0).size())
    throw Error(tools::kFailed, network.string(), "the golden input has another size than the network's");
  check_result(ready, input && output ? output : std::nullopt, network.string());
  return ready;
}

void time(benchmark::State& state, const Ready& ready) {
  const Program& program = ready.bound->program();
  for (auto _ : state) {
    std::memcpy(program.input(0).data(), ready.input.data(), ready.input.size());
    const Status status = program.run();
    if (!status.ok()) return state.SkipWithError(sentence(status.code));
    benchmark::ClobberMemory();
  }
  set_rate(state, "MAC/s", double(ready.multiply_accumulates));
}

int time_networks(int argc, char** argv) {
  const fs::path folder = models_folder(argc, argv), golden = folder / ".." / ".." / "golden" / "tflite";
  std::vector<std::shared_ptr<Ready>> networks;
  std::vector<const Port*> ports = {nullptr};
  each_vector_tier([&](const VectorTier& tier) {
    if (tier.runs_here && !tier.emulated) ports.push_back(tier.port);
  });
  const auto register_network = [&](const std::string& types, const std::string& name, const fs::path& file) {
    for (const Port* port : ports) {
      const std::string path = fmt::format("infer/{}/{}/{}", types, tools::name_of_port(port), name);
      networks.push_back(std::make_shared<Ready>(make_ready(file, golden, port)));
      fmt::print("checked {} ({})\n", path, networks.back()->checked);
      add(path, [ready = networks.back()](benchmark::State& state) { time(state, *ready); });
    }
  };
  if (!fs::is_directory(folder)) {
    if (argc > 1) throw Error(tools::kIo, folder.string(), "is no directory");
    fmt::print(stderr, "{} is not there: only the sample is timed\n", folder.string());
  } else {
    for (const Network& n : kNetworks) register_network(n.types, n.name, folder / (std::string(n.file) + ".tflite"));
  }
  register_network("float32", "digits", project_root() / "tools" / "samples" / "digits.onnx");
  fmt::print("\n");
  return run_benchmarks();
}

}  // namespace
}  // namespace nacre::bench

int main(int argc, char** argv) {
  if (!nacre::bench::initialize(&argc, argv)) return nacre::tools::kUsage;
  try {
    return nacre::bench::time_networks(argc, argv);
  } catch (const nacre::tools::Error& error) {
    fmt::print(stderr, "models: {}\n", error.what());
    return error.code;
  }
}
