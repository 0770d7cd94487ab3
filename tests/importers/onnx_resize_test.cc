// Tests import_onnx on Resize, Upsample, ConvTranspose, DepthToSpace and SpaceToDepth: the nodes that they become,
// and numbers that ONNX's own tests (tests/onnx) do not cover.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

using Line = std::vector<float>;

// Builds a Resize of x by scales, as from opset 11 on.
OnnxBuilder resized(const Dims& dims, const Line& scales, const std::function<void(OnnxNode&)>& set) {
  OnnxBuilder b;
  b.input("x", dims);
  b.floats("scales", {int64_t(scales.size())}, scales);
  OnnxNode node = b.node("Resize", {"x", "", "scales"}, {"y"});
  set(node);
  b.output("y");
  return b;
}

Line counted(size_t count) {
  Line x(count);
  std::iota(x.begin(), x.end(), 1.0f);
  return x;
}

TEST(onnx_resize, every_convention_reads_the_line_where_the_standard_says) {
  const struct {
    const char *mode, *coordinates;
    Line y;  // for x = {1, 2}, resized to 4 numbers
  } cases[] = {{"linear", "half_pixel", {1, 1.25f, 1.75f, 2}},
               {"linear", "pytorch_half_pixel", {1, 1.25f, 1.75f, 2}},
               {"linear", "half_pixel_symmetric", {1, 1.25f, 1.75f, 2}},
               {"linear", "align_corners", {1, 4.0f / 3, 5.0f / 3, 2}},
               {"linear", "asymmetric", {1, 1.5f, 2, 2}},
               {"nearest", "half_pixel", {1, 1, 2, 2}},
               {"nearest", "asymmetric", {1, 1, 2, 2}},
               {"cubic", "asymmetric", {1, 1.5f, 2, 2.09375f}}};
  for (const auto& c : cases) {
    const OnnxBuilder b = resized({1, 1, 2}, {1, 1, 2}, [&](OnnxNode& node) {
      node.text("mode", c.mode).text("coordinate_transformation_mode", c.coordinates);
    });
    const Line y = computed(b, {1, 2});
    ASSERT_EQ(y.size(), 4u) << c.coordinates;
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(y[i], c.y[i], 1e-6) << c.mode << " " << c.coordinates << " " << i;
  }
}

TEST(onnx_resize, nearest_modes_differ_at_the_middle) {
  const struct {
    const char* mode;
    Line y;
  } cases[] = {{"round_prefer_floor", {1, 1, 2, 2}},
               {"round_prefer_ceil", {1, 2, 2, 2}},
               {"floor", {1, 1, 2, 2}},
               {"ceil", {1, 2, 2, 2}}};
  for (const auto& c : cases)
    EXPECT_EQ(computed(resized({1, 1, 2}, {1, 1, 2},
                               [&](OnnxNode& node) {
                                 node.text("coordinate_transformation_mode", "asymmetric").text("nearest_mode", c.mode);
                               }),
                       {1, 2}),
              c.y)
        << c.mode;
}

TEST(onnx_resize, images_stay_channels_last_and_take_one_step) {
  OnnxBuilder b;
  b.input("x", {2, 1, 2, 2});
  b.filled("w", {3, 1, 1, 1}, 1);
  b.floats("scales", {4}, {1, 1, 2, 2});
  b.node("Conv", {"x", "w"}, {"a"});
  b.node("Resize", {"a", "", "scales"}, {"r"}).text("mode", "linear");
  b.filled("v", {1, 3, 1, 1}, 1);
  b.node("Conv", {"r", "v"}, {"y"});
  b.output("y");
  const Graph graph = imported(b);
  const std::vector<Op> made = ops(graph);
  EXPECT_EQ(std::count(made.begin(), made.end(), Op::kResize), 1);
  EXPECT_EQ(std::count(made.begin(), made.end(), Op::kTranspose), 0);  // with one channel, a reshape does its work
  EXPECT_EQ(output(graph).dims, (Dims{2, 1, 4, 4}));
}

