// Tests import_tflite on operators that move and interpolate pixels, against the arithmetic of LiteRT's reference
// kernels. tests/peers/spatial_tflite.py compares with the kernels themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/graph/run_graph.h"
#include "tests/importers/tflite_imports.h"
#include "tools/passes/passes.h"

namespace nacre::tools::tflite {
namespace {

Value run_file(const std::vector<uint8_t>& file, const std::vector<uint8_t>& x) {
  Graph graph = imported(file);
  simplify(graph);
  apply_policy(graph);
  check(graph);
  return run_graph(graph, {x}).values[size_t(graph.outputs[0].value)];
}

std::vector<int8_t> codes_of(const Value& v) {
  std::vector<int8_t> codes(v.data->size());
  std::transform(v.data->begin(), v.data->end(), codes.begin(), [](uint8_t byte) { return int8_t(byte); });
  return codes;
}

struct Corners {
  bool align, half;
};
constexpr Corners kCorners[] = {{false, false}, {true, false}, {false, true}};

// Repeats ComputeInterpolationValuesInteger of LiteRT's reference/resize_bilinear.h.
struct Interpolated {
  int32_t scaled, low, high;

  Interpolated(int i, int in, int out, Corners corners) {
    int32_t scale = ((1 << 10) * in + out / 2) / out;
    if (corners.align && out > 1) scale = ((1 << 10) * (in - 1) + (out - 1) / 2) / (out - 1);
    scaled = corners.half ? i * scale + scale / 2 - (1 << 9) : i * scale;
    low = std::max(scaled / (1 << 10), 0);
    high = std::min((scaled + (1 << 10) - 1) / (1 << 10), in - 1);
  }
  int64_t weight(bool upper) const { return upper ? scaled - (low << 10) : (1 << 10) - (scaled - (low << 10)); }
};

int8_t bilinear(const std::vector<int8_t>& x, int w, const Interpolated& row, const Interpolated& column) {
  int64_t sum = 0;
  for (const bool i : {false, true})
    for (const bool j : {false, true})
      sum +=
          row.weight(i) * column.weight(j) * x[size_t((i ? row.high : row.low) * w + (j ? column.high : column.low))];
  return int8_t((sum + (sum > 0 ? 1 << 19 : -(1 << 19))) / (1 << 20));
}

template <class Make>
std::vector<uint8_t> resize_file(BuiltinOperator code, int h, int w, int out_h, int out_w, Make options) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, h, w, 1}, 0.5f, 3), size = b.int32s("size", {2}, {out_h, out_w}),
            y = b.activation("y", {1, out_h, out_w, 1}, 0.5f, 3);
  b.op(code, {x, size}, {y}, options(b.fbb()));
  return b.finish({x}, {y});
}

TEST(import_tflite_resize, bilinear_codes_are_those_of_the_integer_kernel) {
  for (const Corners corners : kCorners)
    for (int h = 1; h <= 4; ++h)
      for (int out_h = 1; out_h <= 7; out_h += 2)
        for (const int out_w : {1, 2, 5, 8}) {
          std::vector<int8_t> x;
          for (int i = 0; i < h * 3; ++i) x.push_back(int8_t(i * 89 % 256 - 128));
          const auto file = resize_file(BuiltinOperator::RESIZE_BILINEAR, h, 3, out_h, out_w, [&](auto& fbb) {
            return CreateResizeBilinearOptions(fbb, 0, 0, corners.align, corners.half);
          });
          std::vector<int8_t> want;
          for (int i = 0; i < out_h; ++i)
            for (int j = 0; j < out_w; ++j)
              want.push_back(bilinear(x, 3, {i, h, out_h, corners}, {j, 3, out_w, corners}));
          ASSERT_EQ(codes_of(run_file(file, bytes_of(x))), want)
              << corners.align << corners.half << h << out_h << out_w;
        }
}

TEST(import_tflite_resize, nearest_copies_the_pixel_of_the_kernel) {
  for (const Corners corners : kCorners)
    for (int w = 1; w <= 5; ++w)
      for (int out_w = 1; out_w <= 9; ++out_w) {
        std::vector<int8_t> x, want;
        for (int i = 0; i < w; ++i) x.push_back(int8_t(i - 2));
        const auto file = resize_file(BuiltinOperator::RESIZE_NEAREST_NEIGHBOR, 1, w, 1, out_w, [&](auto& fbb) {
          return CreateResizeNearestNeighborOptions(fbb, corners.align, corners.half);
        });
        const bool between = corners.align && out_w > 1;
        const float scale = between ? float(w - 1) / float(out_w - 1) : float(w) / float(out_w);
        for (int i = 0; i < out_w; ++i) {
          const float at = (float(i) + (corners.half ? 0.5f : 0)) * scale;
          want.push_back(x[size_t(std::clamp(int(corners.align ? std::round(at) : std::floor(at)), 0, w - 1))]);
        }
        EXPECT_EQ(codes_of(run_file(file, bytes_of(x))), want) << corners.align << corners.half << w << out_w;
      }
}

TEST(import_tflite_resize, refuses_sizes_that_are_none) {
  const auto refused = [](int out_h, bool align, bool half) {
    return refusal(resize_file(BuiltinOperator::RESIZE_BILINEAR, 2, 2, out_h, 2,
                               [&](auto& fbb) { return CreateResizeBilinearOptions(fbb, 0, 0, align, half); }),
                   align ? kBadInput : kUnsupported);
  };
  EXPECT_NE(refused(0, false, false).find("a size of 0"), std::string::npos);
  EXPECT_NE(refused(1 << 20, false, false).find("a size of 1048576"), std::string::npos);
  EXPECT_NE(refused(2, true, true).find("both align_corners and half_pixel_centers"), std::string::npos);
}

