// Claim: the port of XNNPACK runs networks in the caller's memory and gives the reference's results.
//
//   extremes   int8 products whose scales and biases have every size, also 0 and negative, equal the reference's to
//              the bit
//   networks   int8 networks equal the reference's to the bit, at every number of rows; float networks are within
//              1e-5 of the largest magnitude
//   armed      malloc, its relatives and operator new end the process while a program is run and unbound
//   threads    three threads at a time bind and run
//   foreign    if another library has given XNNPACK its allocator, there is no port
//
// XNNPACK allocates only while steps are prepared, before the allocator is armed.
#include "ports/xnnpack/xnnpack_port.h"

#include <sys/wait.h>
#include <unistd.h>
#include <xnnpack.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "engine/run/places.h"
#include "tests/cases.h"
#include "tests/claims/killing_allocator.h"
#include "tests/guarded_step.h"
#include "tests/model/execute.h"
#include "tests/model/networks.h"
#include "tests/one_step.h"

namespace nacre::test {
namespace {

using Bytes = std::vector<std::byte>;

int failures = 0;

bool that(bool holds, const std::string& what) {
  if (!holds) ++failures, std::printf("FAIL %s\n", what.c_str());
  return holds;
}

// ---- Extremes ----

const KernelEntry* reference_of(const char* name) {
  for (const reference::NamedEntry& named : reference::list())
    if (std::strcmp(named.name, name) == 0) return named.entry;
  return nullptr;
}

double between(Random& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

float random_scale(Random& random) {
  constexpr float kOdd[] = {0.0f, -0.25f, 1e-40f, 256.0f, 1e30f, 1.0f, 0.99999994f, 255.99998f, INFINITY, NAN};
  if (random() % 8 == 0) return kOdd[random() % std::size(kOdd)];
  return float(std::exp2(between(random, -30, 8)));
}

// Replaces operands 2 (bias) and 3 (scale) of a random case by ones that a network would not have.
int try_extremes(int cases) {
  constexpr int kBias = 2, kScale = 3;
  int tried = 0;
  for (const char* name : {"kDenseI8FloatEven", "kConv2dI8FloatEven", "kDepthwiseConv2dI8FloatEven"}) {
    const auto list = xnnpack::list();
    const auto found =
        std::ranges::find_if(list, [&](const auto& named) { return std::strcmp(named.name, name) == 0; });
    const KernelEntry &entry = *found->entry, &reference = *reference_of(name);
    for (int i = 0; i < cases; ++i) {
      Random random(uint64_t(i) + 1);
      random.lanes = 16;
      const Case made = random_case(entry, random);
      std::vector<Array> inputs = random_inputs(made, random);
      const bool one_kind = random() % 2 == 0;  // else a single odd channel leaves the step to the reference
      const float scale = random_scale(random);
      for (int64_t k = 0; k < inputs[kScale].elements(); ++k)
        inputs[kScale].set(k, one_kind ? scale * (1 - float(k % 7) / 16) : random_scale(random));
      const double most = std::exp2(between(random, 4, 31));
      for (int64_t k = 0; inputs[kBias].present() && k < inputs[kBias].elements(); ++k)
        inputs[kBias].set(k, std::floor(between(random, -most, most - 1)));
      const Execution run =
          execute_guarded(entry, made.words, inputs, Beside::kBack, true, -1, xnnpack::port()->tail_bytes);
      if (run.code == Code::kNoKernel) continue;
      ++tried;
      that(run.code == Code::kOk && run.outputs[0].bytes == execute(reference, made.words, inputs).outputs[0].bytes,
           std::string(name) + " seed " + std::to_string(i + 1) + ": " + text(made));
    }
  }
  return tried;
}

// ---- Networks ----

struct Run {
  Model model;
  Sizes sizes;
  const Port* ports[1];
  Places places{ports};
  Program program;
  std::vector<std::byte> memory;

  explicit Run(const Port* port) : ports{port} {}

  bool bind(const Buffer& file) {
    Memory blocks;
    if (!model.open(file.bytes()).ok() || !places.measure(model, 0, reference_kernels(), &sizes).ok()) return false;
    const size_t alignment = places.alignment();
    memory.resize(size_t(sizes.total(uint32_t(alignment))) + alignment);
    const size_t skipped = alignment - reinterpret_cast<uintptr_t>(memory.data()) % alignment;
    return Memory::cut(std::span(memory).subspan(skipped), sizes, &blocks, uint32_t(alignment)).ok() &&
           places.bind(&program, model, 0, reference_kernels(), blocks).ok();
  }
  void write(uint64_t seed) {
    Random random(seed);
    for (uint32_t i = 0; i < program.input_count(); ++i) {
      const std::span<std::byte> x = program.input(i);
      const bool real = model.tensors()[program.view().inputs[i]].element == ElementType::kFloat32;
      for (size_t k = 0; k < x.size(); k += real ? 4 : 1) {
        const float value = float(between(random, 0, 1));
        if (real) std::memcpy(&x[k], &value, sizeof value);
        else x[k] = std::byte(random());
      }
    }
  }
  bool is_real() const { return model.tensors()[program.view().outputs[0]].element == ElementType::kFloat32; }
};

bool same(std::span<const std::byte> a, std::span<const std::byte> b, bool real) {
  if (!real) return std::ranges::equal(a, b);
  const auto value = [](std::span<const std::byte> from, size_t i) {
    float v;
    std::memcpy(&v, from.data() + 4 * i, sizeof v);
    return v;
  };
  float largest = 0, error = 0;
  for (size_t i = 0; i < b.size() / 4; ++i) {
    largest = std::max(largest, std::abs(value(b, i)));
    error = std::max(error, std::abs(value(a, i) - value(b, i)));
  }
  return error <= 1e-5f * largest;
}

bool compare(const std::string& name, const Buffer& file) {
  Run on_port(xnnpack::port()), host(nullptr);
  if (!that(on_port.bind(file) && host.bind(file), name + ": is bound")) return false;
  std::printf("%s: %llu bytes prepared, for a file of %zu\n", name.c_str(),
              static_cast<unsigned long long>(on_port.sizes.bytes[kPrepared]), file.size());
  const uint32_t batch = on_port.program.view().batch;
  for (uint32_t rows = batch; rows >= 1; --rows) {
    on_port.write(rows), host.write(rows);
    arm(true);
    const bool ran = on_port.program.run_rows(rows).ok();
    arm(false);
    if (!that(ran && host.program.run_rows(rows).ok(), name + ": runs")) return false;
    const std::span<const std::byte> found = on_port.program.output(0), expected = host.program.output(0);
    const size_t bytes = found.size() / batch * rows;
    that(same(found.first(bytes), expected.first(bytes), host.is_real()),
         name + ": the reference's result, of " + std::to_string(rows) + " rows");
  }
  arm(true);
  on_port.program.unbind();
  arm(false);
  return true;
}

// Runs in a child process, because the first allocator stays.
bool yields_to_a_foreign_allocator() {
  const pid_t child = fork();
  if (child == 0) _exit(xnn_initialize(nullptr) == xnn_status_success && xnnpack::port() == nullptr ? 0 : 1);
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int claim() {
  that(yields_to_a_foreign_allocator(), "there is no port over a foreign allocator");
  if (xnnpack::port() == nullptr) {
    std::printf("CLAIM xnnpack_port not shown: the library does not run here\n");
    return 77;
  }
  const int extremes = try_extremes(2000);
  const uint64_t left = xnnpack::steps_left_to_reference();
  that(left > 0 && left < uint64_t(extremes), "extremes are on both sides of what XNNPACK takes");
  std::printf("extremes: %d steps, of which the reference ran %llu\n", extremes, static_cast<unsigned long long>(left));

  int networks = 0;
  Buffer last;
  for (const Network& network : kNetworks)
    for (const char* options : {"--rounding float_even", "--rounding float_even --batch 3"}) {
      Buffer file;
      std::string why;
      if (!convert(network, &file, &why, options)) {
        std::printf("%s %s: %s\n", network.name, options, why.c_str());
        continue;
      }
      networks += compare(network.name + std::string(" ") + options, file);
      last = file;
    }
  that(xnnpack::steps_left_to_reference() == left, "no step of a network is left to the reference for its scales");

  bool good[3] = {};
  std::vector<std::thread> threads;
  if (networks > 0) {
    for (bool& each : good)
      threads.emplace_back([&] {
        each = true;
        for (int i = 0; i < 10; ++i) {
          Run on_port(xnnpack::port()), host(nullptr);
          each = each && on_port.bind(last) && host.bind(last);
          if (!each) return;
          on_port.write(1), host.write(1);
          each = on_port.program.run().ok() && host.program.run().ok() &&
                 same(on_port.program.output(0), host.program.output(0), host.is_real());
          on_port.program.unbind();
        }
      });
    for (std::thread& thread : threads) thread.join();
    that(std::ranges::all_of(good, [](bool each) { return each; }), "three threads bind and run");
  }
  that(xnnpack::refused_allocations() == 0, "XNNPACK allocates only while a step is prepared");
  std::printf("CLAIM xnnpack_port %s: %d int8 steps to the bit; %d networks, their runs with an allocator that kills\n",
              failures == 0 ? "shown" : "NOT shown", extremes, networks);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace nacre::test

int main() { return nacre::test::claim(); }
