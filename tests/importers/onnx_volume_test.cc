// Tests import_onnx on Conv and pools over volumes, against loops over their sums and maxima.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

using Volume = std::vector<float>;

constexpr int kIn[] = {4, 3, 2}, kKernel[] = {2, 2, 1}, kStride[] = {2, 1, 1}, kDilation[] = {2, 1, 1},
              kBefore[] = {1, 0, 0}, kAfter[] = {0, 1, 0}, kOut[] = {2, 3, 2};

Volume pattern(int count) {
  Volume x;
  for (int i = 0; i < count; ++i) x.push_back(float(i * 7 % 11) - 5);
  return x;
}

// Calls f(index into an input volume, tap) for each tap of output e that lies inside the input.
template <class F>
void each_tap(int e, F f) {
  const int out[] = {e / (kOut[1] * kOut[2]), e / kOut[2] % kOut[1], e % kOut[2]};
  for (int tap = 0; tap < kKernel[0] * kKernel[1] * kKernel[2]; ++tap) {
    const int k[] = {tap / (kKernel[1] * kKernel[2]), tap / kKernel[2] % kKernel[1], tap % kKernel[2]};
    int at = 0;
    bool inside = true;
    for (int i = 0; i < 3; ++i) {
      const int p = out[i] * kStride[i] + k[i] * kDilation[i] - kBefore[i];
      inside = inside && p >= 0 && p < kIn[i];
      at = at * kIn[i] + p;
    }
    if (inside) f(at, tap);
  }
}

OnnxBuilder volume(const char* op, int count_include_pad = 0) {
  const bool conv = std::string(op) == "Conv";
  OnnxBuilder b(19);
  b.input("x", {1, 2, 4, 3, 2});
  if (conv) b.floats("w", {4, 1, 2, 2, 1}, pattern(16));
  if (conv) b.floats("b", {4}, {1, 2, 3, 4});
  OnnxNode node = b.node(op, conv ? std::vector<std::string>{"x", "w", "b"} : std::vector<std::string>{"x"}, {"y"});
  node.ints("kernel_shape", {2, 2, 1}).ints("strides", {2, 1, 1}).ints("dilations", {2, 1, 1});
  node.ints("pads", {1, 0, 0, 0, 1, 0});
  if (conv) node.integer("group", 2);
  if (count_include_pad != 0) node.integer("count_include_pad", 1);
  b.output("y");
  return b;
}

constexpr int kPlane = 4 * 3 * 2, kOutputs = 2 * 3 * 2;

TEST(onnx_volume, convolutions_sum_slices_of_every_group) {
  const Volume x = pattern(2 * kPlane), w = pattern(16);
  Volume want;
  for (int k = 0; k < 4; ++k)
    for (int e = 0; e < kOutputs; ++e) {
      float sum = float(k + 1);
      each_tap(e, [&](int at, int tap) { sum += x[size_t(k / 2 * kPlane + at)] * w[size_t(k * 4 + tap)]; });
      want.push_back(sum);
    }
  EXPECT_EQ(output(imported(volume("Conv"))).dims, (Dims{1, 4, 2, 3, 2}));
  EXPECT_EQ(computed(volume("Conv"), x), want);
}

// Each element of x, with the weights of its group, is added to the outputs that its kernel reaches.
TEST(onnx_volume, transposed_convolutions_add_a_kernel_for_each_element) {
  constexpr int kernel[] = {3, 2, 1}, stride[] = {2, 1, 1}, dilation[] = {1, 2, 1}, before[] = {1, 0, 0},
                out[] = {9, 4, 2}, taps = 3 * 2 * 1, plane = 9 * 4 * 2;
  const Volume x = pattern(2 * kPlane), w = pattern(2 * 2 * taps);
  Volume want(4 * plane, 1);
  for (int c = 0; c < 2; ++c)
    for (int e = 0; e < kPlane; ++e)
      for (int tap = 0; tap < taps; ++tap) {
        const int i[] = {e / 6, e / 2 % 3, e % 2}, m[] = {tap / 2, tap % 2, 0};
        int at = 0;
        bool inside = true;
        for (int a = 0; a < 3; ++a) {
          const int o = i[a] * stride[a] + m[a] * dilation[a] - before[a];
          inside = inside && o >= 0 && o < out[a];
          at = at * out[a] + o;
        }
        for (int k = 0; inside && k < 2; ++k)
          want[size_t((2 * c + k) * plane + at)] += x[size_t(c * kPlane + e)] * w[size_t((c * 2 + k) * taps + tap)];
      }
  OnnxBuilder b(19);
  b.input("x", {1, 2, 4, 3, 2});
  b.floats("w", {2, 2, kernel[0], kernel[1], kernel[2]}, w);
  b.filled("b", {4}, 1);
  OnnxNode node = b.node("ConvTranspose", {"x", "w", "b"}, {"y"}).integer("group", 2);
  node.ints("strides", {2, 1, 1}).ints("dilations", {1, 2, 1}).ints("pads", {1, 0, 0, 0, 1, 0});
  node.ints("output_padding", {1, 0, 0});
  b.output("y");
  EXPECT_EQ(output(imported(b)).dims, (Dims{1, 4, 9, 4, 2}));
  EXPECT_EQ(computed(b, x), want);  // whole numbers: to the bit
}

TEST(onnx_volume, pools_take_the_taps_inside) {
  const Volume x = pattern(2 * kPlane);
  Volume most, mean, counted;
  for (int c = 0; c < 2; ++c)
    for (int e = 0; e < kOutputs; ++e) {
      float peak = -INFINITY, sum = 0;
      int taps = 0;
      each_tap(e, [&](int at, int) {
        const float v = x[size_t(c * kPlane + at)];
        peak = std::max(peak, v), sum += v, ++taps;
      });
      most.push_back(peak);
      mean.push_back(sum / float(taps));
      counted.push_back(sum / 4);
    }
  EXPECT_EQ(computed(volume("MaxPool"), x), most);
  const Volume means = computed(volume("AveragePool"), x), counts = computed(volume("AveragePool", 1), x);
  for (size_t i = 0; i < mean.size(); ++i) {
    EXPECT_NEAR(means[i], mean[i], 1e-6) << i;
    EXPECT_NEAR(counts[i], counted[i], 1e-6) << i;
  }
}

}  // namespace
}  // namespace nacre::tools