TEST(onnx_resize, three_axes_and_the_inner_one_alone_are_the_same_op) {
  const auto linear = [](OnnxNode& node) {
    node.text("mode", "linear").text("coordinate_transformation_mode", "align_corners");
  };
  const Line y = computed(resized({1, 1, 2, 2, 2}, {1, 1, 1.5f, 1.5f, 1.5f}, linear), counted(8));
  ASSERT_EQ(y.size(), 27u);  // a linear function is itself between the corners
  for (int i = 0; i < 27; ++i)
    EXPECT_FLOAT_EQ(y[size_t(i)], 1 + 4 * float(i / 9) / 2 + 2 * float(i / 3 % 3) / 2 + float(i % 3) / 2);
  EXPECT_EQ(computed(resized({1, 2, 2, 2}, {1, 1, 1, 1.5f}, linear), counted(8)),
            (Line{1, 1.5f, 2, 3, 3.5f, 4, 5, 5.5f, 6, 7, 7.5f, 8}));
  EXPECT_EQ(computed(resized({1, 2, 1}, {1, 1.5f, 1}, linear), {1, 2}), (Line{1, 1.5f, 2}));  // of channels
}

TEST(onnx_resize, upsample_and_resize_10_are_asymmetric) {
  for (const int opset : {7, 9, 10}) {
    OnnxBuilder b(opset);
    b.input("x", {1, 1, 2});
    if (opset > 7) b.floats("s", {3}, {1, 1, 2});
    OnnxNode node = b.node(opset == 10 ? "Resize" : "Upsample",
                           opset > 7 ? std::vector<std::string>{"x", "s"} : std::vector<std::string>{"x"}, {"y"});
    node.text("mode", "linear");
    if (opset == 7) {
      auto& scales = *b.model().mutable_graph()->mutable_node(0)->add_attribute();
      scales.set_name("scales");
      scales.set_type(::onnx::AttributeProto::FLOATS);
      for (const float s : {1.0f, 1.0f, 2.0f}) scales.add_floats(s);
    }
    b.output("y");
    EXPECT_EQ(computed(b, {1, 2}), (Line{1, 1.5f, 2, 2})) << opset;
  }
}

// Quantizes an image x of 2 x 2 pixels to q, and adds scales that double it.
OnnxBuilder image_in_codes() {
  OnnxBuilder b(19);
  b.input("x", {1, 1, 2, 2});
  b.floats("s", {}, {0.5f});
  b.codes("z", {}, {3});
  b.floats("scales", {4}, {1, 1, 2, 2});
  b.node("QuantizeLinear", {"x", "s", "z"}, {"q"});
  return b;
}

// Sums of int8 products are int32. If the weights could make a sum overflow, the layer computes in reals.
TEST(onnx_resize, weights_that_sum_to_two_are_not_done_on_codes) {
  for (const float coefficient : {-0.75f, -8.0f}) {
    OnnxBuilder b = image_in_codes();
    b.node("DequantizeLinear", {"q", "s", "z"}, {"d"});
    b.node("Resize", {"d", "", "scales"}, {"r"}).text("mode", "cubic").real("cubic_coeff_a", coefficient);
    b.node("QuantizeLinear", {"r", "s", "z"}, {"p"});
    b.node("DequantizeLinear", {"p", "s", "z"}, {"y"});
    b.output("y");
    const Graph graph = converted(b);
    EXPECT_EQ(operand(graph, first(graph, Op::kResize), 0).type,
              coefficient == -8 ? ElementType::kFloat32 : ElementType::kInt8);
  }
}

