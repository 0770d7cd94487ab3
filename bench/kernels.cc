// Times kernels of the reference and of the x86 instruction sets that run here, in two ways.
//
//   kernels [--benchmark_filter=^entry/dense] [--benchmark_min_time=0.1]
//
//   entry/OP/TYPES/SET       one entry, on the largest of a fixed series of random cases from tests/cases.h. Its result
//                            is compared with the tests' expectation first. A new line in an .inc brings its benchmark
//                            by itself; an entry without a case is an error. Kernels that read packed weights are left
//                            to layer/. The cases are small, so the cost of a call counts.
//   layer/OP/POLICY/SET/NETWORKS/SHAPE
//                            one layer of real networks (bench/shapes.json) under a policy. Its result is compared with
//                            the reference's first. The line shows the kernel that ran and the share of the roof,
//                            which is measured in the same run (tools/model/roof.h). An example:
//                            --benchmark_filter='layer/conv2d/int8_static/avx512_vnni/'
//
// Products are measured in operations, two for each multiply-accumulate. All other ops are measured in bytes read and
// written.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <memory>
#include <span>

#include "bench/layers.h"
#include "bench/report.h"
#include "engine/kernels/reference.h"
#include "ports/x86/x86.h"
#include "tests/cases.h"
#include "tests/claims/kernels_correct_reference.h"
#include "tests/guarded_step.h"
#include "tests/oracle.h"
#include "tools/graph/bound_step.h"
#include "tools/model/roof.h"

namespace nacre::bench {
namespace {

using test::Array;

constexpr int kCases = 300;
constexpr uint64_t kSeed = 20;

// A case with memory of its own, bound to a kernel.
class BoundCase {
 public:
  BoundCase(const KernelEntry& entry, const std::vector<uint32_t>& words, std::vector<Array> arrays)
      : words_(words), arrays_(std::move(arrays)), records_(records_of(arrays_)),
        step_(entry, {words_.data(), int(words_.size())}, operands()) {}
  BoundCase(const BoundCase&) = delete;
  BoundCase& operator=(const BoundCase&) = delete;

  Code prepare() { return step_.prepare(); }
  Code run() { return step_.run(); }
  uint64_t work() const { return step_.work(); }
  size_t bytes() const {
    size_t sum = 0;
    for (const Array& array : arrays_) sum += array.bytes.size();
    return sum;
  }

 private:
  static std::vector<TensorRecord> records_of(const std::vector<Array>& arrays) {
    std::vector<TensorRecord> records;
    for (const Array& array : arrays) records.push_back(test::record_of(array));
    return records;
  }
  std::vector<Tensor> operands() {
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < arrays_.size(); ++i)
      tensors.push_back(arrays_[i].present() ? Tensor{arrays_[i].bytes.data(), &records_[i]}
                                             : Tensor{nullptr, nullptr});
    return tensors;
  }