// All scales are 1, so a code of y is the sum itself.
TEST(import_tflite_resize, transposed_convolutions_scatter_codes) {
  for (const int stride : {1, 2, 3})
    for (int kernel = 1; kernel <= 4; ++kernel)
      for (const Padding padding : {Padding::SAME, Padding::VALID}) {
        const int in = 3, valid = (in - 1) * stride + kernel, out = padding == Padding::SAME ? in * stride : valid;
        TfliteBuilder b;
        std::vector<int8_t> w, x = {7, -5, 2};
        for (int m = 0; m < kernel; ++m) w.push_back(int8_t(m - 1));
        const int shape = b.int32s("shape", {4}, {1, 1, out, 1}),
                  weights = b.codes("w", {1, 1, kernel, 1}, w, {.scale = {1}, .zero = {0}}),
                  given = b.activation("x", {1, 1, in, 1}, 1, 4),
                  bias = b.int32s("b", {1}, {9}, {.scale = {1}, .zero = {0}}),
                  y = b.activation("y", {1, 1, out, 1}, 1, -2);
        b.op(BuiltinOperator::TRANSPOSE_CONV, {shape, weights, given, bias}, {y},
             CreateTransposeConvOptions(b.fbb(), padding, stride, stride));
        const int windows = (out + stride - 1) / stride,
                  before = padding == Padding::SAME ? std::max(0, (windows - 1) * stride + kernel - out) / 2 : 0;
        std::vector<int8_t> want(size_t(out), 9 - 2);
        for (int i = 0; i < in; ++i)
          for (int m = 0; m < kernel; ++m)
            if (const int o = i * stride + m - before; o >= 0 && o < out)
              want[size_t(o)] = int8_t(want[size_t(o)] + (x[size_t(i)] - 4) * w[size_t(m)]);
        EXPECT_EQ(codes_of(run_file(b.finish({given}, {y}), bytes_of(x))), want) << stride << " " << kernel;
      }
}

TEST(import_tflite_resize, scales_of_input_channels_are_refused) {
  TfliteBuilder b;
  const int shape = b.int32s("shape", {4}, {1, 1, 1, 2}),
            w = b.codes("w", {2, 1, 1, 2}, {1, 2, 3, 4}, {.scale = {1, 10}, .zero = {0, 0}, .axis = 3}),
            x = b.activation("x", {1, 1, 1, 2}, 1, 0), y = b.activation("y", {1, 1, 1, 2}, 1, 0);
  b.op(BuiltinOperator::TRANSPOSE_CONV, {shape, w, x}, {y}, CreateTransposeConvOptions(b.fbb(), Padding::VALID, 1, 1));
  EXPECT_NE(refusal(b.finish({x}, {y}), kUnsupported).find("scales along another axis than channels"),
            std::string::npos);
}

TEST(import_tflite_resize, blocks_go_to_channels_or_to_the_batch_and_back) {
  std::vector<float> x(24);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i);
  TfliteBuilder b;
  const int in = b.activation("x", {1, 2, 4, 3}), deep = b.activation("d", {1, 1, 2, 12}),
            y = b.activation("y", {1, 2, 4, 3});
  b.op(BuiltinOperator::SPACE_TO_DEPTH, {in}, {deep}, CreateSpaceToDepthOptions(b.fbb(), 2));
  b.op(BuiltinOperator::DEPTH_TO_SPACE, {deep}, {y}, CreateDepthToSpaceOptions(b.fbb(), 2));
  EXPECT_EQ(reals(run_file(b.finish({in}, {y}), bytes_of(x))), x);

  TfliteBuilder c;
  const int image = c.activation("x", {1, 2, 4, 3}), block = c.int32s("block", {2}, {2, 3}),
            ends = c.int32s("ends", {2, 2}, {1, 1, 2, 0}), rows = c.activation("r", {6, 2, 2, 3}),
            back = c.activation("y", {1, 2, 4, 3});
  c.op(BuiltinOperator::SPACE_TO_BATCH_ND, {image, block, ends}, {rows});
  c.op(BuiltinOperator::BATCH_TO_SPACE_ND, {rows, block, ends}, {back});
  EXPECT_EQ(reals(run_file(c.finish({image}, {back}), bytes_of(x))), x);
}

TEST(import_tflite_resize, symmetric_padding_mirrors_the_ends_too) {
  TfliteBuilder b;
  const int x = b.activation("x", {2, 3}), pads = b.int32s("pads", {2, 2}, {1, 0, 2, 3}), y = b.activation("y", {3, 8});
  b.op(BuiltinOperator::MIRROR_PAD, {x, pads}, {y}, CreateMirrorPadOptions(b.fbb(), MirrorPadMode::SYMMETRIC));
  const std::vector<float> rows[] = {{2, 1, 1, 2, 3, 3, 2, 1}, {5, 4, 4, 5, 6, 6, 5, 4}};
  std::vector<float> want = rows[0];
  want.insert(want.end(), rows[0].begin(), rows[0].end());
  want.insert(want.end(), rows[1].begin(), rows[1].end());
  EXPECT_EQ(reals(run_file(b.finish({x}, {y}), bytes_of(std::vector<float>{1, 2, 3, 4, 5, 6}))), want);
}

}  // namespace
}  // namespace nacre::tools::tflite