TEST(onnx_resize, nearest_is_done_on_codes) {
  OnnxBuilder b = image_in_codes();
  b.node("Resize", {"q", "", "scales"}, {"r"})
      .text("coordinate_transformation_mode", "asymmetric")
      .text("nearest_mode", "floor");
  b.node("DequantizeLinear", {"r", "s", "z"}, {"y"});
  b.output("y");
  const Graph graph = converted(b);
  EXPECT_EQ(operand(graph, first(graph, Op::kResize), 0).type, ElementType::kInt8);
  EXPECT_EQ(reals(run_converted(b, Line{1, 2, 3, 4})), (Line{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4}));
}

TEST(onnx_resize, what_makes_no_sense_is_refused_in_a_sentence) {
  const auto nothing = [](OnnxNode&) {};
  EXPECT_NE(refusal(resized({1, 1, 2}, {1, 1, 0}, nothing)).find("a scale is not positive"), std::string::npos);
  EXPECT_NE(refusal(resized({1, 1, 2}, {1, 1, 1e30f}, nothing)).find("gives an axis of 65537"), std::string::npos);
  EXPECT_NE(refusal(resized({1, 1, 2}, {1, 1, 0.1f}, nothing)).find("gives an axis of 0"), std::string::npos);
  EXPECT_NE(refusal(resized({1, 1, 2}, {1, 2}, nothing)).find("do not fit its axes"), std::string::npos);
  EXPECT_NE(refusal(resized({1, 1, 2}, {1, 1, 2}, [](OnnxNode& n) { n.text("mode", "area"); })).find("'area'"),
            std::string::npos);
  const auto wide = [](OnnxNode& n) { n.text("mode", "cubic").integer("antialias", 1); };
  EXPECT_NE(refusal(resized({1, 1, 1 << 28}, {1, 1, 1.0f / (1 << 27)}, wide)).find("constants computed at import"),
            std::string::npos);
}

// ---- ConvTranspose

// Computes the standard's ConvTranspose: y_o = sum of x_i w_m for all i, m with i stride + m dilation - before = o.
Line scattered(const Line& x, const Line& w, int stride, int dilation, int before, int out) {
  Line y(size_t(out), 0);
  for (int i = 0; i < int(x.size()); ++i)
    for (int m = 0; m < int(w.size()); ++m) {
      const int o = i * stride + m * dilation - before;
      if (o >= 0 && o < out) y[size_t(o)] += x[size_t(i)] * w[size_t(m)];
    }
  return y;
}

TEST(onnx_transposed, a_line_is_scattered_by_every_stride_dilation_and_pad) {
  int cases = 0;
  for (int in = 1; in <= 4; ++in)
    for (int kernel = 1; kernel <= 5; ++kernel)
      for (int stride = 1; stride <= 4; ++stride)
        for (int dilation = 1; dilation <= 3; dilation += 2)
          for (const auto& [before, after, extra] : {std::array{0, 0, 0}, {1, 0, 0}, {0, 2, 0}, {5, 1, 0}, {0, 0, 3}}) {
            const int out = stride * (in - 1) + (kernel - 1) * dilation + 1 + extra - before - after;
            if (out < 1) continue;
            const Line x = counted(size_t(in)), w = counted(size_t(kernel));
            OnnxBuilder b;
            b.input("x", {1, 1, in});
            b.floats("w", {1, 1, kernel}, w);
            b.node("ConvTranspose", {"x", "w"}, {"y"})
                .ints("strides", {stride})
                .ints("dilations", {dilation})
                .ints("pads", {before, after})
                .ints("output_padding", {extra});
            b.output("y");
            ASSERT_EQ(computed(b, x), scattered(x, w, stride, dilation, before, out))
                << in << " " << kernel << " " << stride << " " << dilation << " " << before << " " << after << " "
                << extra;
            ++cases;
          }
  EXPECT_GT(cases, 600);
}

OnnxBuilder grouped(int groups) {
  OnnxBuilder b;
  b.input("x", {1, 4, 2, 1});
  b.counted("w", {4, 3, 3, 2});
  b.counted("b", {3 * groups});
  b.node("ConvTranspose", {"x", "w", "b"}, {"y"}).integer("group", groups).ints("strides", {2, 3});
  b.output("y");
  return b;
}

