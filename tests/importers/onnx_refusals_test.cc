// Tests import_onnx on valid protobuf files with absent elements or operands, huge declared shapes, attributes out of
// range, infinities, scales per input channel, and unusual types and opsets.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

// Builds a file with one node, whose output y is the graph's. `inputs` makes its operands.
OnnxBuilder lone_node(const char* op, const std::vector<std::string>& names,
                      const std::function<void(OnnxBuilder&)>& inputs,
                      const std::function<void(OnnxNode&)>& attributes = {}, int opset = 24) {
  OnnxBuilder b(opset);
  inputs(b);
  OnnxNode node = b.node(op, names, {"y"});
  if (attributes) attributes(node);
  b.output("y");
  return b;
}

// ---- Absent elements, axes and states

TEST(onnx_refusals, formulas_do_not_take_constants_without_elements) {
  const auto rnn = [](const Dims& x, const char* direction) {
    return refusal(lone_node(
        "RNN", {"x", "w", "r"},
        [&](OnnxBuilder& b) {
          b.floats("x", x, {});
          b.filled("w", {1, 3, 2}, 1);
          b.filled("r", {1, 3, 3}, 1);
        },
        [&](OnnxNode& node) { node.text("direction", direction); }));
  };
  for (const char* direction : {"forward", "reverse"}) {
    EXPECT_NE(rnn({0, 1, 2}, direction).find("y_node (RNN): has no steps"), std::string::npos) << direction;
    EXPECT_NE(rnn({1, 0, 2}, direction).find("y_node (RNN): x is empty"), std::string::npos) << direction;
  }
  for (const Dims& values : {Dims{1, 0, 3, 4}, Dims{1, 3, 4}}) {
    const OnnxBuilder b = lone_node("Attention", {"q", "k", "v"}, [&](OnnxBuilder& of) {
      of.input("q", {1, 2, 3, 4});
      of.floats("k", {1, 0, 3, 4}, {});
      of.filled("v", values, 1);
    });
    EXPECT_NE(refusal(b).find("y_node (Attention): k is empty"), std::string::npos);
  }
  const OnnxBuilder grid = lone_node("GridSample", {"x", "grid"}, [](OnnxBuilder& b) {
    b.floats("x", {1, 1, 0, 2}, {});
    b.filled("grid", {1, 1, 1, 2}, 0);
  });
  EXPECT_NE(refusal(grid).find("y_node (GridSample): x is empty"), std::string::npos);
}

TEST(onnx_refusals, the_first_step_of_a_cache_has_a_past_without_elements) {
  const auto attention = [](bool past) {
    return lone_node("Attention", {"q", "k", "v", "", past ? "past" : "", past ? "past" : ""}, [&](OnnxBuilder& b) {
      b.input("q", {1, 1, 1, 2});
      b.counted("k", {1, 1, 2, 2});
      b.counted("v", {1, 1, 2, 2});
      if (past) b.floats("past", {1, 1, 0, 2}, {});
    });
  };
  EXPECT_EQ(computed(attention(true), {1, 2}), computed(attention(false), {1, 2}));
}

TEST(onnx_refusals, channels_are_of_inputs_that_have_an_axis_of_them) {
  for (const Dims& dims : {Dims{}, Dims{4}}) {
    const OnnxBuilder b = lone_node(
        "GroupNormalization", {"x", "s", "b"},
        [&](OnnxBuilder& of) {
          of.input("x", dims);
          of.filled("s", {4}, 1);
          of.filled("b", {4}, 0);
        },
        [](OnnxNode& node) { node.integer("num_groups", 2); }, 18);
    EXPECT_NE(refusal(b).find("y_node (GroupNormalization): its input has no channels"), std::string::npos);
  }
}

TEST(onnx_refusals, a_scan_without_its_state_is_refused) {
  OnnxBuilder b;
  b.input("x", {3, 2});
  b.node("Scan", {"", "x"}, {"last", "y"}).integer("num_scan_inputs", 1);
  ::onnx::AttributeProto& body = *b.model().mutable_graph()->mutable_node(0)->add_attribute();
  body.set_name("body");
  for (const char* name : {"old", "row"}) body.mutable_g()->add_input()->set_name(name);
  for (const char* name : {"row", "row"}) body.mutable_g()->add_output()->set_name(name);
  b.output("y");
  EXPECT_NE(refusal(b).find("(Scan): input 0 is missing"), std::string::npos);
}

// ---- Memory for what is only declared

