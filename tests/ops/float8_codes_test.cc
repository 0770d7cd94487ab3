// Tests the codes that a float8 training step multiplies, and their products: engine/ops/fake_float8.h, dense.h and
// conv_gradient.h.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/kernels/training.h"
#include "tests/one_step.h"
#include "tests/random_conv.h"
#include "tests/short_names.h"

namespace nacre::test {
namespace {

constexpr ElementType kE5M2 = ElementType::kFloat8E5M2;

// Returns random numbers of 7 significant bits; some saturate as float8.
Array some_reals(ElementType type, std::vector<int32_t> dims, Random& random) {
  Array array = make_array(type, std::move(dims));
  for (int64_t i = 0; i < array.elements(); ++i)
    array.set(i, std::ldexp(pick(random, -127, 127), pick(random, -12, 12)));
  return array;
}

// Kernels that give codes must agree with quantize, and their amax with that of the kernels that give values.
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

// The kernel adds (t u) sum_r dy_rk x_ri to dw. A product of codes is exact in float32, so only n sums and two
// products round.
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

// dx = (t_dy t_w) dy w is a dense layer with the transpose of w.
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

// Sums in float64 over all products of a convolution: value, magnitude and number of terms of each element.
struct Sums {
  std::vector<double> value, magnitude;
  std::vector<int> terms;
  explicit Sums(const Array& like) : value(size_t(like.elements())), magnitude(value), terms(value.size()) {}
  void add(int at, double term) {
    value[size_t(at)] += term, magnitude[size_t(at)] += std::abs(term), ++terms[size_t(at)];
  }
};

// Tests dx and the addition to dw of random convolutions. The errors are n sums of exact products, two products of
// scales, and the rounding of dx.
TEST(float8_codes, gradients_of_convolutions_are_products_of_codes) {
  using namespace reference;
  Random random(5);
  for (int trial = 0; trial < 40; ++trial) {
    const RandomConv conv(random);
    Array dy = make_array(kE5M2, conv.y_dims), x = make_array(kE4M3, conv.x_dims), w = make_array(kE4M3, conv.w_dims),
          dw = make_array(kF32, conv.w_dims);
    for (Array* array : {&dy, &x, &w, &dw})
      for (int64_t i = 0; i < array->elements(); ++i) array->set(i, between(random, -4, 4));
    const Array t = array_of<double>(kF32, {1}, {between(random, 0.01, 1)}),
                u = array_of<double>(kF32, {1}, {between(random, 0.01, 1)});
    const double step = t.real(0) * u.real(0);
    Sums of_x(x), of_w(w);
    conv.each_product([&](int at_x, int at_w, int at_y) {
      of_x.add(at_x, dy.real(at_y) * w.real(at_w));
      of_w.add(at_w, dy.real(at_y) * x.real(at_x));
    });
    const struct {
      const KernelEntry& entry;
      double epsilon;
    } all[] = {{kConv2dGradientXFloat8F32, 0x1p-24},
               {kConv2dGradientXFloat8F16, 0x1p-11},
               {kConv2dGradientXFloat8Bf16, 0x1p-8}};
    for (const auto& [entry, epsilon] : all) {
      const Execution made = execute(entry, conv.words_x, {dy, w, t, u});
      ASSERT_EQ(made.code, Code::kOk);
      EXPECT_FALSE(made.overrun || made.impure);
      ASSERT_EQ(made.outputs[0].dims, conv.x_dims);
      for (size_t i = 0; i < of_x.value.size(); ++i) {
        const double error = (of_x.terms[i] + 2) * of_x.magnitude[i] * step * 0x1p-24;
        const double tiny = entry.operands[4].element == kF16 ? 0x1p-25 : 0;
        EXPECT_NEAR(made.outputs[0].real(int64_t(i)), step * of_x.value[i],
                    error + (std::abs(step * of_x.value[i]) + error) * epsilon + tiny)
            << "trial " << trial;
      }
    }
    const Execution made = execute(kConv2dFloat8GradientW, conv.words, {dy, x, t, u, dw});
    ASSERT_EQ(made.code, Code::kOk);
    EXPECT_FALSE(made.overrun || made.impure);
    for (size_t i = 0; i < of_w.value.size(); ++i) {
      const double magnitude = of_w.magnitude[i] * step, before = dw.real(int64_t(i));
      EXPECT_NEAR(made.updated[0].real(int64_t(i)), before + step * of_w.value[i],
                  ((of_w.terms[i] + 3) * magnitude + std::abs(before) + magnitude) * 0x1p-24)
          << "trial " << trial;
    }
  }
}

TEST(float8_codes, gradients_of_convolutions_refuse_what_does_not_belong_together) {
  using namespace reference;
  std::vector<uint32_t> words(19);
  words[16] = words[17] = 3, words[18] = 4;
  const auto refusal = [](const KernelEntry& entry, const std::vector<uint32_t>& of,
                          const std::vector<std::vector<int32_t>>& dims) {
    std::vector<Array> inputs;
    for (size_t i = 0; i < dims.size(); ++i) inputs.push_back(make_array(entry.operands[i].element, dims[i]));
    return execute(entry, of, inputs).code;
  };
  const KernelEntry& x = kConv2dGradientXFloat8F32;
  EXPECT_EQ(refusal(x, words, {{1, 3, 3, 6}, {6, 1, 1, 4}, {1}, {1}}), Code::kOk);
  EXPECT_EQ(refusal(x, words, {{1, 3, 3, 6}, {6, 1, 1, 4}, {6}, {1}}), Code::kShapeScale);
  EXPECT_EQ(refusal(x, words, {{1, 3, 3, 6}, {6, 1, 1, 4}, {1}, {1, 1}}), Code::kShapeScale);
  EXPECT_EQ(refusal(x, words, {{1, 3, 3, 6}, {6, 1, 1, 2}, {1}, {1}}), Code::kShapeWeights);
  EXPECT_EQ(refusal(x, words, {{1, 2, 3, 6}, {6, 1, 1, 4}, {1}, {1}}), Code::kShapeInput);
  const KernelEntry& w = kConv2dFloat8GradientW;
  words.resize(16);
  EXPECT_EQ(refusal(w, words, {{1, 3, 3, 6}, {1, 3, 3, 4}, {1}, {1}, {6, 1, 1, 4}}), Code::kOk);
  EXPECT_EQ(refusal(w, words, {{1, 3, 3, 6}, {1, 3, 3, 4}, {2}, {1}, {6, 1, 1, 4}}), Code::kShapeScale);
  EXPECT_EQ(refusal(w, words, {{1, 3, 3, 6}, {1, 3, 3, 4}, {1}, {2}, {6, 1, 1, 4}}), Code::kShapeScale);
  EXPECT_EQ(refusal(w, words, {{1, 3, 3, 6}, {1, 3, 3, 4}, {1}, {1}, {6, 1, 1, 3}}), Code::kShapeWeights);
  EXPECT_EQ(refusal(w, words, {{1, 3, 3, 5}, {1, 3, 3, 4}, {1}, {1}, {6, 1, 1, 4}}), Code::kShapeInput);
  words[8] = 1;
  EXPECT_EQ(refusal(w, words, {{1, 3, 3, 6}, {1, 3, 3, 4}, {1}, {1}, {6, 1, 1, 4}}), Code::kAttribute);
}

}  // namespace
}  // namespace nacre::test