TEST(onnx_transposed, groups_keep_to_their_channels) {
  for (const int groups : {1, 2, 4}) {
    const Line x = counted(8), y = computed(grouped(groups), x);
    const int in = 4 / groups;
    ASSERT_EQ(y.size(), size_t(3 * groups * 5 * 2));
    for (int k = 0; k < 3 * groups; ++k)
      for (int row = 0; row < 5; ++row)
        for (int column = 0; column < 2; ++column) {
          float want = float(k);
          for (int c = k / 3 * in; c < (k / 3 + 1) * in; ++c)
            for (int i = 0; i < 2; ++i) {
              const int m = row - 2 * i;
              if (m >= 0 && m < 3) want += x[size_t(c * 2 + i)] * float(((c * 3 + k % 3) * 3 + m) * 2 + column);
            }
          EXPECT_EQ(y[size_t((k * 5 + row) * 2 + column)], want) << groups << " " << k << " " << row << " " << column;
        }
  }
}

TEST(onnx_transposed, weights_to_be_trained_are_turned_by_steps_that_compute_the_same) {
  for (const int groups : {1, 2}) {
    Graph graph = imported(grouped(groups), {.train = true});
    const Node& conv = first(graph, Op::kConv2d);
    EXPECT_FALSE(operand(graph, conv, 1).constant());
    EXPECT_EQ(value(graph, "w").dims, (Dims{4, 3, 3, 2}));
    const Graph run = run_graph(graph, {bytes_of(counted(8))});
    EXPECT_EQ(reals(run.values[size_t(run.outputs[0].value)]), computed(grouped(groups), counted(8)));
  }
}

TEST(onnx_transposed, refuses_what_does_not_fit) {
  const auto refused = [](const Dims& w, const std::function<void(OnnxNode&)>& set) {
    OnnxBuilder b;
    b.input("x", {1, 2, 3, 3});
    b.filled("w", w, 1);
    OnnxNode node = b.node("ConvTranspose", {"x", "w"}, {"y"});
    set(node);
    b.output("y");
    return refusal(b);
  };
  EXPECT_NE(refused({3, 1, 2, 2}, [](OnnxNode&) {}).find("do not fit 2 channels"), std::string::npos);
  EXPECT_NE(refused({2, 1, 2, 2}, [](OnnxNode& n) { n.ints("pads", {9, 0, 9, 0}); }).find("gives an axis of"),
            std::string::npos);
  EXPECT_NE(refused({2, 1, 2, 2}, [](OnnxNode& n) { n.ints("strides", {0, 1}); }).find("stride 0"), std::string::npos);
  EXPECT_NE(refused({2, 1, 2, 2}, [](OnnxNode& n) { n.ints("output_shape", {1 << 20, 3}); }).find("gives an axis of"),
            std::string::npos);
  EXPECT_NE(refused({2, 1, 2, 2}, [](OnnxNode& n) { n.ints("strides", {16000, 16000}); }).find("constants computed"),
            std::string::npos);
}

// ---- DepthToSpace

TEST(onnx_space, depth_to_space_and_back_is_the_identity_in_mode_dcr) {
  OnnxBuilder b;
  b.input("x", {1, 8, 2, 3});
  b.node("DepthToSpace", {"x"}, {"s"}).integer("blocksize", 2);
  b.node("SpaceToDepth", {"s"}, {"y"}).integer("blocksize", 2);
  b.output("y");
  EXPECT_EQ(computed(b, counted(48)), counted(48));
  OnnxBuilder odd;
  odd.input("x", {1, 6, 2, 2});
  odd.node("DepthToSpace", {"x"}, {"y"}).integer("blocksize", 2);
  odd.output("y");
  EXPECT_NE(refusal(odd).find("no multiple of its block"), std::string::npos);
}

}  // namespace
}  // namespace nacre::tools
