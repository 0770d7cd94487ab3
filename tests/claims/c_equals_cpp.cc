// Claim c_equals_cpp: a C program runs what a C++ program runs. nacre_program_bind_with, Program::bind and Places
// bind each of four networks, with the fastest kernels of this machine on one thread.
//
//   steps    nacre_step_info names the same kernel and packed operands as C++, step by step
//   memory   nacre_sizes.total bytes hold a run with packed weights. nacre_sizes.unpacked bytes hold it without them,
//            and one byte less is refused
//   bytes    outputs are the same
//   time     if a run takes more than 50 us, C takes at most 1.05 times as long as C++. Both run in turns in this
//            process, and the fastest runs are compared, so that other work of the machine does not decide
//
//   c_equals_cpp [SECONDS]   for the times of each network [5]
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "engine/nacre_c.h"
#include "tests/claims/claims.h"
#include "tests/model/network_runs.h"
#include "tests/project_path.h"
#include "tests/sanitized.h"
#include "tools/base/error.h"
#include "tools/compile/compile.h"
#include "tools/compile/export.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/loaded_model.h"
#ifdef __aarch64__
#include "ports/arm/arm_c.h"
#define NACRE_FAST_KERNELS nacre_arm_kernels(nacre_arm_best())
#else
#include "ports/x86/x86_c.h"
#define NACRE_FAST_KERNELS nacre_x86_kernels(nacre_x86_best())
#endif

namespace nacre::test {
namespace {

using tools::AlignedBytes;
using tools::BoundProgram;
using tools::LoadedModel;

constexpr const char* kFiles[] = {"mlperf_tiny/kws_ref_model_float32.tflite", "mlperf_tiny/vww_96_float.tflite",
                                  "mlperf_tiny/pretrainedResnet_quant.tflite", "mlperf_tiny/vww_96_int8.tflite"};
constexpr double kLeastMicroseconds = 50, kMostRatio = 1.05;

struct Tally {
  int networks = 0, timed = 0;
  uint64_t steps = 0, packed = 0, failures = 0;
  double slowest = 0;  // the largest ratio

  bool that(bool holds, const std::string& what) {
    if (!holds) ++failures, std::printf("FAIL %s\n", what.c_str());
    return holds;
  }
};

using Fill = std::function<void(uint32_t input, std::span<std::byte> bytes)>;

// The handles and memory that the C API binds, as README's C program does.
struct OfC {
  AlignedBytes file, memory;
  nacre_model model;
  nacre_program program;
  nacre_sizes sizes = {};

  explicit OfC(std::span<const uint8_t> bytes) {
    file.resize(bytes.size());
    std::memcpy(file.bytes().data(), bytes.data(), bytes.size());
    sizes.size = sizeof sizes;
  }
  nacre_status measure() {
    const nacre_status opened = nacre_model_open(&model, file.bytes().data(), file.bytes().size());
    return opened.code != 0 ? opened : nacre_program_measure_with(&model, 0, kernels(), 2, nullptr, &sizes);
  }
  nacre_status bind(uint64_t bytes) {
    memory.resize(size_t(bytes));
    return nacre_program_bind_with(&program, &model, 0, kernels(), 2, nullptr, memory.bytes().data(), size_t(bytes));
  }
  void write(const Fill& fill) const {
    for (uint32_t i = 0; i < nacre_program_input_count(&program); ++i) {
      size_t size = 0;
      auto* const at = static_cast<std::byte*>(nacre_program_input(&program, i, &size));
      fill(i, {at, size});
    }
  }
  Bytes outputs() const {
    Bytes all;
    for (uint32_t i = 0; i < nacre_program_output_count(&program); ++i) {
      size_t size = 0;
      const auto* const at = static_cast<const std::byte*>(nacre_program_output(&program, i, &size));
      append(&all, {at, size});
    }
    return all;
  }

