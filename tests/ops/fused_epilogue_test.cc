// Tests that the fused dense and convolutions give the bits of the separate steps: matmul, add, activation.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "engine/kernels/reference.h"
#include "engine/ops/parameters.h"
#include "tests/cases.h"
#include "tests/model/filling.h"

namespace nacre::test {
namespace {

// Returns the entry of this name: "Dense" and "F32" give kDenseF32.
const KernelEntry& entry_named(const std::string& op, const std::string& type) {
  for (const reference::NamedEntry& named : reference::list())
    if (named.name == "k" + op + type) return *named.entry;
  throw std::out_of_range(op + type);
}

Array result_of(const KernelEntry& entry, const std::vector<uint32_t>& words, const std::vector<Array>& inputs) {
  const Execution execution = execute(entry, words, inputs);
  EXPECT_EQ(execution.code, Code::kOk);
  return execution.outputs.at(0);
}

struct FunctionStep {
  const char* op;
  std::vector<uint32_t> words;
};
FunctionStep step_of(const Clamp& function) {
  switch (function.kind) {
    case Clamp::kLeakyRelu: return {"LeakyRelu", {function.low}};
    case Clamp::kSigmoid: return {"Sigmoid", {}};
    case Clamp::kTanh: return {"Tanh", {}};
    case Clamp::kHardSwish: return {"HardSwish", {}};
    case Clamp::kSilu: return {"Silu", {}};
    case Clamp::kGelu: return {"Gelu", {0}};
    default: return {"Gelu", {1}};
  }
}

// Computes the steps one after another, with each result stored in the type. `inputs` are x, w, bias and residual.
Array steps_apart(const std::string& op, const std::string& type, std::vector<uint32_t> words,
                  const std::vector<Array>& inputs) {
  const size_t first = op == "Dense" ? 0 : 8;
  const Clamp clamp = {words[first], words[first + 1], words[first + 2]};
  const bool residual = inputs[3].present(), function = clamp.kind > Clamp::kBounds;
  for (size_t i = 0; i < 3; ++i) words[first + i] = 0;
  Array y = result_of(entry_named(op, type), words, {inputs[0], inputs[1], inputs[2]});
  const std::vector<uint32_t> bounds = {clamp.kind, clamp.low, clamp.high};
  if (residual) y = result_of(entry_named("Add", type), function ? std::vector<uint32_t>() : bounds, {y, inputs[3]});
  if (!function) return y;
  const FunctionStep step = step_of(clamp);
  return result_of(entry_named(step.op, type), step.words, {y});
}

// NaN equals NaN: no step determines which NaN it gives.
void expect_same_bits(const Array& a, const Array& b, const std::string& place) {
  ASSERT_EQ(a.bytes.size(), b.bytes.size()) << place;
  if (a.bytes == b.bytes) return;
  const size_t size = a.bytes.size() / size_t(a.elements());
  for (int64_t i = 0; i < a.elements(); ++i) {
    const bool same = std::equal(a.bytes.begin() + i * int64_t(size), a.bytes.begin() + (i + 1) * int64_t(size),
                                 b.bytes.begin() + i * int64_t(size));
    ASSERT_TRUE(same || (a.real(i) != a.real(i) && b.real(i) != b.real(i)))
        << place << " element " << i << ": " << a.real(i) << " and " << b.real(i);
  }
}

TEST(fused_epilogue, gives_the_bits_of_the_steps_alone) {
  bool seen[Clamp::kGeluTanh + 1][2][2] = {};  // kind, bias, residual
  for (const char* op : {"Dense", "Conv2d", "DepthwiseConv2d"})
    for (const char* type : {"F32", "F16", "Bf16", "F64"})
      for (uint64_t seed = 0; seed < 200; ++seed) {
        const KernelEntry& entry = entry_named(std::string(op) + "Fused", type);
        Random random(seed);
        const Case made = random_case(entry, random);
        std::vector<Array> inputs = random_inputs(made, random);
        if (seed % 8 == 7)  // any bits: infinities, NaN, the largest numbers
          for (Array& input : inputs)
            if (input.present())
              fill(std::as_writable_bytes(std::span(input.bytes)), input.element, Filling(seed / 8 % 4), seed);
        const Array fused = result_of(entry, made.words, inputs);
        expect_same_bits(fused, steps_apart(op, type, made.words, inputs),
                         std::string(op) + type + " seed " + std::to_string(seed) + " (" + text(made) + ")");
        seen[made.words[entry.op == Op::kDense ? 0 : 8]][inputs[2].present()][inputs[3].present()] = true;
      }
  for (uint32_t kind = 0; kind <= Clamp::kGeluTanh; ++kind)
    for (const bool bias : {false, true}) {
      EXPECT_TRUE(seen[kind][bias][true]) << kind;
      EXPECT_EQ(seen[kind][bias][false], kind > Clamp::kBounds) << kind;
    }
}

TEST(fused_epilogue, writes_over_its_residual) {
  for (const char* op : {"DenseFused", "Conv2dFused", "DepthwiseConv2dFused"})
    for (const char* type : {"F32", "F16", "Bf16", "F64"}) {
      const KernelEntry& entry = entry_named(op, type);
      EXPECT_EQ(entry.in_place, 1 << 3);
      for (uint64_t seed = 0; seed < 50; ++seed) {
        Random random(seed);
        const Case made = random_case(entry, random);
        const std::vector<Array> inputs = random_inputs(made, random);
        if (!inputs[3].present()) continue;
        EXPECT_EQ(execute_in_place(entry, made.words, inputs, 3).outputs[0].bytes,
                  execute(entry, made.words, inputs).outputs[0].bytes)
            << op << type << " seed " << seed;
      }
    }
}

}  // namespace
}  // namespace nacre::test
