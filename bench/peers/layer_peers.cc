// Times Nacre's layers beside oneDNN's and XNNPACK's, on one core, in one run.
//
//   layer_peers gemm|convolution [--rounds N] [--filter TEXT] [--kernels NAME] [--json FILE]
//
//   gemm          dense layers of M rows, K inputs and N outputs, in float32, bfloat16, int8 and float8: claim
//                 gemm_roof
//   convolution   the convolutions of ResNet-8 (ic), DS-CNN (kws) and MobileNetV1, in float32 and int8: claim
//                 convolution_peers
//
// A row is one layer in one type. Before the rounds the program chooses how often each contender runs in a round, for
// a burst of kBurst. Then every contender runs once in every round, in an order that rotates. A speed is the time of
// the best peer divided by Nacre's in the same round: the median over the rounds, with quartiles. The best peer is
// the one with the smallest median. The roof is measured in the same run (model/roof.h). Outputs are compared with
// the reference kernels' in float32, int8 and float8, as far as their codes allow. A peer whose output is WRONG is
// timed but cannot be the best one (without VNNI, oneDNN's sums of two int8 products saturate in 16 bits). Nacre's
// int8 rounds like its peers (float_even). Its kernels are those of one set, chosen before the run.
//
// oneDNN uses AMX if the processor has it, unless ONEDNN_MAX_CPU_ISA excludes it. Nacre uses AMX only with --kernels
// amx. The roof is that of Nacre's set.
//
// Exit codes: 0 done, 1 an output of Nacre's is wrong, 2 wrong usage. The output says whether the bars are met; a bar
// that is missed is no failure.
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>

#include "bench/peers/layer_bars.h"
#include "bench/peers/layer_peer.h"
#include "bench_commit.h"
#include "tools/base/error.h"
#include "tools/base/json.h"
#include "tools/files/atomic_file.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/roof.h"

namespace nacre::bench {
namespace {

using tools::Error;
using tools::Json;
using Clock = std::chrono::steady_clock;

constexpr double kBurst = 2e-3;  // seconds

struct Options {
  std::string suite, filter, kernels = "auto", json;
  int rounds = 11;
};

Options parse(int argc, char** argv) {
  Options options;
  const auto value = [&](int i) -> std::string {
    if (i + 1 >= argc) throw Error(tools::kUsage, argv[i], "its value is missing");
    return argv[i + 1];
  };
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--rounds") options.rounds = std::atoi(value(i++).c_str());
    else if (name == "--filter") options.filter = value(i++);
    else if (name == "--kernels") options.kernels = value(i++);
    else if (name == "--json") options.json = value(i++);
    else if (options.suite.empty() && (name == "gemm" || name == "convolution")) options.suite = name;
    else
      throw Error(tools::kUsage, name,
                  "is no option: layer_peers gemm|convolution [--rounds N] [--filter TEXT] "
                  "[--kernels NAME] [--json FILE]");
  }
  if (options.suite.empty()) throw Error(tools::kUsage, "layer_peers", "name a suite: gemm or convolution");
  if (options.rounds < 1) throw Error(tools::kUsage, "--rounds", "is a positive whole number");
  return options;
}

struct Contender {
  std::string name, version;
  std::function<void()> run;
  double apart = 0;  // from the float32 reference, relative to its largest magnitude
  int iterations = 1;
  std::vector<double> seconds = {};  // of one run, by round

  void choose_iterations() {
    for (run(); burst() * iterations < kBurst; iterations *= 2) {
    }
  }
  double burst() const {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < iterations; ++i) run();
    return std::chrono::duration<double>(Clock::now() - start).count() / iterations;
  }
};

double quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  const double at = q * double(values.size() - 1);
  const auto low = size_t(at);
  return values[low] + (at - double(low)) * (values[std::min(low + 1, values.size() - 1)] - values[low]);
}
double median(const std::vector<double>& values) { return quantile(values, 0.5); }

double distance(const std::vector<float>& wanted, const std::vector<float>& found) {
  if (wanted.size() != found.size()) return INFINITY;
  double most = 0, largest = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    most = std::max(most, std::abs(double(wanted[i]) - double(found[i])));
    largest = std::max(largest, double(std::abs(wanted[i])));
  }
  return most / largest;
}

