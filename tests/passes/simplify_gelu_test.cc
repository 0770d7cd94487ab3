// Tests that simplify makes one gelu step of a gelu that a file computes by erf, with the same numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "tests/graph/run_graph.h"
#include "tests/passes/simplified_text.h"

namespace nacre::tools {
namespace {

using namespace simplified_text;

constexpr int kErf = 16, kDiv = 1;  // engine/ops: stored in files

const std::string kValues = R"(graph "" batch=1
value %x float32 [2, 33]
value %root float32 [1] data=float32 {1.41421354}
value %inverse float32 [] data=float32 {0.707106769}
value %one float32 [1] data=float32 {1}
value %half float32 [1] data=float32 {0.5}
value %scaled float32 [2, 33]
value %erf float32 [2, 33]
value %sum float32 [2, 33]
value %part float32 [2, 33]
value %y float32 [2, 33]
input "x" %x
output "y" %y
)";
std::string steps(const std::string& scaled, const std::string& sum, const std::string& part, const std::string& y) {
  return kValues + "%scaled = " + scaled + "\n%erf = unary(%scaled) function=" + std::to_string(kErf) +
         "\n%sum = " + sum + "\n%part = " + part + "\n%y = " + y + "\n";
}
const std::string kScaled = "mul(%x, %inverse)", kSum = "add(%erf, %one)";

std::vector<float> output_of(const Graph& graph, const std::vector<std::vector<uint8_t>>& inputs) {
  return reals(run_graph(graph, inputs).values[size_t(graph.outputs[0].value)]);
}

// Compares with gelu in float64. Both ways round a few times, each by at most 2^-24 of the rounded number. If 1 + erf
// is near 0, that is 2^-24 of 1, times x.
void expect_gelu(const std::string& text) {
  const Graph before = parse(text), after = simplified(text);
  EXPECT_EQ(after.nodes.size(), 1u) << text;
  EXPECT_EQ(count(after, Op::kGelu), 1) << text;
  std::mt19937 rng(1);
  std::vector<std::vector<uint8_t>> inputs = random_inputs(before, rng);
  auto* const x = reinterpret_cast<float*>(inputs[0].data());
  for (int i = 0; i < 66; ++i) x[i] *= 6;
  const std::vector<float> file = output_of(before, inputs), one = output_of(after, inputs);
  for (size_t i = 0; i < file.size(); ++i) {
    const double v = double(x[i]), exact = v / 2 * (1 + std::erf(v / std::sqrt(2.0)));
    const double bound = 8 * std::abs(v) * 0x1p-24;
    EXPECT_NEAR(double(file[i]), exact, bound) << v;
    EXPECT_NEAR(double(one[i]), exact, bound) << v;
  }
}

TEST(simplify, gelu_by_erf_is_one_step) {
  expect_gelu(steps(kScaled, kSum, "mul(%x, %sum)", "mul(%part, %half)"));
  expect_gelu(steps(kScaled, "add(%one, %erf)", "mul(%half, %x)", "mul(%sum, %part)"));
  expect_gelu(steps(kScaled, kSum, "mul(%sum, %half)", "mul(%x, %part)"));
  expect_gelu(steps("binary(%x, %root) function=" + std::to_string(kDiv), kSum, "mul(%x, %half)", "mul(%part, %sum)"));
}

TEST(simplify, gelu_by_erf_stays_where_it_must) {
  const auto gelus = [](const std::string& text) { return count(simplified(text), Op::kGelu); };
  const std::string text = steps(kScaled, kSum, "mul(%x, %sum)", "mul(%part, %half)");
  ASSERT_EQ(gelus(text), 1);
  for (const char* read : {"%scaled", "%erf", "%sum", "%part"})
    EXPECT_EQ(gelus(text + "output \"other\" " + read + "\n"), 0) << read << " is an output";
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return gelus(changed);
  };
  EXPECT_EQ(with("{0.5}", "{0.25}"), 0);
  EXPECT_EQ(with("{1}", "{1.5}"), 0);
  EXPECT_EQ(with("{0.707106769}", "{0.7071}"), 0);
  EXPECT_EQ(with("function=16", "function=1"), 0);
  EXPECT_EQ(with("%half)", "%half) clamp=1 low=0 high=6"), 0);
  EXPECT_EQ(with("mul(%x, %sum)", "mul(%half, %sum)"), 0) << "x is not a factor";
  EXPECT_EQ(with("%sum float32 [2, 33]", "%sum float32 [2, 33] codes=int8 axis=0 scale=[1] zero=[0]"), 0);
}

}  // namespace
}  // namespace nacre::tools
