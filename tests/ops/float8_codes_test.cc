// The codes that a training step in float8 multiplies, and their products: engine/ops/fake_float8.h, dense.h.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/kernels/training.h"
#include "tests/cases_random.h"
#include "tests/one_step.h"
#include "tests/short_names.h"

namespace nacre::test {
namespace {

constexpr ElementType kE5M2 = ElementType::kFloat8E5M2;

// Random numbers, all of them 16-bit ones; some saturate.
Array some_reals(ElementType type, std::vector<int32_t> dims, Random& random) {
  Array array = make_array(type, std::move(dims));
  for (int64_t i = 0; i < array.elements(); ++i)
    array.set(i, std::ldexp(pick(random, -127, 127), pick(random, -12, 12)));
  return array;
}

// Of the codes' own kernels, and the amax of the values'.
TEST(float8_codes, are_those_of_quantize_and_stand_for_what_fake_float8_makes) {
  using namespace reference;
  const struct {
    const KernelEntry &codes, &values, &quantize, &dequantize;
    uint32_t format;
  } all[] = {{kFakeFloat8F32E4M3, kFakeFloat8F32, kQuantizeE4M3, kDequantizeE4M3, 0},
             {kFakeFloat8F32E5M2, kFakeFloat8F32, kQuantizeE5M2, kDequantizeE5M2, 1},
             {kFakeFloat8F16E4M3, kFakeFloat8F16, kQuantizeE4M3, kDequantizeE4M3, 0},
             {kFakeFloat8F16E5M2, kFakeFloat8F16, kQuantizeE5M2, kDequantizeE5M2, 1},
             {kFakeFloat8Bf16E4M3, kFakeFloat8Bf16, kQuantizeE4M3, kDequantizeE4M3, 0},
             {kFakeFloat8Bf16E5M2, kFakeFloat8Bf16, kQuantizeE5M2, kDequantizeE5M2, 1}};
  for (const auto& [codes, values, quantize, dequantize, format] : all)
    for (const uint32_t form : {0u, 1u}) {
      Random random(format * 2 + form);
      const ElementType type = codes.operands[0].element;
      const Array x = some_reals(type, {7, 30}, random), scale = array_of<double>(kF32, {1}, {0.375}),
                  amax = array_of<double>(kU32, {1}, {0});
      const Execution q = execute(codes, {format, form}, {x, scale, amax}),
                      y = execute(values, {format, form}, {x, scale, amax});
      ASSERT_EQ(q.code, Code::kOk);
      EXPECT_FALSE(q.overrun || q.impure);
      EXPECT_EQ(q.updated[0].bytes, y.updated[0].bytes);
      Array wide = make_array(kF32, x.dims);
      for (int64_t i = 0; i < x.elements(); ++i) wide.set(i, x.real(i));
      EXPECT_EQ(q.outputs[0].bytes, execute(quantize, {0, form}, {wide, scale}).outputs[0].bytes);
      const Array decoded = execute(dequantize, {0, form}, {q.outputs[0], scale}).outputs[0];
      Array rounded = make_array(type, x.dims);
      for (int64_t i = 0; i < x.elements(); ++i) rounded.set(i, decoded.real(i));
      EXPECT_EQ(rounded.bytes, y.outputs[0].bytes);
    }
}

// dw + (t u) sum_r dy_rk x_ri: a product of codes is exact in float32, so n sums and two products are rounded.
TEST(float8_codes, gradients_of_weights_are_products_of_codes) {
  Random random(3);
  for (int trial = 0; trial < 30; ++trial) {
    const int rows = pick(random, 1, 50), out = pick(random, 1, 9), in = pick(random, 1, 40);
    Array dy = make_array(kE5M2, {rows, out}), x = make_array(kE4M3, {rows, in}), dw = make_array(kF32, {out, in});
    for (Array* array : {&dy, &x, &dw})
      for (int64_t i = 0; i < array->elements(); ++i) array->set(i, between(random, -4, 4));
    const Array t = array_of<double>(kF32, {1}, {between(random, 0.01, 1)}),
                u = array_of<double>(kF32, {1}, {between(random, 0.01, 1)});
    const Execution made = execute(reference::kDenseFloat8GradientW, {}, {dy, x, t, u, dw});
    ASSERT_EQ(made.code, Code::kOk);
    EXPECT_FALSE(made.overrun || made.impure);
    for (int k = 0; k < out; ++k)
      for (int i = 0; i < in; ++i) {
        double sum = 0, magnitude = 0;
        for (int r = 0; r < rows; ++r) {
          const double term = dy.real(r * out + k) * x.real(r * in + i);
          sum += term, magnitude += std::abs(term);
        }
        const double step = t.real(0) * u.real(0), before = dw.real(k * in + i);
        const double bound = ((rows + 3) * magnitude * step + std::abs(before) + magnitude * step) * 0x1p-24;
        EXPECT_NEAR(made.updated[0].real(k * in + i), before + step * sum, bound);
      }
  }
}

TEST(float8_codes, gradients_of_weights_refuse_what_does_not_belong_together) {
  const auto refusal = [](std::vector<uint32_t> words, std::vector<std::vector<int32_t>> dims) {
    const KernelEntry& entry = reference::kDenseFloat8GradientW;
    std::vector<Array> inputs;
    for (size_t i = 0; i < dims.size(); ++i) inputs.push_back(make_array(entry.operands[i].element, dims[i]));
    return execute(entry, words, inputs).code;
  };
  EXPECT_EQ(refusal({}, {{2, 3}, {2, 4}, {1}, {1}, {3, 4}}), Code::kOk);
  EXPECT_EQ(refusal({1}, {{2, 3}, {2, 4}, {1}, {1}, {3, 4}}), Code::kAttribute);
  EXPECT_EQ(refusal({}, {{2, 3}, {2, 4}, {2}, {1}, {3, 4}}), Code::kShapeScale);
  EXPECT_EQ(refusal({}, {{2, 3}, {2, 4}, {1}, {1, 1}, {3, 4}}), Code::kShapeScale);
  EXPECT_EQ(refusal({}, {{2, 3}, {3, 4}, {1}, {1}, {3, 4}}), Code::kShapeInput);
  EXPECT_EQ(refusal({}, {{2, 3}, {2, 4}, {1}, {1}, {4, 3}}), Code::kShapeWeights);
}

// dx = (t_dy t_w) dy w, as a dense layer of the transpose of w.
TEST(float8_codes, gradients_of_inputs_are_a_dense_layer) {
  Random random(4);
  const Array dy = array_of<double>(kE5M2, {1, 2}, {3, -0.5}), w = array_of<double>(kE4M3, {2, 3}, {1, 2, 3, 4, 5, 6}),
              t = array_of<double>(kF32, {1}, {0.5}), u = array_of<double>(kF32, {1}, {0.25});
  const Array turned = execute(reference::kTransposeE4M3, {1, 0}, {w}).outputs[0];
  ASSERT_EQ(turned.dims, (std::vector<int32_t>{3, 2}));
  for (const KernelEntry* entry : {&reference::kDenseFloat8GradientF32, &reference::kDenseFloat8GradientF16,
                                   &reference::kDenseFloat8GradientBf16}) {
    const Execution made = execute(*entry, {}, {dy, turned, Array(), t, u});
    ASSERT_EQ(made.code, Code::kOk);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(made.outputs[0].real(i), (3 * w.real(i) - 0.5 * w.real(3 + i)) * 0.125);
  }
}

}  // namespace
}  // namespace nacre::test
