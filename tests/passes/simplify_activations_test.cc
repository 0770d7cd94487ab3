// Tests that simplify makes one step of a gelu, silu or hard_swish that a file computes in several steps. The numbers
// stay.
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

// Compares with f in float64. Both ways round a few times, each by at most 2^-24 of the rounded number. If 1 + erf is
// near 0, that is 2^-24 of 1, times x.
template <class F>
void expect_one(const std::string& text, Op op, const F& f) {
  const Graph before = parse(text), after = simplified(text);
  EXPECT_EQ(after.nodes.size(), 1u) << text;
  EXPECT_EQ(count(after, op), 1) << text;
  std::mt19937 rng(1);
  std::vector<std::vector<uint8_t>> inputs = random_inputs(before, rng);
  auto* const x = reinterpret_cast<float*>(inputs[0].data());
  for (int i = 0; i < 66; ++i) x[i] *= 6;
  const std::vector<float> file = output_of(before, inputs), one = output_of(after, inputs);
  for (size_t i = 0; i < file.size(); ++i) {
    const double v = double(x[i]), bound = 8 * std::abs(v) * 0x1p-24;
    EXPECT_NEAR(double(file[i]), f(v), bound) << v;
    EXPECT_NEAR(double(one[i]), f(v), bound) << v;
  }
}
double gelu(double v) { return v / 2 * (1 + std::erf(v / std::sqrt(2.0))); }
void expect_gelu(const std::string& text) { expect_one(text, Op::kGelu, &gelu); }

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

// ---- silu and hard_swish

std::string network(const std::vector<std::string>& between, const std::string& lines) {
  std::string text = R"(graph "" batch=1
value %x float32 [2, 33]
value %half float32 [1] data=float32 {0.5}
value %three float32 [] data=float32 {3}
value %sixth float32 [1] data=float32 {0.166666672}
value %y float32 [2, 33]
)";
  for (const std::string& name : between) text += "value %" + name + " float32 [2, 33]\n";
  return text + "input \"x\" %x\noutput \"y\" %y\n" + lines;
}

double silu(double v) { return v / (1 + std::exp(-v)); }
double hard_swish(double v) { return v * std::min(std::max(v + 3, 0.0), 6.0) / 6; }

const std::string kSilu = network({"g"}, "%g = sigmoid(%x)\n%y = mul(%x, %g)\n");
const std::string kBounded = "%s = add(%x, %three)\n%c = clamp(%s) clamp=1 low=0 high=6\n";
const std::string kHardSwish = network({"s", "c", "p"}, kBounded + "%p = mul(%x, %c)\n%y = mul(%p, %sixth)\n");

TEST(simplify, silu_in_two_steps_is_one) {
  expect_one(kSilu, Op::kSilu, &silu);
  expect_one(network({"g"}, "%g = sigmoid(%x)\n%y = mul(%g, %x)\n"), Op::kSilu, &silu);
}

TEST(simplify, hard_swish_in_several_steps_is_one) {
  expect_one(kHardSwish, Op::kHardSwish, &hard_swish);
  const auto expect = [](const std::vector<std::string>& between, const std::string& lines) {
    expect_one(network(between, lines), Op::kHardSwish, &hard_swish);
  };
  expect({"s", "c", "p"}, kBounded + "%p = mul(%c, %sixth)\n%y = mul(%x, %p)\n");
  expect({"s", "c", "p"}, kBounded + "%p = mul(%sixth, %x)\n%y = mul(%c, %p)\n");
  expect({"c", "p"}, "%c = add(%three, %x) clamp=1 low=0 high=6\n%p = mul(%x, %c)\n%y = mul(%p, %sixth)\n");
  expect({"m", "s", "c"},
         "%m = mul(%x, %sixth)\n%s = add(%m, %half)\n%c = clamp(%s) clamp=1 low=0 high=1\n"
         "%y = mul(%c, %x)\n");
}

TEST(simplify, silu_and_hard_swish_stay_where_they_must) {
  const auto steps = [](std::string text, const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
    return simplified(text).nodes.size();
  };
  ASSERT_EQ(steps(kSilu, "%x, %g", "%x, %g"), 1u);
  EXPECT_EQ(steps(kSilu, "mul(%x, %g)", "mul(%g, %g)"), 2u);
  EXPECT_EQ(steps(kSilu, "%x, %g)", "%x, %g) clamp=1 low=0 high=6"), 2u);
  EXPECT_EQ(steps(kSilu, "%g float32 [2, 33]", "%g float32 [2, 33] codes=int8 axis=0 scale=[1] zero=[0]"), 2u);
  EXPECT_EQ(steps(kSilu, "output", "output \"gate\" %g\noutput"), 2u);
  ASSERT_EQ(steps(kHardSwish, "high=6", "high=6"), 1u);
  EXPECT_EQ(steps(kHardSwish, "high=6", "high=5"), 4u);
  EXPECT_EQ(steps(kHardSwish, "low=0", "low=-1"), 4u);
  EXPECT_EQ(steps(kHardSwish, "{3}", "{2.5}"), 4u);
  EXPECT_EQ(steps(kHardSwish, "{0.166666672}", "{0.2}"), 4u);
  EXPECT_EQ(steps(kHardSwish, "mul(%x, %c)", "mul(%three, %c)"), 4u);
  for (const char* read : {"%s", "%c", "%p"})
    EXPECT_EQ(simplified(kHardSwish + "output \"other\" " + read + "\n").nodes.size(), 4u) << read;
}

}  // namespace
}  // namespace nacre::tools
