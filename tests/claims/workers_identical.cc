// Claim: in every tier of kernels that runs here, 1, 2 and 3 workers give the same bytes of outputs and of trained
// state. A run allocates nothing, neither in the kernels nor in the threads (ports/threads).
//
// The networks are those of the shared data, and an encoder under policies whose kernels share work in different
// ways. The work that other threads than the calling one do is counted, so that one thread alone does not show the
// claim.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "engine/nacre.h"
#include "engine/run/places.h"
#include "ports/threads/threads.h"
#include "ports/vector/tiers.h"
#include "tests/claims/encoder_network.h"
#include "tests/claims/killing_allocator.h"
#include "tests/model/networks.h"
#include "tools/base/split_mix64.h"
#include "tools/compile/training.h"
#include "tools/policies/policy_request.h"

namespace nacre::test {
namespace {

constexpr int kMostWorkers = 3, kRuns = 3;

// float32 networks whose layers are long enough to be shared.
constexpr Network kFloat[] = {{"IC float32", "models/mlperf_tiny/pretrainedResnet.tflite", false, 0},
                              {"VWW float32", "models/mlperf_tiny/vww_96_float.tflite", false, 0}};

// Rows and columns that no number of workers divides, in steps that are long enough to be shared. One encoder has
// more columns than rows, the other more rows.
constexpr EncoderShape kEncoders[] = {{.layers = 1, .hidden = 192, .heads = 4, .between = 512, .tokens = 97},
                                      {.layers = 1, .hidden = 72, .heads = 3, .between = 88, .tokens = 289}};
constexpr const char* kPolicies[] = {"float32",
                                     "bfloat16",
                                     "int8_from_float32",
                                     "int8/weights_from_float32",
                                     "int4/32_from_float32",
                                     "float8/current_from_float32"};
// A convolutional network is trained too.
constexpr Network kTrained = {"IC trained", "models/mlperf_tiny/pretrainedResnet.tflite", false, 0};
constexpr const char* kTrainedPolicies[] = {"float32", "mixed_bfloat16", "float8_from_float32"};

constexpr uint64_t kLeastWork = 20'000;  // low, so that programs of small steps share them too

// The threads of a pool. Counts the tiles that threads other than the first run.
struct CountedWorkers {
  const Workers* pool;
  std::atomic<uint64_t> elsewhere = 0;
  Workers workers;

  explicit CountedWorkers(const ThreadPool& threads)
      : pool(threads.workers()), workers{this, threads.count(), &CountedWorkers::run, kLeastWork} {}