TEST(onnx_refusals, sizes_of_inputs_are_no_memory_for_constants) {
  constexpr int64_t kLong = int64_t{1} << 28;
  const auto takes_too_much = [](const OnnxBuilder& b, const char* what) {
    const std::string text = refusal(b);
    EXPECT_TRUE(text.find("the limit is 26") != std::string::npos ||
                text.find("more than 2^31 - 1") != std::string::npos)
        << what << ": " << text;
  };
  for (const int64_t length : {int64_t{30000}, int64_t{100000}})
    takes_too_much(lone_node(
                       "Attention", {"q", "q", "q"}, [&](OnnxBuilder& b) { b.input("q", {1, 1, length, 1}); },
                       [](OnnxNode& node) { node.integer("is_causal", 1); }),
                   "causal");
  takes_too_much(lone_node("Attention", {"q", "k", "k", "", "", "", "n"},
                           [](OnnxBuilder& b) {
                             b.input("q", {1, 1, 1, 1});
                             b.input("k", {1, 1, kLong, 1});
                             b.integers("n", {1}, {7});
                           }),
                 "lengths");
  takes_too_much(lone_node(
                     "LinearAttention", {"q", "q", "q"}, [](OnnxBuilder& b) { b.input("q", {1, 1, 1 << 17}); },
                     [](OnnxNode& node) {
                       node.integer("q_num_heads", 1).integer("kv_num_heads", 1).text("update_rule", "linear");
                     },
                     27),
                 "state");
  takes_too_much(lone_node("TopK", {"x", "k"},
                           [](OnnxBuilder& b) {
                             b.input("x", {kLong});
                             b.integers("k", {1}, {1});
                           }),
                 "TopK");
  takes_too_much(lone_node("Hardmax", {"x"}, [](OnnxBuilder& b) { b.input("x", {kLong}); }), "Hardmax");
  takes_too_much(lone_node("InstanceNormalization", {"x", "s", "s"},
                           [](OnnxBuilder& b) {
                             b.input("x", {1, 1, kLong});
                             b.filled("s", {1}, 1);
                           }),
                 "ones");
  takes_too_much(lone_node("TensorScatter", {"x", "u"},
                           [](OnnxBuilder& b) {
                             b.input("x", {kLong, 1, 1});
                             b.input("u", {kLong, 1, 1});
                           }),
                 "TensorScatter");
  takes_too_much(lone_node(
                     "ScatterElements", {"x", "i", "u"},
                     [](OnnxBuilder& b) {
                       b.input("x", {kLong});
                       b.integers("i", {1}, {0});
                       b.filled("u", {1}, 1);
                     },
                     [](OnnxNode& node) { node.text("reduction", "add"); }),
                 "ScatterElements");
}

// The importer checks bounds before it multiplies or adds attributes' numbers.
TEST(onnx_refusals, attributes_that_are_far_are_bad_input) {
  constexpr int64_t kFar = INT64_MAX;
  const OnnxBuilder windows = lone_node(
      "Col2Im", {"x", "image", "block"},
      [](OnnxBuilder& b) {
        b.input("x", {1, 4, 4});
        b.integers("image", {2}, {4, 4});
        b.integers("block", {2}, {2, 2});
      },
      [](OnnxNode& node) { node.ints("pads", {kFar, 0, kFar, 0}); });
  EXPECT_NE(refusal(windows).find("y_node (Col2Im): a pad is out of range"), std::string::npos);
  const OnnxBuilder pool = lone_node(
      "LpPool", {"x"}, [](OnnxBuilder& b) { b.input("x", {1, 1, 4, 4}); },
      [](OnnxNode& node) { node.ints("kernel_shape", {kFar, kFar}); });
  EXPECT_NE(refusal(pool).find("y_node (LpPool): has more than 2^31 - 1 elements"), std::string::npos);
  const OnnxBuilder crop = lone_node("CenterCropPad", {"x", "shape"}, [](OnnxBuilder& b) {
    b.input("x", {4});
    b.integers("shape", {1}, {INT64_MIN});
  });
  EXPECT_NE(refusal(crop).find("y_node (CenterCropPad): gives a tensor without elements"), std::string::npos);
  const OnnxBuilder slices = lone_node(
      "GatherND", {"c", "i"},
      [](OnnxBuilder& b) {
        b.filled("c", {2, 2}, 1);
        b.integers("i", {1, 1}, {0});
      },
      [](OnnxNode& node) { node.integer("batch_dims", kFar); });
  EXPECT_NE(refusal(slices).find("y_node (GatherND): its indices do not fit its input"), std::string::npos);
  for (const float depth : {NAN, 1e30f, -1e30f}) {
    const OnnxBuilder hot = lone_node("OneHot", {"x", "depth", "values"}, [&](OnnxBuilder& b) {
      b.input("x", {2});
      b.floats("depth", {}, {depth});
      b.counted("values", {2});
    });
    EXPECT_NE(refusal(hot).find("y_node (OneHot): its depth is below 1"), std::string::npos) << depth;
  }
}

// ---- Infinities among the numbers

TEST(onnx_refusals, the_largest_numbers_are_found_among_infinite_ones) {
  const auto best = [](std::vector<float> x, int64_t largest) {
    OnnxBuilder b;
    b.input("x", {int64_t(x.size())});
    b.integers("k", {1}, {4});
    b.node("TopK", {"x", "k"}, {"values", "places"}).integer("largest", largest);
    b.node("Cast", {"places"}, {"reals"}).integer("to", TensorProto::FLOAT);
    b.node("Concat", {"values", "reals"}, {"y"}).integer("axis", 0);
    b.output("y");
    return computed(b, x);
  };
  const float far = INFINITY;
  EXPECT_EQ(best({-far, 3, -far, 5, -far, -far}, 1), (std::vector<float>{5, 3, -far, -far, 3, 1, 0, 2}));
  EXPECT_EQ(best({far, 1, far, 0, far}, 0), (std::vector<float>{0, 1, far, far, 3, 1, 0, 2}));
  EXPECT_EQ(best({4, 4, 1, 4, 2}, 1), (std::vector<float>{4, 4, 4, 2, 0, 1, 3, 4}));
}

