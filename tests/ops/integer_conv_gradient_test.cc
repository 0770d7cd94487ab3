// Tests error propagation of integer training through convolutions, pools and sums, against the definitions in 64-bit
// integers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/kernels/training.h"
#include "tests/cases_random.h"
#include "tests/one_step.h"
#include "tests/ops/integer_arrays.h"

namespace nacre::test {
namespace {

using namespace integer_arrays;

// A random convolution, whose products are those of the definition: one per pixel of y and tap.
struct ConvProblem {
  int batch, in_h, in_w, in, out, kernel, stride, pad, groups;
  bool depthwise;

  int out_h() const { return (in_h + 2 * pad - kernel) / stride + 1; }
  int out_w() const { return (in_w + 2 * pad - kernel) / stride + 1; }
  std::vector<int32_t> e() const { return {batch, out_h(), out_w(), out}; }
  std::vector<int32_t> x() const { return {batch, in_h, in_w, in}; }
  std::vector<int32_t> w() const {
    return depthwise ? std::vector<int32_t>{kernel, kernel, out}
                     : std::vector<int32_t>{out, kernel, kernel, in / groups};
  }
  std::vector<uint32_t> words() const {
    const auto s = uint32_t(stride - 1), p = uint32_t(pad);
    return {s, s, 0, 0, p, p, p, p, 0, 0, 0, 0, 0, depthwise ? 0u : uint32_t(groups - 1)};
  }
  // Calls f(index in e, in x, in w, output channel) for each product.
  template <class F>
  void each(F f) const {
    const int per = depthwise ? 1 : in / groups, outs = depthwise ? out / in : out / groups;
    for (int n = 0; n < batch; ++n)
      for (int h = 0; h < out_h(); ++h)
        for (int v = 0; v < out_w(); ++v)
          for (int k = 0; k < out; ++k)
            for (int i = 0; i < kernel; ++i)
              for (int j = 0; j < kernel; ++j)
                for (int c = 0; c < per; ++c) {
                  const int p = h * stride - pad + i, q = v * stride - pad + j;
                  if (p < 0 || p >= in_h || q < 0 || q >= in_w) continue;
                  const int channel = k / outs * per + c;
                  f(((n * out_h() + h) * out_w() + v) * out + k, ((n * in_h + p) * in_w + q) * in + channel,
                    depthwise ? (i * kernel + j) * out + k : ((k * kernel + i) * kernel + j) * per + c, k);
                }
  }
};

ConvProblem random_problem(Random& random) {
  ConvProblem c = {.batch = pick(random, 1, 3),
                   .in_h = pick(random, 4, 7),
                   .in_w = pick(random, 4, 7),
                   .in = 0,
                   .out = 0,
                   .kernel = pick(random, 1, 3),
                   .stride = pick(random, 1, 2),
                   .pad = 0,
                   .groups = 1,
                   .depthwise = chance(random, 50)};
  c.pad = c.kernel > 1 ? pick(random, 0, 1) : 0;
  c.groups = c.depthwise ? 1 : pick(random, 1, 2);
  c.in = c.groups * pick(random, 1, c.depthwise ? 40 : 20);
  c.out = c.depthwise ? c.in * pick(random, 1, 2) : c.groups * pick(random, 1, 10);
  return c;
}

TEST(int8_gradients, of_convolutions_are_those_of_the_plain_definition) {
  Random random(12);
  for (int trial = 0; trial < 150; ++trial) {
    const ConvProblem c = random_problem(random);
    const int zero = pick(random, -128, 127), low = -128, high = pick(random, 0, 127), h = pick(random, 2, 20);
    const Array e = codes(random, c.e(), -127, 127), x = codes(random, c.x(), -128, 127),
                w = codes(random, c.w(), -127, 127);
    std::vector<double> factor;
    for (int k = 0; k < c.out; ++k) factor.push_back(pick(random, 0, 1 << 8));
    std::vector<int64_t> dw(size_t(w.elements())), a(size_t(x.elements()));
    c.each([&](int ei, int xi, int wi, int k) {
      dw[size_t(wi)] += e.integer(ei) * (x.integer(xi) - zero);
      a[size_t(xi)] += e.integer(ei) * int64_t(factor[size_t(k)]) * w.integer(wi);
    });
    std::vector<uint32_t> of_w = c.words(), of_x = c.words();
    of_w[11] = uint32_t(zero);
    of_x[8] = 1, of_x[9] = uint32_t(low), of_x[10] = uint32_t(high);
    const Execution sums =
        execute(c.depthwise ? reference::kDepthwiseConv2dInt8GradientWI8 : reference::kConv2dInt8GradientWI8, of_w,
                {e, x, words32(kI32, std::vector<double>(dw.size(), 5), c.w())});
    const Execution back = execute(
        c.depthwise ? reference::kDepthwiseConv2dInt8GradientXI8 : reference::kConv2dInt8GradientXI8, of_x,
        {e, w, words32(kI32, factor), x, words32(kI32, {3, 0}), words32(kI32, {double(h + 3), 0}), words32(kU32, {0})});
    ASSERT_EQ(sums.code, Code::kOk) << trial;
    ASSERT_EQ(back.code, Code::kOk) << trial;
    for (size_t i = 0; i < dw.size(); ++i) ASSERT_EQ(sums.updated[0].integer(int64_t(i)), dw[i] + 5) << trial;
    int64_t most = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const int64_t at = x.integer(int64_t(i)), v = at > low && at < high ? a[i] : 0;
      most = std::max(most, std::abs(v));
      ASSERT_EQ(back.outputs[0].integer(int64_t(i)), clipped(std::llround(std::ldexp(double(v), -h)), 127)) << trial;
    }
    EXPECT_EQ(back.updated[0].integer(0), most);
  }
}

TEST(int8_gradients, of_pools_go_to_the_pixels_of_their_window) {
  Random random(13);
  for (int trial = 0; trial < 60; ++trial) {
    const int kernel = pick(random, 1, 3), stride = kernel + pick(random, 0, 1), channels = pick(random, 1, 40);
    const int out = 2, in = (out - 1) * stride + kernel + pick(random, 0, stride - 1);
    const Array e = codes(random, {1, out, out, channels}, -127, 127), x = codes(random, {1, in, in, channels}, -9, 9);
    const auto k = uint32_t(kernel - 1), s = uint32_t(stride - 1);
    const std::vector<uint32_t> words = {s, s, 0, 0, 0, 0, 0, 0, k, k};
    const Execution average = execute(reference::kAveragePoolInt8GradientI8, words, {e, x}),
                    most = execute(reference::kMaxPoolInt8GradientI8, words, {e, x});
    ASSERT_TRUE(average.code == Code::kOk && most.code == Code::kOk);
    for (int p = 0; p < in; ++p)
      for (int q = 0; q < in; ++q)
        for (int c = 0; c < channels; ++c) {
          const int h = p / stride, v = q / stride, at = (p * in + q) * channels + c;
          const bool inside = h < out && v < out && p - h * stride < kernel && q - v * stride < kernel;
          const int64_t passed = inside ? e.integer((h * out + v) * channels + c) : 0;
          bool first = inside;
          for (int i = 0; inside && i < kernel; ++i)
            for (int j = 0; j < kernel; ++j) {
              const int other = ((h * stride + i) * in + v * stride + j) * channels + c;
              if (x.integer(other) > x.integer(at) || (x.integer(other) == x.integer(at) && other < at)) first = false;
            }
          ASSERT_EQ(average.outputs[0].integer(at), passed);
          ASSERT_EQ(most.outputs[0].integer(at), first ? passed : 0);
        }
  }
  const Array e = codes(random, {1, 2, 2, 1}, -9, 9), x = codes(random, {1, 3, 3, 1}, -9, 9);
  EXPECT_EQ(execute(reference::kAveragePoolInt8GradientI8, {0, 0, 0, 0, 0, 0, 0, 0, 1, 1}, {e, x}).code, Code::kStride)
      << "windows that overlap";
}

TEST(int8_gradients, of_sums_pass_and_meet_again) {
  Random random(14);
  for (int trial = 0; trial < 200; ++trial) {
    const int n = pick(random, 1, 50), low = pick(random, -128, 0), high = pick(random, 0, 127);
    const Array a = codes(random, {n}, -127, 127), b = codes(random, {n}, -127, 127), x = codes(random, {n}, -128, 127);
    const Execution mask = execute(reference::kMaskErrorI8, {uint32_t(low), uint32_t(high)}, {a, x});
    const int ea = pick(random, -5, 5), eb = pick(random, -5, 5), factor = pick(random, 1, 1 << 16),
              h = pick(random, 8, 20);
    const Execution sum = execute(reference::kAddErrorsI8, {1 << 16, uint32_t(factor)},
                                  {a, b, words32(kI32, {double(ea), 0}), words32(kI32, {double(eb), 0}),
                                   words32(kI32, {double(std::max(ea, eb) + h), 0}), words32(kU32, {0})});
    ASSERT_TRUE(mask.code == Code::kOk && sum.code == Code::kOk);
    int64_t most = 0;
    for (int i = 0; i < n; ++i) {
      const int64_t at = x.integer(i);
      ASSERT_EQ(mask.outputs[0].integer(i), at > low && at < high ? a.integer(i) : 0);
      const int top = std::max(ea, eb);
      const int64_t total = std::llround(std::ldexp(double(a.integer(i) * 65536), ea - top)) +
                            std::llround(std::ldexp(double(b.integer(i) * factor), eb - top));
      most = std::max(most, std::abs(total));
      ASSERT_EQ(sum.outputs[0].integer(i), clipped(std::llround(std::ldexp(double(total), -h)), 127));
    }
    EXPECT_EQ(sum.updated[0].integer(0), most);
  }
}

}  // namespace
}  // namespace nacre::test
