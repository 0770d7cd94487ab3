// Time of every reference kernel, each on one case: the largest of a fixed series of random cases
// from tests/cases.h. A new line in engine/kernels/reference_*.inc brings its benchmark by itself; one
// without a case is an error. The cases are small: the cost of a call counts.
//
//   kernels [--benchmark_filter=^dense] [--benchmark_min_time=0.1]
//
// Matmuls are measured in multiply-accumulates, everything else in bytes read and written.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <cmath>
#include <memory>

#include "bench/report.h"
#include "engine/kernels/reference.h"
#include "tests/cases.h"
#include "tests/oracle.h"
#include "tools/graph/bound_step.h"

namespace nacre::bench {
namespace {

using test::Array;

constexpr int kCases = 300;
constexpr uint64_t kSeed = 20;

// A case with memory of its own, bound to its kernel.
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
  std::string wrong;  // "": the result is the oracle's
};

std::string first_difference(const test::Execution& found, const std::vector<test::Expected>& expected) {
  if (found.overrun || found.impure) return "wrote outside its output";
  for (size_t o = 0; o < expected.size(); ++o)
    for (size_t i = 0; i < expected[o].value.size(); ++i) {
      const double value = found.outputs[o].real(int64_t(i));
      if (!(std::abs(value - expected[o].value[i]) <= expected[o].tolerance[i]))
        return fmt::format("output {}, element {}: {} instead of {}", o, i, value, expected[o].value[i]);
    }
  return "";
}

// The case with the most work; none where the kernel accepts none.
Prepared prepare(const KernelEntry& entry) {
  Prepared best;
  if (test::find_case_maker(entry.op) == nullptr) return best;
  test::Random random(kSeed);
  uint64_t most = 0;
  for (int i = 0; i < kCases; ++i) {
    const test::Case made = test::random_case(entry, random);
    const std::vector<Array> given = test::random_inputs(made, random);
    const test::Execution execution = test::execute(entry, made.words, given);
    if (execution.code != Code::kOk) continue;
    std::vector<Array> arrays = given;
    arrays.insert(arrays.end(), execution.outputs.begin(), execution.outputs.end());
    auto step = std::make_unique<BoundCase>(entry, made.words, std::move(arrays));
    const uint64_t work = step->work();
    if (best.step != nullptr && work <= most) continue;
    most = work;
    best = {std::move(step), fmt::format("{}", fmt::join(given[0].dims, "x")),
            first_difference(execution, test::oracle(entry, made.words, given))};
  }
  if (best.step != nullptr && best.step->prepare() != Code::kOk) best.wrong = "the kernel cannot prepare";
  return best;
}

void time(benchmark::State& state, Prepared& prepared, bool matmul) {
  if (!prepared.wrong.empty()) return state.SkipWithError(prepared.wrong.c_str());
  for (auto _ : state) {
    if (prepared.step->run() != Code::kOk) return state.SkipWithError("the kernel refused its operands");
    benchmark::ClobberMemory();
  }
  if (matmul) {
    set_rate(state, "MAC/s", double(prepared.step->work()));
  } else {
    set_rate(state, "B/s", double(prepared.step->bytes()));
  }
}

// "kDepthwiseConv2dI8Double" of depthwise_conv2d -> "depthwise_conv2d/i8double".
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

int time_kernels() {
  int without_case = 0;
  for (const reference::NamedEntry& named : reference::list()) {
    const auto prepared = std::make_shared<Prepared>(prepare(*named.entry));
    if (prepared->step == nullptr) {
      fmt::print(stderr, "kernels: {}: no case of tests/cases.cc fits it: give its op one\n", named.name);
      ++without_case;
      continue;
    }
    const bool matmul = find_rule(named.entry->op)->numerics == Numerics::kMatmul;
    add(fmt::format("{}/reference/{}", path_of(named), prepared->shape),
        [prepared, matmul](benchmark::State& state) { time(state, *prepared, matmul); });
  }
  fmt::print(stderr, "{} kernels, {} without a case\n", reference::list().size(), without_case);
  return without_case > 0 ? 1 : run_benchmarks();
}

}  // namespace
}  // namespace nacre::bench

int main(int argc, char** argv) {
  if (!nacre::bench::initialize(&argc, argv)) return 2;
  return nacre::bench::time_kernels();
}
