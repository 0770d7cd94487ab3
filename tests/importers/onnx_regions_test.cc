// Tests import_onnx on RoiAlign and DeformConv, whose coordinates are computed at run time, against loops for both.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

class Draws {
 public:
  explicit Draws(uint32_t seed) : random_(seed) {}

  int whole(int low, int high) { return low + int(random_() % uint32_t(high - low + 1)); }
  // Draws multiples of 1/64, so that sums of coordinates are exact.
  std::vector<float> some(int64_t count, int low, int high) {
    std::vector<float> made(static_cast<size_t>(count));
    for (float& v : made) v = float(whole(64 * low, 64 * high)) / 64;
    return made;
  }

 private:
  std::mt19937 random_;
};

// One channel of an image: x [height, width].
struct Image {
  const float* x;
  int height, width;

  double pixel(int i, int j) const { return i < 0 || j < 0 || i >= height || j >= width ? 0 : x[i * width + j]; }
  // Returns the four pixels around the coordinates (p, q), each times its bilinear weight.
  std::vector<double> parts(double p, double q) const {
    const int i = int(std::floor(p)), j = int(std::floor(q));
    const double u = p - i, v = q - j;
    return {(1 - u) * (1 - v) * pixel(i, j), (1 - u) * v * pixel(i, j + 1), u * (1 - v) * pixel(i + 1, j),
            u * v * pixel(i + 1, j + 1)};
  }
  double at(double p, double q) const {
    double sum = 0;
    for (const double part : parts(p, q)) sum += part;
    return sum;
  }
};

struct Roi {
  int n, c, h, w, r, oh, ow, samples;
  float scale;
  bool half, most;
};

// Computes RoiAlign as onnxruntime's roialign.cc does.
std::vector<double> roi_align(const Roi& a, const std::vector<float>& x, const std::vector<float>& rois,
                              const std::vector<int64_t>& images) {
  std::vector<double> y;
  for (int r = 0; r < a.r; ++r)
    for (int c = 0; c < a.c; ++c) {
      const Image image = {x.data() + (images[size_t(r)] * a.c + c) * a.h * a.w, a.h, a.w};
      const float* const roi = rois.data() + 4 * r;
      const double off = a.half ? 0.5 : 0, left = roi[0] * a.scale - off, top = roi[1] * a.scale - off;
      double width = roi[2] * a.scale - off - left, height = roi[3] * a.scale - off - top;
      if (!a.half) width = std::max(width, 1.0), height = std::max(height, 1.0);
      for (int i = 0; i < a.oh; ++i)
        for (int j = 0; j < a.ow; ++j) {
          double sum = 0, most = -1e30;
          for (int s = 0; s < a.samples * a.samples; ++s) {
            const double p = top + (i * a.samples + s / a.samples + 0.5) * height / (a.oh * a.samples);
            const double q = left + (j * a.samples + s % a.samples + 0.5) * width / (a.ow * a.samples);
            const bool outside = p < -1 || p > a.h || q < -1 || q > a.w;
            const auto near = [](double v, int size) { return std::min(std::max(v, 0.0), size - 1.0); };
            for (double part : image.parts(near(p, a.h), near(q, a.w))) {
              if (outside) part = 0;
              sum += part, most = std::max(most, part);
            }
          }
          y.push_back(a.most ? most : sum / (a.samples * a.samples));
        }
    }
  return y;
}

TEST(onnx_regions, roi_align_is_that_of_onnxruntime) {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    Draws random(seed);
    const Roi a = {random.whole(1, 2),          random.whole(1, 3), random.whole(1, 6), random.whole(1, 6),
                   random.whole(1, 4),          random.whole(1, 3), random.whole(1, 3), random.whole(1, 3),
                   seed % 3 == 0 ? 0.5f : 1.0f, seed % 2 == 0,      seed % 4 > 1};
    const std::vector<float> x = random.some(a.n * a.c * a.h * a.w, -2, 2), rois = random.some(4 * a.r, -3, 9);
    std::vector<int64_t> images;
    for (int r = 0; r < a.r; ++r) images.push_back(random.whole(0, a.n - 1));
    OnnxBuilder b(a.half || a.most ? 16 : 10);
    b.input("x", {a.n, a.c, a.h, a.w});
    b.input("rois", {a.r, 4});
    b.integers("images", {a.r}, images);
    OnnxNode node = b.node("RoiAlign", {"x", "rois", "images"}, {"y"});
    node.integer("output_height", a.oh).integer("output_width", a.ow).integer("sampling_ratio", a.samples);
    node.real("spatial_scale", a.scale);
    if (a.most) node.text("mode", "max");
    if (!a.half && a.most) node.text("coordinate_transformation_mode", "output_half_pixel");
    b.output("y");
    const Graph graph = converted(b);
    EXPECT_EQ(output(graph).dims, (Dims{a.r, a.c, a.oh, a.ow}));
    const std::vector<float> ran = reals(output(run_graph(graph, {bytes_of(x), bytes_of(rois)})));
    const std::vector<double> y = roi_align(a, x, rois, images);
    ASSERT_EQ(ran.size(), y.size());
    for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(ran[i], y[i], 1e-5) << seed << ' ' << i;
  }
}