  static const nacre_kernels* const* kernels() {
    static const nacre_kernels* const kSets[] = {NACRE_FAST_KERNELS, nacre_reference_kernels()};
    return kSets;
  }
};

void write(const Program& program, const Fill& fill) {
  for (uint32_t i = 0; i < program.input_count(); ++i) fill(i, program.input(i));
}

Bytes outputs_of(const Program& program) {
  Bytes all;
  for (uint32_t i = 0; i < program.output_count(); ++i) append(&all, program.output(i));
  return all;
}

// Compares the steps of C with those of a C++ program. Returns how many operands are packed.
uint64_t compare_steps(Tally& tally, const std::string& name, const OfC& c, const Program& cpp) {
  uint64_t packed = 0;
  const uint32_t steps = nacre_program_step_count(&c.program);
  tally.that(steps == cpp.view().step_count, name + ": as many steps");
  for (uint32_t i = 0; i < steps; ++i, ++tally.steps) {
    nacre_step_info info = {};
    info.size = sizeof info;
    const bool told = nacre_program_step(&c.program, i, &info).code == 0;
    const std::string step = name + ", step " + std::to_string(i);
    tally.that(told && info.kernel == reinterpret_cast<const void*>(cpp.kernel(i)), step + ": the same kernel");
    tally.that(info.packed == cpp.packed_operands(i), step + ": the same packed operands");
    packed += uint64_t(std::popcount(info.packed));
  }
  return packed;
}

double microseconds_of(const std::function<bool()>& run) {
  const auto begun = std::chrono::steady_clock::now();
  if (!run()) std::abort();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begun).count();
}

// Runs both in turns and compares the fastest runs, until the ratio is met after some rounds or the time is over.
void compare_times(Tally& tally, const std::string& name, const OfC& c, const Program& cpp, const Fill& fill,
                   double seconds) {
  constexpr int kLeastRounds = 500;
  double of_c = std::numeric_limits<double>::infinity(), of_cpp = of_c, spent = 0;
  for (int round = 0; spent < seconds * 1e6 && (round < kLeastRounds || of_c > kMostRatio * of_cpp); ++round)
    for (int turn = 0; turn < 2; ++turn) {
      const bool is_c = (turn + round) % 2 == 0;
      if (is_c) c.write(fill);
      else write(cpp, fill);
      const double took =
          microseconds_of([&] { return is_c ? nacre_program_run(&c.program).code == 0 : cpp.run().ok(); });
      double& least = is_c ? of_c : of_cpp;
      least = std::min(least, took);
      spent += took;
    }
  std::printf("%-40s C %9.1f us   C++ %9.1f us   %.3f\n", name.c_str(), of_c, of_cpp, of_c / of_cpp);
  if (of_cpp <= kLeastMicroseconds || sanitized()) return;
  ++tally.timed;
  tally.slowest = std::max(tally.slowest, of_c / of_cpp);
  tally.that(of_c <= kMostRatio * of_cpp, name + ": C takes longer than C++");
}

void compare(Tally& tally, const std::string& name, const std::string& path, double seconds) {
  const std::vector<uint8_t> bytes = tools::compile(tools::load_network(path), {}).bytes;
  const LoadedModel loaded(bytes, name, "");
  const BoundProgram placed(loaded, 0, tools::port_named("auto"));
  const Fill fill = [&](uint32_t i, std::span<std::byte> input) {
    fill_numbers(input, loaded.model().tensors()[placed.program().view().inputs[i]].element, 7);
  };
  InferenceRun plain;
  const Buffer file(std::as_bytes(std::span(bytes)));
  OfC c(bytes), small(bytes);
  if (!tally.that(c.measure().code == 0 && c.bind(c.sizes.total).code == 0, name + ": C binds what it measures") ||
      !tally.that(plain.bind(file.bytes(), {OfC::kernels(), 2}).ok(), name + ": C++ binds"))
    return;
  const uint64_t packed = compare_steps(tally, name + " by places", c, placed.program());
  tally.that(packed == compare_steps(tally, name, c, plain.program), name + ": as many packed operands");
  tally.that(packed > 0 && c.sizes.unpacked < c.sizes.total, name + ": weights are packed, and counted");
  tally.packed += packed;

  c.write(fill), write(placed.program(), fill), write(plain.program, fill);
  tally.that(nacre_program_run(&c.program).code == 0 && placed.program().run().ok() && plain.program.run().ok(),
             name + ": runs");
  const Bytes expected = outputs_of(placed.program());
  tally.that(c.outputs() == expected && outputs_of(plain.program) == expected, name + ": the same bytes");

  bool none = small.measure().code == 0 && small.bind(small.sizes.unpacked).code == 0;
  for (uint32_t i = 0; none && i < nacre_program_step_count(&small.program); ++i) {
    nacre_step_info info = {};
    info.size = sizeof info;
    none = nacre_program_step(&small.program, i, &info).code == 0 && info.packed == 0;
  }
  tally.that(none, name + ": a block without room for packed weights holds the program");
  tally.that(Code(small.bind(small.sizes.unpacked - 1).code) == Code::kMemorySize, name + ": fewer bytes are refused");
  ++tally.networks;
  compare_times(tally, name, c, placed.program(), fill, seconds);
}

int claim(double seconds) {
  Tally tally;
  for (const char* file : kFiles) {
    const std::string path = tools::shared_path(std::string("models/") + file);
    if (std::filesystem::exists(path)) compare(tally, std::filesystem::path(file).stem(), path, seconds);
  }
  const bool all = tally.networks == int(std::size(kFiles));
  if (tally.networks == 0 && tally.failures == 0) {
    std::printf("none of the networks is there\n");
    return 77;
  }
  std::printf(
      "CLAIM c_equals_cpp %s: %d networks with %s kernels: %llu steps have the same kernel and packed operands as C++, "
      "by Program and by Places, %llu operands are packed; the same output bytes; %d runs above %.0f us take at most "
      "%.3f times as long\n",
      tally.failures == 0 && all ? "shown" : "NOT SHOWN", tally.networks,
      tools::name_of_port(tools::port_named("auto")).c_str(), static_cast<unsigned long long>(tally.steps),
      static_cast<unsigned long long>(tally.packed), tally.timed, kLeastMicroseconds, tally.slowest);
  return tally.failures == 0 && all ? 0 : 1;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(c_equals_cpp) {
  try {
    return nacre::test::claim(count > 1 ? std::atof(arguments[1]) : 5);
  } catch (const std::exception& error) {
    std::printf("CLAIM c_equals_cpp NOT SHOWN: %s\n", error.what());
    return 1;
  }
}