std::vector<float> floats(const std::vector<uint8_t>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

std::vector<uint8_t> magnitudes(std::vector<float> values) {
  for (float& v : values) v = std::abs(v);
  std::vector<uint8_t> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Returns how far a type's outputs may be from the float32 reference, relative to its largest magnitude.
double limit_of(const std::string& type) {
  if (type == "float32") return 1e-4;
  return type == "bfloat16" ? 0x1p-5 : type == "int8" ? 0.05 : 0.15;
}

std::string policy_of(const std::string& type) {
  if (type == "int8") return "int8/static_from_float32";
  return type == "float8" ? "float8_from_float32" : type;
}

class Peers {
 public:
  explicit Peers(const Options& options)
      : options_(options), port_(tools::port_named(options.kernels)), set_(tools::name_of_port(port_)) {}

  int run() {
    fmt::print("nacre {}, {} kernels, commit {}; oneDNN's instructions {}; one core; {} rounds\n", NACRE_VERSION, set_,
               kCommit, onednn_instructions(), options_.rounds);
    tools::print_roofs();
    if (options_.suite == "gemm") gemm();
    else convolutions();
    for (const Bar& bar : options_.suite == "gemm" ? gemm_bars(rows_) : convolution_bars(rows_)) {
      fmt::print("{} {}\n", bar.met ? "MET    " : "NOT MET", bar.text);
      bars_.push_back({{"bar", bar.text}, {"met", bar.met}});
    }
    write();
    return wrong_;
  }

 private:
  void gemm() {
    constexpr int kRows[] = {1, 49, 128, 256, 1024};
    constexpr std::pair<int, int> kSizes[] = {{64, 64}, {128, 128}, {384, 384}, {384, 1536}, {1536, 384}, {1024, 1024}};
    for (const char* type : {"float32", "bfloat16", "int8", "float8"})
      for (const int m : kRows)
        for (const auto& [k, n] : kSizes) row(dense_shape(m, k, n), type, fmt::format("{}x{}x{}", m, k, n), m);
    for (const char* type : {"float32", "bfloat16", "int8", "float8"})
      row(dense_shape(1, 4096, 4096), type, "1x4096x4096", 1);
  }

  void convolutions() {
    for (const char* type : {"float32", "int8"})
      for (const Shape& shape : read_shapes(std::string(NACRE_ROOT) + "/bench/shapes.json")) {
        if (shape.op != "conv2d" && shape.op != "depthwise_conv2d") continue;
        for (const char* network : {"ic", "kws", "mobilenet_v1"})
          if (("," + shape.networks + ",").find(std::string(",") + network + ",") != std::string::npos) {
            row(shape, type, fmt::format("{} {} {}", network, shape.op, shape.text()), 0);
            break;
          }
      }
  }

  void row(const Shape& shape, const std::string& type, const std::string& name, int m) {
    const std::string path = type + " " + name;
    if (path.find(options_.filter) == std::string::npos) return;
    const OneLayer exact(shape, "float32"), layer(shape, policy_of(type), Rounding::kFloatEven);
    LayerProblem problem = {shape, type, floats(exact.input()), exact.weights(), exact.bias(), {}, {}};
    problem.y = floats(exact.bind(port_)->run(exact.input()));
    problem.y_magnitudes = floats(exact.bind(port_)->run(magnitudes(problem.x)));
    const std::unique_ptr<tools::BoundProgram> bound = layer.bind(port_);
    std::vector<Contender> contenders;
    contenders.push_back({"nacre", NACRE_VERSION,
                          [&] {
                            if (!bound->program().run(layer.step(), layer.step() + 1, 0).ok()) std::abort();
                          },
                          distance(problem.y, floats(bound->run(layer.input())))});
    if (type != "float8")
      for (const auto& layers : {onednn_layers(problem), xnnpack_layers(problem)})
        for (const PeerLayer& peer : layers) {
          peer.run();
          const auto& wanted = peer.of_magnitudes ? problem.y_magnitudes : problem.y;
          contenders.push_back({peer.name, peer.version, peer.run, distance(wanted, peer.output())});
        }
    time(contenders);
    report(path, layer, contenders,
           {.type = type,
            .name = name,
            .op = shape.op,
            .m = m,
            .kernel = tools::name_of_kernel(bound->program().kernel(layer.step()))});
  }

  void time(std::vector<Contender>& contenders) const {
    for (Contender& contender : contenders) contender.choose_iterations();
    for (int round = 0; round < options_.rounds; ++round)
      for (size_t i = 0; i < contenders.size(); ++i) {
        Contender& contender = contenders[(i + size_t(round)) % contenders.size()];
        contender.run();  // untimed, because the caches hold the last contender's data
        contender.seconds.push_back(contender.burst());
      }
  }

  void report(const std::string& path, const OneLayer& layer, const std::vector<Contender>& contenders, Row row) {
    const Contender& nacre = contenders[0];
    const Contender* best = nullptr;
    std::string others;
    Json all = Json::array();
    for (const Contender& c : contenders) {
      all.push_back({{"name", c.name}, {"version", c.version}, {"apart", c.apart}, {"seconds", c.seconds}});
      const bool wrong = !(c.apart <= limit_of(row.type));
      if (wrong) fmt::print("WRONG {}: {} is {:.3g} of the largest magnitude from float32\n", path, c.name, c.apart);
      if (&c == &nacre) {
        wrong_ = wrong_ || wrong ? 1 : 0;
        continue;
      }
      others += fmt::format("  {}{} {:.2f}", wrong ? "WRONG " : "", c.name, median(c.seconds) * 1e6);
      if (wrong) continue;
      if (best == nullptr || median(c.seconds) < median(best->seconds)) best = &c;
    }
    const tools::StepWork work = layer.work();
    row.seconds = median(nacre.seconds);
    row.share = tools::least_seconds(tier(), work) / row.seconds;
    row.bytes = work.bytes;
    std::vector<double> speeds;
    for (size_t i = 0; best != nullptr && i < nacre.seconds.size(); ++i)
      speeds.push_back(best->seconds[i] / nacre.seconds[i]);
    std::string speed = "no peer";
    if (best != nullptr) {
      row.best = best->name;
      row.low = quantile(speeds, 0.25), row.speed = median(speeds), row.high = quantile(speeds, 0.75);
      speed = fmt::format("{:.2f}x [{:.2f}, {:.2f}] of {}", row.speed, row.low, row.high, best->name);
    }
    fmt::print("{:<52} {:9.2f} us {:7.1f} Gop/s {:4.0f} % of the roof  {}  ({}; us{})\n", path, row.seconds * 1e6,
               work.operations / row.seconds / 1e9, 100 * row.share, speed, row.kernel, others);
    std::fflush(stdout);
    json_.push_back({{"row", path},
                     {"kernel", row.kernel},
                     {"operations", work.operations},
                     {"bytes", work.bytes},
                     {"share_of_roof", row.share},
                     {"best_peer", row.best},
                     {"speed", {{"low", row.low}, {"median", row.speed}, {"high", row.high}}},
                     {"contenders", all}});
    rows_.push_back(std::move(row));
  }

  x86::Tier tier() const {
    for (uint32_t i = 0; i < uint32_t(x86::Tier::kCount); ++i)
      if (set_ == x86::name(x86::Tier(i))) return x86::Tier(i);
    return x86::Tier::kPortable;
  }

  void write() const {
    if (options_.json.empty()) return;
    const tools::Arithmetic& roof = tools::arithmetic(tier());
    const Json report = {{"suite", options_.suite},
                         {"version", NACRE_VERSION},
                         {"commit", kCommit},
                         {"kernels", set_},
                         {"onednn_instructions", onednn_instructions()},
                         {"rounds", options_.rounds},
                         {"roof", {{"float32", roof.float32}, {"bfloat16", roof.bfloat16}, {"int8", roof.int8}}},
                         {"rows", json_},
                         {"bars", bars_}};
    const std::string text = report.dump(1) + "\n";
    tools::write_file_whole(options_.json, std::vector<uint8_t>(text.begin(), text.end()));
  }

  const Options options_;
  const Port* port_;
  const std::string set_;
  std::vector<Row> rows_;
  Json::Array json_, bars_;
  int wrong_ = 0;
};

// Keeps the program on one core with one OpenMP thread. It restarts the program, because OpenMP reads its variable
// before main.
void alone(char** argv) {
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    setenv("OMP_NUM_THREADS", "1", 1);
    execv("/proc/self/exe", argv);
  }
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(size_t(std::max(0, sched_getcpu())), &cores);
  sched_setaffinity(0, sizeof cores, &cores);
}

}  // namespace
}  // namespace nacre::bench

int main(int argc, char** argv) {
  try {
    const nacre::bench::Options options = nacre::bench::parse(argc, argv);
    nacre::bench::alone(argv);
    return nacre::bench::Peers(options).run();
  } catch (const nacre::tools::Error& error) {
    fmt::print(stderr, "layer_peers: {}\n", error.what());
    return error.code;
  } catch (const std::exception& error) {
    fmt::print(stderr, "layer_peers: {}\n", error.what());
    return 1;
  }
}
