// Claim optimizer_bandwidth: the update of a parameter takes hardly longer than its memory traffic. Observing an amax
// while another step runs over a tensor costs hardly anything.
//
//   optimizer_bandwidth [strict]                                      timed_rounds.h
//
//   updates   each optimizer runs on 8 Mi parameters, whose arrays are larger than most caches. It must reach 90 % of
//             the speed of the faster of two ways to move as many bytes: a loop that reads and writes the same arrays
//             and only adds, and memcpy
//   amax      fake_float8 with and without the largest magnitude, on 16 Ki numbers: at most 2 % longer
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "engine/kernels/training.h"
#include "ports/x86/x86.h"
#include "tests/claims/claims.h"
#include "tests/claims/timed_rounds.h"
#include "tests/one_step.h"
#include "tests/sanitized.h"
#include "tools/graph/bound_step.h"

namespace nacre::test {
namespace {

constexpr int kParameters = 8 << 20, kObserved = 16 << 10;

// Returns the kernel of the best x86 set that runs here or, if that set lacks it, the reference's.
const KernelEntry& entry_named(const std::string& name, std::string& set) {
  for (const bool fast : {true, false})
    for (const auto& list : {x86::list(x86::best()), reference::training_list()})
      for (const reference::NamedEntry& named : list)
        if (name == named.name && fast == (list.data() == x86::list(x86::best()).data())) {
          set = fast ? x86::name(x86::best()) : "reference";
          return *named.entry;
        }
  throw std::runtime_error("no kernel " + name);
}

// A step with memory of its own.
class OneStep {
 public:
  OneStep(const std::string& name, std::vector<uint32_t> words, std::vector<Array> arrays)
      : entry_(entry_named(name, set_)), words_(std::move(words)), arrays_(std::move(arrays)) {
    for (const Array& array : arrays_) records_.push_back(record_of(array));
    for (size_t i = 0; i < arrays_.size(); ++i)
      tensors_.push_back(arrays_[i].present() ? Tensor{arrays_[i].bytes.data(), &records_[i]}
                                              : Tensor{nullptr, nullptr});
    step_ = std::make_unique<tools::BoundStep>(entry_, Words{words_.data(), int(words_.size())}, tensors_);
    if (step_->prepare() != Code::kOk) throw std::runtime_error(name + " cannot prepare");
  }
  void run() {
    if (step_->run() != Code::kOk) std::abort();
  }
  const std::string& set() const { return set_; }

