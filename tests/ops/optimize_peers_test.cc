// Compares optimizers with torch.optim on the CPU: tests/peers/optimizers.json, which tests/peers/optimizers.py
// writes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>

#include "engine/kernels/training.h"
#include "tests/ops/step_in_place.h"
#include "tests/oracle_rounding.h"
#include "tests/project_path.h"
#include "tools/base/json.h"

namespace nacre::test {
namespace {

using json = nacre::tools::Json;
using namespace reference;

json table() {
  std::ifstream file(tools::project_path("tests/peers/optimizers.json"));
  return json::parse(file);
}

struct Entries {
  const KernelEntry *f32, *f64;
};
const std::map<std::string, Entries> kEntries = {{"sgd", {&kSgdF32, &kSgdF64}},
                                                 {"momentum", {&kMomentumF32, &kMomentumF64}},
                                                 {"adam", {&kAdamF32, &kAdamF64}},
                                                 {"nesterov", {&kNesterovF32, &kNesterovF64}},
                                                 {"adamw", {&kAdamWF32, &kAdamWF64}},
                                                 {"rmsprop", {&kRmspropF32, &kRmspropF64}},
                                                 {"adagrad", {&kAdagradF32, &kAdagradF64}}};

float from_bits(uint32_t word) { return std::bit_cast<float>(word); }
std::vector<float> floats(const json& words) {
  std::vector<float> values;
  for (const json& word : words) values.push_back(from_bits(word.get<uint32_t>()));
  return values;
}
std::vector<double> doubles(const json& words) {
  std::vector<double> values;
  for (const json& word : words)
    values.push_back(std::bit_cast<double>(uint64_t(std::stoull(word.get<std::string>(), nullptr, 16))));
  return values;
}

// Returns how many float32 numbers lie between a and b.
int64_t distance(float a, float b) {
  const auto order = [](float v) {
    const auto word = std::bit_cast<int32_t>(v);
    return int64_t(word < 0 ? INT32_MIN - int64_t(word) : word);
  };
  return std::abs(order(a) - order(b));
}

template <class A>
Code step(const std::string& name, const json& row, uint32_t applied, std::vector<A>& g, std::vector<A>& p,
          std::vector<A>& m, std::vector<A>& v) {
  std::vector<A> report = {1, 0, 0, 0};
  std::vector<float> rate = {from_bits(row["rate"].get<uint32_t>())};
  std::vector<uint32_t> count = {applied}, words = row["words"].get<std::vector<uint32_t>>();
  const auto n = int32_t(p.size());
  const Entries& entries = kEntries.at(name);
  Step made(sizeof(A) == 4 ? entries.f32 : entries.f64, words);
  made.operand(g, {n}).operand(report, {4}).operand(rate, {1});
  if (name == "adam" || name == "adamw") made.operand(count, {1});
  made.operand(p, {n});
  if (!m.empty()) made.operand(m, {n});
  if (!v.empty()) made.operand(v, {n});
  return made.run();
}

// Each step starts from equal state; parameters and states must be within 2 ulp. torch's vector loops fuse products
// into the sums that follow: 370 of Adam's 384 first moments equal m + (1 - beta1) (g - m) with one rounding of
// product and sum, 321 equal it with two. If a sum is much smaller than its largest operand, p or m before the step,
// the 2 ulp are those of that operand: half for the product that torch does not round, one for the operations before
// it, half for the result.
TEST(optimizers_and_torch, agree_within_two_ulp_in_one_float32_step) {
  struct Count {
    int exact = 0, one = 0, two = 0, cancelled = 0;
  };
  const json peers = table();
  std::map<std::string, Count> counts;
  for (const json& row : peers["rows"])
    for (const json& one : row["float32"]) {
      const std::string name = row["name"];
      std::vector<float> g = floats(one["g"]), p = floats(one["p"]), m = floats(one["m"]), v = floats(one["v"]);
      const std::vector<float> before[] = {p, m, v};
      ASSERT_EQ(step(name, row, one["step"].get<uint32_t>(), g, p, m, v), Code::kOk) << name;
      Count& count = counts[name];
      const std::vector<float>* const after[] = {&p, &m, &v};
      constexpr const char* kKeys[] = {"p_new", "m_new", "v_new"};
      for (size_t k = 0; k < 3; ++k) {
        const std::vector<float> expected = floats(one[kKeys[k]]);
        ASSERT_EQ(after[k]->size(), expected.size()) << name << kKeys[k];
        for (size_t i = 0; i < expected.size(); ++i) {
          const float given = (*after[k])[i];
          const int64_t ulps = distance(given, expected[i]);
          const double unit = quantum(ElementType::kFloat32, std::max(std::abs(before[k][i]), std::abs(expected[i])));
          EXPECT_LE(std::abs(double(given) - double(expected[i])), 2 * unit)
              << name << ", " << kKeys[k] << " after " << one["step"] << " steps: " << given << " for " << expected[i];
          ++(ulps == 0 ? count.exact : ulps == 1 ? count.one : ulps == 2 ? count.two : count.cancelled);
        }
      }
    }
  ASSERT_EQ(counts.size(), kEntries.size());
  int cancelled = 0, all = 0;
  for (const auto& [name, count] : counts) {
    std::printf("  %-9s %4d numbers to the bit, %3d by 1 ulp, %3d by 2, %3d by more, of what cancelled\n", name.c_str(),
                count.exact, count.one, count.two, count.cancelled);
    cancelled += count.cancelled, all += count.exact + count.one + count.two + count.cancelled;
  }
  EXPECT_LE(cancelled * 100, all);  // rare: usually within 2 ulp of the number itself
}

// After 100 steps in float64 the numbers are within 1e-12 of the largest parameter.
TEST(optimizers_and_torch, agree_after_a_hundred_float64_steps) {
  const json peers = table();
  std::map<std::string, double> worst;
  for (const json& row : peers["rows"]) {
    const std::string name = row["name"];
    std::vector<double> p = doubles(row["float64"]["p"]);
    const bool has_m = name != "sgd" && name != "rmsprop" && name != "adagrad",
               has_v = name != "sgd" && name != "momentum" && name != "nesterov";
    std::vector<double> m(has_m ? p.size() : 0), v(has_v ? p.size() : 0);
    size_t seen = 0;
    for (uint32_t t = 0; t < 100; ++t) {
      std::vector<double> g = doubles(peers["gradients"][t]);
      ASSERT_EQ(step(name, row, t, g, p, m, v), Code::kOk) << name;
      if (peers["seen"][seen] != t + 1) continue;
      const std::vector<double> expected = doubles(row["float64"]["p_new"][seen++]);
      double largest = 0, error = 0;
      for (size_t i = 0; i < p.size(); ++i) {
        largest = std::max(largest, std::abs(expected[i]));
        error = std::max(error, std::abs(p[i] - expected[i]));
      }
      EXPECT_LE(error, 1e-12 * largest) << name << " after " << t + 1 << " steps";
      worst[name] = std::max(worst[name], error / largest);
    }
    EXPECT_EQ(seen, peers["seen"].size());
  }
  for (const auto& [name, error] : worst)
    std::printf("  %-9s at most %.1e of the largest parameter\n", name.c_str(), error);
}

}  // namespace
}  // namespace nacre::test