TEST(onnx_refusals, places_without_an_update_keep_their_infinity) {
  const auto scattered = [](const char* reduction, float far) {
    OnnxBuilder b(18);
    b.input("x", {3});
    b.integers("i", {1}, {1});
    b.filled("u", {1}, 5);
    b.node("ScatterElements", {"x", "i", "u"}, {"y"}).text("reduction", reduction);
    b.output("y");
    return computed(b, {far, 7, 2});
  };
  EXPECT_EQ(scattered("max", -INFINITY), (std::vector<float>{-INFINITY, 7, 2}));
  EXPECT_EQ(scattered("min", INFINITY), (std::vector<float>{INFINITY, 5, 2}));
}

// A sum runs over the input channels, so their scales cannot be factors of the sum.
TEST(onnx_refusals, scales_of_input_channels_are_taken_into_the_weights) {
  OnnxBuilder b;
  b.input("x", {1, 2, 1, 1});
  b.codes("codes", {2, 2, 1, 1}, {1, 2, 3, 4});
  b.floats("scale", {2}, {1, 10});
  b.codes("zero", {2}, {0, 0});
  b.node("DequantizeLinear", {"codes", "scale", "zero"}, {"w"}).integer("axis", 0);
  b.node("ConvTranspose", {"x", "w"}, {"y"});
  b.output("y");
  const Graph graph = imported(b);
  EXPECT_EQ(reals(operand(graph, first(graph, Op::kConv2d), 1)), (std::vector<float>{1, 30, 2, 40}));
}

// The value outside the image is a real number, which need not have a code.
TEST(onnx_refusals, a_resize_with_an_extrapolation_is_not_done_on_codes) {
  OnnxBuilder b;
  b.input("x", {1, 1, 2, 2});
  b.floats("scale", {}, {0.5f});
  b.codes("zero", {}, {0});
  b.floats("roi", {8}, {0, 0, 0, 0, 1, 1, 2, 2});
  b.integers("sizes", {4}, {1, 1, 2, 2});
  b.node("QuantizeLinear", {"x", "scale", "zero"}, {"q"});
  b.node("Resize", {"q", "roi", "", "sizes"}, {"r"})
      .text("mode", "nearest")
      .text("coordinate_transformation_mode", "tf_crop_and_resize")
      .real("extrapolation_value", 1000);
  b.node("DequantizeLinear", {"r", "scale", "zero"}, {"y"});
  b.output("y");
  EXPECT_NE(refusal(b).find("r_node (Resize)"), std::string::npos);
}

// ---- Types and opsets

TEST(onnx_refusals, uint64_is_read_as_int64) {
  OnnxBuilder b(18);
  b.input("x", {2}, {}, TensorProto::UINT64);
  b.integers("two", {1}, {2});
  ::onnx::TensorProto& two = *b.model().mutable_graph()->mutable_initializer(0);
  two.set_data_type(TensorProto::UINT64);
  two.clear_int64_data();
  two.add_uint64_data(2);
  b.node("Mul", {"x", "two"}, {"y"});
  b.output("y");
  const Graph graph = imported(b);
  EXPECT_EQ(output(graph).type, ElementType::kInt64);
  EXPECT_EQ(integers(run_converted<int64_t>(b, {3, int64_t{1} << 40})), (Dims{6, int64_t{1} << 41}));
  two.clear_uint64_data();
  two.set_raw_data(std::string(7, 0) + "\x80");
  EXPECT_NE(refusal(b).find("two: has a number of 2^63 or more: uint64 is read as int64"), std::string::npos)
      << refusal(b);
}

TEST(onnx_refusals, opsets_before_7_have_what_has_kept_its_form) {
  OnnxBuilder b(1);
  b.input("x", {2}, {}, TensorProto::BOOL);
  b.node("Not", {"x"}, {"y"});
  b.output("y");
  EXPECT_EQ(integers(run_converted<uint8_t>(b, {1, 0})), (Dims{0, 1}));
  OnnxBuilder other(5);
  other.input("x", {2});
  other.node("Cast", {"x"}, {"y"}).text("to", "INT64");
  other.output("y");
  EXPECT_NE(refusal(other).find("y_node (Cast): opset 5 has it in another form\n"), std::string::npos)
      << refusal(other);
}

TEST(onnx_refusals, as_many_boxes_as_there_are_has_no_size) {
  OnnxBuilder b(18);
  b.input("boxes", {1, 6, 4});
  b.input("scores", {1, 1, 6});
  b.node("NonMaxSuppression", {"boxes", "scores"}, {"y"});
  b.output("y");
  EXPECT_NE(refusal(b).find("sizes are fixed before a run"), std::string::npos) << refusal(b);
}

}  // namespace
}  // namespace nacre::tools