 private:
  std::string set_;
  const KernelEntry& entry_;
  std::vector<uint32_t> words_;
  std::vector<Array> arrays_;
  std::vector<TensorRecord> records_;
  std::vector<Tensor> tensors_;
  std::unique_ptr<tools::BoundStep> step_;
};

uint32_t bits(float value) {
  uint32_t word;
  std::memcpy(&word, &value, sizeof word);
  return word;
}

Array numbers(int count, float magnitude) {
  Array array = make_array(ElementType::kFloat32, {count});
  auto* values = reinterpret_cast<float*>(array.bytes.data());
  for (int i = 0; i < count; ++i) values[i] = magnitude * (0.25f + float(i % 97) / 128) * (i % 2 == 0 ? 1 : -1);
  return array;
}

// Adds g to p and to each moment, with as many arrays as an optimizer with so many moments has. Vectors have 8
// numbers; a compiler without such instructions splits them.
#if defined(__x86_64__)
[[gnu::target("avx2")]]
#endif
void add_arrays(const float* from, float* to, float* first, float* second, int moments) {
  using Vector = float __attribute__((vector_size(32), aligned(4), may_alias));
  const auto* g = reinterpret_cast<const Vector*>(from);
  auto *p = reinterpret_cast<Vector*>(to), *u = reinterpret_cast<Vector*>(first),
       *v = reinterpret_cast<Vector*>(second);
  constexpr int kVectors = kParameters / 8;
  if (moments == 0) {
    for (int i = 0; i < kVectors; ++i) p[i] += g[i];
  } else if (moments == 1) {
    for (int i = 0; i < kVectors; ++i) u[i] += g[i], p[i] += u[i];
  } else {
    for (int i = 0; i < kVectors; ++i) u[i] += g[i], v[i] += g[i], p[i] += u[i] + v[i];
  }
}

struct Optimizer {
  const char *name, *kernel;
  int moments;
  bool steps;  // whether it has a count of steps
  std::vector<uint32_t> words;
};

void time_optimizer(const Optimizer& o, Bars& bars) {
  std::vector<Array> arrays = {numbers(kParameters, 1e-3f), array_of<double>(ElementType::kFloat32, {4}, {1, 0, 0, 0}),
                               array_of<double>(ElementType::kFloat32, {1}, {1e-6})};
  if (o.steps) arrays.push_back(array_of<int>(ElementType::kUint32, {1}, {10}));
  for (int i = 0; i < 1 + o.moments; ++i) {
    arrays.push_back(numbers(kParameters, 1));
    for (int j = 0; i > 0 && j < kParameters; ++j) reinterpret_cast<float*>(arrays.back().bytes.data())[j] = 0.5f;
  }
  OneStep step(o.kernel, o.words, std::move(arrays));
  Array g = numbers(kParameters, 1e-6f), p = numbers(kParameters, 1), u = p, v = p;
  const auto data = [](Array& array) { return reinterpret_cast<float*>(array.bytes.data()); };
  const size_t bytes = sizeof(float) * size_t{kParameters} * size_t(3 + 2 * o.moments);
  std::vector<char> from(bytes / 2, 1), to(bytes / 2);
  std::vector<Timed> timed = {{"loop", [&] { add_arrays(data(g), data(p), data(u), data(v), o.moments); }},
                              {"memcpy",
                               [&] {
                                 std::memcpy(to.data(), from.data(), from.size());
                                 asm volatile("" : : "r"(to.data()) : "memory");
                               }},
                              {o.name, [&] { step.run(); }}};
  time_in_turns(timed);
  const auto speed = [&](const Timed& t) { return double(bytes) / median_seconds(t) / 1e9; };
  std::printf("%-10s %-12s %.1f GB/s, the loop %.1f, memcpy %.1f\n", o.name, step.set().c_str(), speed(timed[2]),
              speed(timed[0]), speed(timed[1]));
  const Timed& roof = timed[speed(timed[0]) > speed(timed[1]) ? 0 : 1];
  bars.at_least(std::string(o.name) + ": share of the bandwidth of the " + roof.name, ratio(roof, timed[2]), 0.9, 4);
}

void time_amax(const char* observed, const char* fixed, ElementType type, Bars& bars) {
  const auto x = [type] {
    Array array = make_array(type, {kObserved});
    for (int i = 0; i < kObserved; ++i) array.set(i, double(i % 97) / 97 - 0.5);
    return array;
  };
  const Array scale = array_of<double>(ElementType::kFloat32, {1}, {1.0 / 64});
  OneStep with(observed, {0, 0, 0, 0}, {x(), scale, array_of<int>(ElementType::kUint32, {1}, {0}), x()});
  OneStep without(fixed, {0, 0, 0, 0}, {x(), scale, Array{}, x()});
  std::vector<Timed> timed = {{"without", [&] { without.run(); }}, {"with", [&] { with.run(); }}};
  time_in_turns(timed);
  std::printf("%s: %s %.1f us, without amax %.1f\n", observed, with.set().c_str(), median_seconds(timed[1]) * 1e6,
              median_seconds(timed[0]) * 1e6);
  bars.at_least(std::string(observed) + ": speed in that without amax", ratio(timed[0], timed[1]), 1 / 1.02, 3);
}

int claim(bool strict) {
  Bars bars("optimizer_bandwidth", strict);
  const uint32_t beta1 = bits(0.9f), beta2 = bits(0.999f), epsilon = bits(1e-8f);
  const Optimizer kOptimizers[] = {{"sgd", "kSgdF32", 0, false, {0, 0}},
                                   {"momentum", "kMomentumF32", 1, false, {0, 0, beta1}},
                                   {"nesterov", "kNesterovF32", 1, false, {0, 0, beta1}},
                                   {"adam", "kAdamF32", 2, true, {0, 0, beta1, beta2, epsilon}},
                                   {"adamw", "kAdamWF32", 2, true, {0, bits(0.01f), beta1, beta2, epsilon}},
                                   {"rmsprop", "kRmspropF32", 1, false, {0, 0, beta1, epsilon}},
                                   {"adagrad", "kAdagradF32", 1, false, {0, 0, epsilon}}};
  for (const Optimizer& optimizer : kOptimizers) time_optimizer(optimizer, bars);
  time_amax("kFakeFloat8F32", "kFakeFloat8FixedF32", ElementType::kFloat32, bars);
  time_amax("kFakeFloat8Bf16", "kFakeFloat8FixedBf16", ElementType::kBfloat16, bars);
  return bars.print(std::to_string(std::size(kOptimizers)) + " optimizers and the observation of an amax");
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(optimizer_bandwidth) {
  if (nacre::test::sanitized()) {
    std::printf("times of a sanitized build say nothing\n");
    return 77;
  }
  try {
    return nacre::test::claim(count > 1 && std::strcmp(arguments[1], "strict") == 0);
  } catch (const std::exception& error) {
    std::printf("CLAIM optimizer_bandwidth NOT SHOWN: %s\n", error.what());
    return 1;
  }
}