  struct Task {
    CountedWorkers& self;
    void (*task)(void*, int, int);
    void* context;
  };
  static void run(void* self, void (*task)(void*, int, int), void* context, int tiles) {
    auto& workers = *static_cast<CountedWorkers*>(self);
    Task counted = {workers, task, context};
    workers.pool->run(
        workers.pool->context,
        [](void* t, int tile, int worker) {
          const Task& one = *static_cast<const Task*>(t);
          if (worker > 0) ++one.self.elsewhere;
          one.task(one.context, tile, worker);
        },
        &counted, tiles);
  }
};

// Waits until all threads have begun, because a sanitizer may allocate when a thread begins, which is no part of a
// run.
void begin_all(const ThreadPool& threads) {
  std::atomic<uint32_t> begun = 0;
  const uint32_t all = (1u << threads.count()) - 1;
  const Workers& workers = *threads.workers();
  for (int i = 0; i < 100'000 && begun != all; ++i)
    workers.run(
        workers.context,
        [](void* seen, int, int worker) {
          static_cast<std::atomic<uint32_t>*>(seen)->fetch_or(1u << worker);
          std::this_thread::sleep_for(std::chrono::microseconds(100));
        },
        &begun, threads.count());
}

struct Found {
  uint64_t runs = 0, differences = 0, refusals = 0, elsewhere = 0, bytes = 0;
};

alignas(64) std::byte memory[16 << 20];

// Returns the outputs of each run, one after another; empty if something is refused.
std::vector<std::byte> outputs_of(std::span<const std::byte> file, const Port& port, const Workers* workers) {
  static const KernelSet* const kBehind[] = {&reference::kernels()};
  const Port* const ports[] = {&port};
  Places places(ports);
  Model model;
  Sizes sizes;
  Memory blocks;
  Program program;
  const Machine machine = {.workers = workers == nullptr ? 1 : uint32_t(workers->count)};
  if (!model.open(file).ok() || !places.measure(model, 0, kBehind, &sizes, machine).ok() ||
      !Memory::cut(memory, sizes, &blocks, places.alignment()).ok() ||
      !places.bind(&program, model, 0, kBehind, blocks, workers).ok())
    return {};
  size_t bytes = 0;
  for (uint32_t i = 0; i < program.output_count(); ++i) bytes += program.output(i).size();
  std::vector<std::byte> outputs(bytes * kRuns);
  size_t at = 0;
  for (int run = 0; run < kRuns; ++run) {
    tools::SplitMix64 random(uint64_t(run) + 1);
    for (uint32_t i = 0; i < program.input_count(); ++i) {
      const std::span<std::byte> input = program.input(i);
      for (size_t k = 0; k < input.size(); ++k)  // codes, or float32 in [0, 1), made by their exponent
        input[k] = std::byte(k % 4 == 3 ? 0x3E : uint8_t(random.next()));
    }
    arm(true);
    const bool ran = program.run().ok();
    arm(false);
    if (!ran) return {};
    for (uint32_t i = 0; i < program.output_count(); ++i) {
      std::memcpy(outputs.data() + at, program.output(i).data(), program.output(i).size());
      at += program.output(i).size();
    }
  }
  return outputs;
}

// Returns the state after some training steps of two micro-batches each; empty if something is refused.
std::vector<std::byte> state_of(std::span<const std::byte> file, const Port& port, const Workers* workers) {
  static const KernelSet* const kBehind[] = {&reference::kernels(), &reference::training_kernels()};
  const Port* const ports[] = {&port};
  Places places(ports);
  Model model;
  Sizes sizes;
  Memory blocks;
  Trainer trainer;
  const Machine machine = {.workers = workers == nullptr ? 1 : uint32_t(workers->count)};
  if (!model.open(file).ok() || !Trainer::measure(model, nullptr, kBehind, &sizes, machine, &places).ok() ||
      !Memory::cut(memory, sizes, &blocks, places.alignment()).ok() ||
      !trainer.bind(model, nullptr, kBehind, blocks, workers, &places).ok() || !trainer.start().ok())
    return {};
  tools::SplitMix64 random(1);
  arm(true);
  bool trained = true;
  Trainer::Report report;
  for (int batch = 0; trained && batch < 2 * kRuns; ++batch) {
    for (uint32_t i = 0; i < trainer.input_count(); ++i)
      for (size_t k = 0; k < trainer.input(i).size(); ++k)  // float32 in [0, 1), made by their exponent
        trainer.input(i)[k] = std::byte(k % 4 == 3 ? 0x3E : uint8_t(random.next()));
    trained = trainer.accumulate().ok() && (batch % 2 == 0 || trainer.commit(0.01f, &report).ok());
  }
  arm(false);
  const std::span<const std::byte> state = trainer.state();
  return trained ? std::vector<std::byte>(state.begin(), state.end()) : std::vector<std::byte>();
}

using BytesOf = std::vector<std::byte>(std::span<const std::byte> file, const Port& port, const Workers* workers);

void try_network(const std::string& name, std::span<const std::byte> file, BytesOf* bytes_of, const Port& port,
                 Found& found) {
  const std::vector<std::byte> alone = bytes_of(file, port, nullptr);
  if (alone.empty()) ++found.refusals, std::printf("FAIL %s, %s: refused\n", name.c_str(), port.name);
  for (int count = 2; count <= kMostWorkers; ++count) {
    const ThreadPool threads(count, {.wake_after_us = 0, .most_rest_us = 0});
    begin_all(threads);
    CountedWorkers counted(threads);
    const std::vector<std::byte> together = bytes_of(file, port, &counted.workers);
    ++found.runs;
    found.bytes += together.size();
    found.elsewhere += counted.elsewhere;
    if (together == alone) continue;
    ++found.differences;
    std::printf("FAIL %s, %s: %d workers give other bytes than 1\n", name.c_str(), port.name, count);
  }
}

tools::CompileOptions under(const char* policy) {
  tools::CompileOptions options;
  options.policies = tools::parse_policy_options({.policy = policy});
  return options;
}
std::vector<uint8_t> trained_encoder(const EncoderShape& shape, const char* policy) {
  tools::TrainingOptions training;
  training.loss.kind = tools::Loss::kSquaredError;
  training.optimizer.kind = tools::Optimizer::kAdam;
  return tools::compile_training(encoder_network(shape, 7), training, under(policy)).bytes;
}

int claim() {
  if (!allocator_works()) {
    std::printf("CLAIM workers_identical NOT SHOWN: the allocator that kills does not\n");
    return 1;
  }
  Found found;
  int networks = 0, missing = 0, tiers = 0;
  each_vector_tier([&](const VectorTier& tier) { tiers += tier.runs_here && !tier.emulated ? 1 : 0; });
  std::vector<Network> all(std::begin(kNetworks), std::end(kNetworks));
  all.insert(all.end(), std::begin(kFloat), std::end(kFloat));
  const auto try_file = [&](const Network& network, const std::string& options, BytesOf* bytes_of) {
    Buffer file;
    std::string why;
    if (!convert(network, &file, &why, options)) {
      ++missing;
      return void(std::printf("%s: %s\n", network.name, why.c_str()));
    }
    ++networks;
    each_vector_tier([&](const VectorTier& tier) {
      if (tier.runs_here && !tier.emulated)
        try_network(std::string(network.name) + options, file.bytes(), bytes_of, *tier.port, found);
    });
  };
  for (const Network& network : all) try_file(network, "", &outputs_of);
  for (const char* policy : kTrainedPolicies)
    try_file(kTrained, std::string(" --train squared_error --optimizer adam --policy ") + policy, &state_of);
  if (networks == 0) return std::printf("no networks: workers_identical is left out\n"), 77;
  const auto try_encoder = [&](const std::string& name, const std::vector<uint8_t>& bytes, BytesOf* bytes_of) {
    const Buffer file(std::as_bytes(std::span(bytes)));
    ++networks;
    each_vector_tier([&](const VectorTier& tier) {
      if (tier.runs_here && !tier.emulated) try_network(name, file.bytes(), bytes_of, *tier.port, found);
    });
  };
  for (const EncoderShape& shape : kEncoders) {
    const std::string name = "encoder of " + std::to_string(shape.tokens) + " tokens";
    for (const char* policy : kPolicies)
      try_encoder(name + ", " + policy, compile(encoder_network(shape, 7), under(policy)).bytes, &outputs_of);
    for (const char* policy : kTrainedPolicies)
      try_encoder(name + " trained, " + policy, trained_encoder(shape, policy), &state_of);
  }
  const bool shown = found.differences == 0 && found.refusals == 0 && found.elsewhere > 0;
  std::printf(
      "CLAIM workers_identical %s: %d networks (%d missing) on %d tiers with 2 and 3 workers, %llu times the bytes of "
      "1 (%llu bytes), %llu differ; %llu shares of work done by further threads; allocations in a run: 0\n",
      shown ? "shown" : "NOT SHOWN", networks, missing, tiers, static_cast<unsigned long long>(found.runs),
      static_cast<unsigned long long>(found.bytes), static_cast<unsigned long long>(found.differences + found.refusals),
      static_cast<unsigned long long>(found.elsewhere));
  return shown ? 0 : 1;
}

}  // namespace
}  // namespace nacre::test

int main() { return nacre::test::claim(); }