TEST(onnx_regions, a_number_of_samples_that_regions_choose_is_refused) {
  OnnxBuilder b(16);
  b.input("x", {1, 1, 4, 4});
  b.input("rois", {1, 4});
  b.integers("images", {1}, {0});
  b.node("RoiAlign", {"x", "rois", "images"}, {"y"});
  b.output("y");
  EXPECT_NE(refusal(b).find("takes as many samples as its regions are large (sampling_ratio is 0)\n"),
            std::string::npos)
      << refusal(b);
}

struct Deformed {
  int n, c, h, w, k, kh, kw, groups, moving, stride, pad, dilation;
  bool masked, biased;

  int out_h() const { return (h + 2 * pad - dilation * (kh - 1) - 1) / stride + 1; }
  int out_w() const { return (w + 2 * pad - dilation * (kw - 1) - 1) / stride + 1; }
};

struct DeformedData {
  std::vector<float> x, w, offset, bias, mask;
};

double deformed(const Deformed& a, const DeformedData& d, int n, int k, int oi, int oj) {
  const int taps = a.kh * a.kw, out = a.out_h() * a.out_w(), place = oi * a.out_w() + oj, part = a.c / a.groups;
  double sum = a.biased ? d.bias[size_t(k)] : 0;
  for (int c = 0; c < part; ++c)
    for (int tap = 0; tap < taps; ++tap) {
      const int channel = k / (a.k / a.groups) * part + c, g = channel / (a.c / a.moving);
      const int at = (n * a.moving + g) * taps + tap;
      const Image image = {d.x.data() + (n * a.c + channel) * a.h * a.w, a.h, a.w};
      const double down = d.offset[size_t(2 * at * out + place)], right = d.offset[size_t((2 * at + 1) * out + place)];
      const double p = down + oi * a.stride - a.pad + tap / a.kw * a.dilation;
      const double q = right + oj * a.stride - a.pad + tap % a.kw * a.dilation;
      const double m = a.masked ? d.mask[size_t(at * out + place)] : 1;
      sum += d.w[size_t((k * part + c) * taps + tap)] * m * image.at(p, q);
    }
  return sum;
}

TEST(onnx_regions, a_deformable_convolution_reads_where_its_offsets_say) {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    Draws random(seed);
    const int groups = random.whole(1, 2), moving = random.whole(1, 2);
    const Deformed a = {random.whole(1, 2),
                        2 * random.whole(1, 2),
                        random.whole(3, 6),
                        random.whole(3, 6),
                        2 * random.whole(1, 2),
                        random.whole(1, 3),
                        random.whole(1, 3),
                        groups,
                        moving,
                        random.whole(1, 2),
                        random.whole(0, 1),
                        1,
                        seed % 2 == 0,
                        seed % 3 == 0};
    const int taps = a.kh * a.kw, out = a.out_h() * a.out_w();
    const DeformedData d = {random.some(a.n * a.c * a.h * a.w, -2, 2), random.some(a.k * a.c / groups * taps, -1, 1),
                            random.some(a.n * 2 * moving * taps * out, -2, 2), random.some(a.k, -1, 1),
                            random.some(a.n * moving * taps * out, 0, 1)};
    OnnxBuilder b(19);
    b.input("x", {a.n, a.c, a.h, a.w});
    b.floats("w", {a.k, a.c / groups, a.kh, a.kw}, d.w);
    b.input("offset", {a.n, 2 * moving * taps, a.out_h(), a.out_w()});
    b.floats("bias", {a.k}, d.bias);
    b.input("mask", {a.n, moving * taps, a.out_h(), a.out_w()});
    b.node("DeformConv", {"x", "w", "offset", a.biased ? "bias" : "", a.masked ? "mask" : ""}, {"y"})
        .integer("group", groups)
        .integer("offset_group", moving)
        .ints("strides", {a.stride, a.stride})
        .ints("pads", {a.pad, a.pad, a.pad, a.pad});
    b.output("y");
    const Graph graph = converted(b);
    ASSERT_EQ(output(graph).dims, (Dims{a.n, a.k, a.out_h(), a.out_w()}));
    const std::vector<float> ran =
        reals(output(run_graph(graph, {bytes_of(d.x), bytes_of(d.offset), bytes_of(d.mask)})));
    for (int i = 0; i < int(ran.size()); ++i) {
      const int n = i / (a.k * out), k = i / out % a.k, place = i % out;
      ASSERT_NEAR(ran[size_t(i)], deformed(a, d, n, k, place / a.out_w(), place % a.out_w()), 1e-4) << seed << ' ' << i;
    }
  }
}

TEST(onnx_regions, what_does_not_fit_is_refused) {
  OnnxBuilder b(19);
  b.input("x", {1, 2, 4, 4});
  b.filled("w", {1, 2, 3, 3}, 1);
  b.input("offset", {1, 18, 3, 2});
  b.node("DeformConv", {"x", "w", "offset"}, {"y"});
  b.output("y");
  EXPECT_NE(refusal(b).find("its offsets do not fit its output"), std::string::npos) << refusal(b);
  OnnxBuilder r(16);
  r.input("x", {1, 1, 4, 4});
  r.input("rois", {2, 4});
  r.integers("images", {1}, {0});
  r.node("RoiAlign", {"x", "rois", "images"}, {"y"}).integer("sampling_ratio", 2);
  r.output("y");
  EXPECT_NE(refusal(r).find("its regions do not fit its input"), std::string::npos) << refusal(r);
}

}  // namespace
}  // namespace nacre::tools
