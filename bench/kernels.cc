// Time of every reference kernel, each on one case: the largest of a fixed series of random cases
// from tests/cases.h. A new line in engine/kernels/reference.inc brings its benchmark by itself.
// The cases are small: the cost of a call counts.
//
//   kernels [--benchmark_filter=^dense] [--benchmark_min_time=0.1]
//
// Matmuls are measured in multiply-accumulates, everything else in bytes read and written.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <cmath>
#include <cstring>
#include <memory>

#include "bench/report.h"
#include "engine/kernels/reference.h"
#include "tests/cases.h"
#include "tests/oracle.h"

namespace nacre::bench {
namespace {

using tests::Array;

constexpr int kCases = 300;
constexpr uint64_t kSeed = 20;

// What bind makes of a step: a Call and its operands, over memory of its own.
class BoundStep {
 public:
  BoundStep(const KernelEntry& entry, const std::vector<uint32_t>& words, std::vector<Array> arrays,
            size_t inputs)
      : entry_(entry), words_(words), arrays_(std::move(arrays)), records_(arrays_.size()) {
    call_.resize((sizeof(Call) + arrays_.size() * sizeof(Tensor) + 7) / 8);
    step_.op = entry.op;
    step_.rounding = entry.rounding;
    step_.operand_count = uint8_t(arrays_.size());
    new (call_.data()) Call{entry.run, &step_, nullptr};
    for (size_t i = 0; i < arrays_.size(); ++i) {
      new (call().operands() + i)
          Tensor{arrays_[i].present() ? arrays_[i].bytes.data() : nullptr, record(i)};
      bytes_ += arrays_[i].bytes.size();
    }
    inputs_ = inputs;
  }
  BoundStep(const BoundStep&) = delete;
  BoundStep& operator=(const BoundStep&) = delete;

  Code run() {
    return entry_.run(
        {.call = call(), .words = words(), .rows = 0, .scratch = {}, .workers = nullptr});
  }
  uint64_t work() { return entry_.work({words()}, {call().operands(), int(arrays_.size()), 0}); }
  size_t bytes() const { return bytes_; }
  const Array& output(size_t i) const { return arrays_[inputs_ + i]; }

 private:
  Call& call() { return *reinterpret_cast<Call*>(call_.data()); }
  Words words() const { return {words_.data(), int(words_.size())}; }
  const TensorRecord* record(size_t i) {
    const Array& array = arrays_[i];
    if (!array.present()) return nullptr;
    TensorRecord& r = records_[i];
    r = {};
    r.element = array.element;
    r.rank = uint8_t(array.dims.size());
    std::copy(array.dims.begin(), array.dims.end(), r.dims);
    r.bytes = array.bytes.size();
    return &r;
  }

  const KernelEntry& entry_;
  std::vector<uint32_t> words_;
  std::vector<Array> arrays_;
  std::vector<TensorRecord> records_;
  std::vector<uint64_t> call_;
  StepRecord step_ = {};
  size_t bytes_ = 0, inputs_ = 0;
};

struct Prepared {
  std::unique_ptr<BoundStep> step;
  std::string shape;
  std::string wrong;  // "": the result is the oracle's
};

std::string first_difference(const tests::Execution& found,
                             const std::vector<tests::Expected>& expected) {
  if (found.overrun || found.impure) return "wrote outside its output";
  for (size_t o = 0; o < expected.size(); ++o)
    for (size_t i = 0; i < expected[o].value.size(); ++i) {
      const double value = found.outputs[o].real(int64_t(i));
      if (!(std::abs(value - expected[o].value[i]) <= expected[o].tolerance[i]))
        return fmt::format("output {}, element {}: {} instead of {}", o, i, value,
                           expected[o].value[i]);
    }
  return "";
}

// The case with the most work.
Prepared prepare(const KernelEntry& entry) {
  tests::Random random(kSeed);
  Prepared best;
  uint64_t most = 0;
  for (int i = 0; i < kCases; ++i) {
    const tests::Case made = tests::random_case(entry, random);
    std::vector<Array> arrays = tests::random_inputs(made, random);
    const tests::Execution execution = tests::execute(entry, made.words, arrays);
    if (execution.code != Code::kOk) continue;
    const size_t inputs = arrays.size();
    const std::vector<Array> given = arrays;
    arrays.insert(arrays.end(), execution.outputs.begin(), execution.outputs.end());
    auto step = std::make_unique<BoundStep>(entry, made.words, std::move(arrays), inputs);
    const uint64_t work = step->work();
    if (best.step != nullptr && work <= most) continue;
    most = work;
    best = {std::move(step), fmt::format("{}", fmt::join(given[0].dims, "x")),
            first_difference(execution, tests::oracle(entry, made.words, given))};
  }
  return best;
}

void time(benchmark::State& state, Prepared& prepared, bool matmul) {
  if (!prepared.wrong.empty()) return state.SkipWithError(prepared.wrong.c_str());
  for (auto _ : state) {
    if (prepared.step->run() != Code::kOk)
      return state.SkipWithError("the kernel refused its operands");
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
  for (const reference::NamedEntry& named : reference::list()) {
    const OpRule* rule = find_rule(named.entry->op);
    if (rule == nullptr || tests::find_case_maker(named.entry->op) == nullptr) continue;
    const auto prepared = std::make_shared<Prepared>(prepare(*named.entry));
    if (prepared->step == nullptr) continue;
    const bool matmul = rule->numerics == Numerics::kMatmul;
    add(fmt::format("{}/reference/{}", path_of(named), prepared->shape),
        [prepared, matmul](benchmark::State& state) { time(state, *prepared, matmul); });
  }
  return run_benchmarks();
}

}  // namespace
}  // namespace nacre::bench

int main(int argc, char** argv) {
  if (!nacre::bench::initialize(&argc, argv)) return 2;
  return nacre::bench::time_kernels();
}