  std::vector<uint32_t> words_;
  std::vector<Array> arrays_;
  std::vector<TensorRecord> records_;
  tools::BoundStep step_;
};

struct Prepared {
  std::unique_ptr<BoundCase> step;
  std::string shape;
  std::string wrong;  // "" if the result is the oracle's
};

std::string first_difference(const std::vector<Array>& found, const std::vector<test::Expected>& expected) {
  for (size_t o = 0; o < expected.size(); ++o)
    for (size_t i = 0; i < expected[o].value.size(); ++i) {
      const double value = found[o].real(int64_t(i)), wanted = expected[o].value[i];
      const bool same = value == wanted || (std::isnan(value) && std::isnan(wanted));  // infinities too
      if (!same && !(std::abs(value - wanted) <= expected[o].tolerance[i]))
        return fmt::format("output {}, element {}: {} instead of {}", o, i, value, wanted);
    }
  return "";
}

std::string first_difference(const test::Execution& found, const test::ReferenceCase& expected) {
  if (found.overrun || found.impure) return "wrote outside its output";
  const std::string wrong = first_difference(found.outputs, expected.outputs);
  return wrong.empty() ? first_difference(found.updated, expected.updated) : wrong;
}

// Makes a case. If the oracle has no formula for the op, the expected results are those of claim kernels_correct.
test::ReferenceCase make_case(const KernelEntry& entry, test::Random& random) {
  if (test::has_reference_case(entry.op)) return test::reference_case(entry, random);
  const test::Case made = test::random_case(entry, random);
  return {made.words, test::random_inputs(made, random), {}, {}};
}

// Returns the shape of the first input, or of the output if there is no input.
std::string shape_of(const test::ReferenceCase& made, const test::Execution& execution) {
  return fmt::format("{}", fmt::join((made.inputs.empty() ? execution.outputs : made.inputs)[0].dims, "x"));
}

// Prepares the case with the most work; none if the kernel accepts no case.
Prepared prepare(const KernelEntry& entry) {
  Prepared best;
  test::Random random(kSeed);
  uint64_t most = 0;
  for (int i = 0; i < kCases; ++i) {
    test::ReferenceCase made = make_case(entry, random);
    const test::Execution execution = test::execute_guarded(entry, made.words, made.inputs, test::Beside::kBack, false);
    if (execution.code != Code::kOk) continue;
    std::vector<Array> arrays = made.inputs;
    arrays.insert(arrays.end(), execution.outputs.begin(), execution.outputs.end());
    auto step = std::make_unique<BoundCase>(entry, made.words, std::move(arrays));
    const uint64_t work = step->work() + step->bytes();
    if (best.step != nullptr && work <= most) continue;
    most = work;
    if (!test::has_reference_case(entry.op)) made.outputs = test::oracle(entry, made.words, made.inputs);
    best = {std::move(step), shape_of(made, execution), first_difference(execution, made)};
  }
  if (best.step != nullptr && best.step->prepare() != Code::kOk) best.wrong = "the kernel cannot prepare";
  return best;
}

void time(benchmark::State& state, Prepared& prepared, bool matmul) {
  if (prepared.step == nullptr) return state.SkipWithError("no case of tests/cases.cc fits it: give its op one");
  if (!prepared.wrong.empty()) return state.SkipWithError(prepared.wrong.c_str());
  for (auto _ : state) {
    if (prepared.step->run() != Code::kOk) return state.SkipWithError("the kernel refused its operands");
    benchmark::ClobberMemory();
  }
  state.SetLabel(prepared.shape);
  if (matmul) {
    set_rate(state, "op/s", 2 * double(prepared.step->work()));
  } else {
    set_rate(state, "B/s", double(prepared.step->bytes()));
  }
}

// Turns "kDepthwiseConv2dI8Double" of depthwise_conv2d into "depthwise_conv2d/i8double".
std::string path_of(const reference::NamedEntry& named) {
  const OpRule* rule = find_rule(named.entry->op);
  std::string camel = "k";
  for (const char* c = rule->name; *c != 0; ++c) {
    if (*c == '_') continue;
    camel += char(c == rule->name || c[-1] == '_' ? std::toupper(*c) : *c);
  }
  std::string types = named.name;
  if (types.starts_with(camel)) types.erase(0, camel.size());
  for (char& c : types) c = char(std::tolower(c));
  return fmt::format("{}/{}", rule->name, types);
}

bool reads_layouts(const KernelEntry& entry) {
  return std::ranges::any_of(std::span(entry.operands, entry.operand_count), [](const OperandType& type) {
    return type.layout != Layout::kRowMajor && type.layout != Layout::kAny;
  });
}

struct Entries {
  size_t all = 0, without_case = 0;

  // The case of a kernel is made when the kernel is first timed, because --benchmark_filter skips most kernels.
  void add(const reference::NamedEntry& named, const std::string& set) {
    if (reads_layouts(*named.entry)) return;  // reads packed weights: its layers are timed instead
    ++all;
    if (test::find_case_maker(named.entry->op) == nullptr && !test::has_reference_case(named.entry->op)) {
      fmt::print(stderr, "kernels: {}: tests/cases.cc has no cases of its op\n", named.name);
      ++without_case;
      return;
    }
    const bool matmul = find_rule(named.entry->op)->numerics == Numerics::kMatmul;
    bench::add(fmt::format("entry/{}/{}", path_of(named), set),
               [entry = named.entry, prepared = std::shared_ptr<Prepared>(), matmul](benchmark::State& state) mutable {
                 if (prepared == nullptr) prepared = std::make_shared<Prepared>(prepare(*entry));
                 time(state, *prepared, matmul);
               });
  }
};

int time_kernels() {
  Entries entries;
  for (const reference::NamedEntry& named : reference::list()) entries.add(named, "reference");
  std::vector<std::string> sets = {"reference"};
  for (uint32_t i = 0; i < uint32_t(x86::Tier::kCount); ++i) {
    if (!x86::runs_here(x86::Tier(i))) continue;
    sets.emplace_back(x86::name(x86::Tier(i)));
    for (const reference::NamedEntry& named : x86::list(x86::Tier(i))) entries.add(named, sets.back());
  }
  const size_t layers = add_layers(sets);
  fmt::print(stderr, "{} kernels, {} without a case; {} layers\n", entries.all, entries.without_case, layers);
  tools::print_roofs();
  return entries.without_case > 0 ? 1 : run_benchmarks();
}

}  // namespace
}  // namespace nacre::bench

int main(int argc, char** argv) {
  if (!nacre::bench::initialize(&argc, argv)) return 2;
  return nacre::bench::time_kernels();
}
