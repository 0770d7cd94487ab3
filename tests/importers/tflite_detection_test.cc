// Tests import_tflite on NON_MAX_SUPPRESSION_V4 and _V5 and on TFLite_Detection_PostProcess.
// tests/peers/detections.py compares with LiteRT on random boxes.
#include <flatbuffers/flexbuffers.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "tests/graph/run_graph.h"
#include "tests/importers/tflite_imports.h"

namespace nacre::tools::tflite {
namespace {

// Four boxes and their scores. Boxes 0 and 1 overlap by 0.8.
const std::vector<float> kFourBoxes = {0, 0, 1, 1, 0, 0, 1, 0.8f, 2, 2, 3, 3, 4, 4, 5, 5},
                         kFourScores = {0.6f, 0.9f, 0.7f, 0.1f};

std::vector<uint8_t> suppression(bool soft, int32_t most, float overlap, float least, float sigma = 0) {
  TfliteBuilder b;
  const int boxes = b.activation("boxes", {4, 4}), scores = b.activation("scores", {4});
  std::vector<int32_t> inputs = {boxes, scores, b.int32s("most", {}, {most}), b.floats("overlap", {}, {overlap}),
                                 b.floats("least", {}, {least})};
  std::vector<int32_t> outputs = {whole(b, "places", {most})};
  if (soft) inputs.push_back(b.floats("sigma", {}, {sigma}));
  if (soft) outputs.push_back(b.activation("kept", {most}));
  outputs.push_back(whole(b, "count"));
  b.op(soft ? BuiltinOperator::NON_MAX_SUPPRESSION_V5 : BuiltinOperator::NON_MAX_SUPPRESSION_V4, inputs, outputs);
  return b.finish({boxes, scores}, outputs);
}

Graph suppressed(const std::vector<uint8_t>& file) {
  return run_graph(imported(file), {bytes_of(kFourBoxes), bytes_of(kFourScores)});
}

TEST(import_tflite_detection, selects_boxes) {
  const Graph y = suppressed(suppression(false, 3, 0.5f, 0.1f));
  EXPECT_EQ(integers(value(y, "places")), (Dims{1, 2, 0}));
  EXPECT_EQ(integers(value(y, "count")), (Dims{2}));
  EXPECT_EQ(integers(value(suppressed(suppression(false, 2, 0.9f, 0)), "places")), (Dims{1, 2}));
}

TEST(import_tflite_detection, soft_suppression_gives_scores) {
  const Graph y = suppressed(suppression(true, 6, 1, 0, 0.5f));
  EXPECT_EQ(integers(value(y, "places")), (Dims{1, 2, 0, 3, 0, 0}));
  EXPECT_EQ(integers(value(y, "count")), (Dims{4}));
  const std::vector<float> kept = reals(value(y, "kept"));
  EXPECT_NEAR(kept[2], 0.6 * std::exp(-0.8 * 0.8), 1e-6);
  EXPECT_EQ(kept[5], 0);
}

TEST(import_tflite_detection, refuses_what_does_not_fit) {
  refusal(suppression(false, 0, 0.5f, 0), kBadInput);
  refusal(suppression(false, 1 << 21, 0.5f, 0), kBadInput);
  refusal(suppression(false, 1, std::nanf(""), 0), kBadInput);
  TfliteBuilder b;
  const int boxes = b.activation("boxes", {4, 5}), scores = b.activation("scores", {4}), y = whole(b, "y", {1});
  b.op(BuiltinOperator::NON_MAX_SUPPRESSION_V4,
       {boxes, scores, b.int32s("most", {}, {1}), b.floats("overlap", {}, {0}), b.floats("least", {}, {0})}, {y});
  refusal(b.finish({boxes, scores}, {y}), kBadInput);
}

std::vector<uint8_t> options_of(const std::map<std::string, int64_t>& more, const std::map<std::string, float>& reals) {
  std::map<std::string, int64_t> integers = {
      {"max_detections", 3}, {"max_classes_per_detection", 1}, {"num_classes", 2}};
  std::map<std::string, float> all = {{"nms_score_threshold", 0.2f},
                                      {"nms_iou_threshold", 0.5f},
                                      {"y_scale", 10},
                                      {"x_scale", 10},
                                      {"h_scale", 5},
                                      {"w_scale", 5}};
  for (const auto& [name, number] : more) integers[name] = number;
  for (const auto& [name, number] : reals) all[name] = number;
  flexbuffers::Builder options;
  options.Map([&] {
    for (const auto& [name, number] : integers) options.Int(name.c_str(), number);
    for (const auto& [name, number] : all) options.Float(name.c_str(), number);
  });
  options.Finish();
  return options.GetBuffer();
}

std::vector<uint8_t> post_process(const std::vector<uint8_t>& options, int32_t rows) {
  TfliteBuilder b;
  const int boxes = b.activation("encodings", {1, 3, 4}), scores = b.activation("predictions", {1, 3, 3});
  const int anchors = b.floats("anchors", {3, 4}, {0.5f, 0.5f, 1, 1, 0.5f, 0.5f, 1, 1, 3, 3, 2, 2});
  const std::vector<int32_t> outputs = {b.activation("boxes", {1, rows, 4}), b.activation("classes", {1, rows}),
                                        b.activation("scores", {1, rows}), b.activation("count", {1})};
  b.custom("TFLite_Detection_PostProcess", {boxes, scores, anchors}, outputs, options);
  return b.finish({boxes, scores}, outputs);
}

Graph detected(const std::map<std::string, int64_t>& more, int32_t rows) {
  const std::vector<float> encodings = {0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0};
  const std::vector<float> predictions = {0, 0.3f, 0.6f, 0, 0.4f, 0.5f, 0, 0.9f, 0.1f};
  return run_graph(imported(post_process(options_of(more, {}), rows)), {bytes_of(encodings), bytes_of(predictions)});
}

// Box 1 is box 0 moved by 0.1; box 2 does not overlap them.
TEST(import_tflite_detection, boxes_by_their_best_class) {
  const Graph y = detected({}, 3);
  EXPECT_EQ(reals(value(y, "boxes")), (std::vector<float>{2, 2, 4, 4, 0, 0, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(reals(value(y, "classes")), (std::vector<float>{0, 1, 0}));
  EXPECT_EQ(reals(value(y, "scores")), (std::vector<float>{0.9f, 0.6f, 0}));
  EXPECT_EQ(reals(value(y, "count")), (std::vector<float>{2}));
}

TEST(import_tflite_detection, several_classes_of_a_box) {
  const Graph y = detected({{"max_classes_per_detection", 3}}, 9);
  EXPECT_EQ(reals(value(y, "classes")), (std::vector<float>{0, 1, 0, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(reals(value(y, "scores")), (std::vector<float>{0.9f, 0.1f, 0, 0.6f, 0.3f, 0, 0, 0, 0}));
}

TEST(import_tflite_detection, boxes_of_each_class) {
  const Graph y = detected({{"use_regular_nms", 1}}, 3);
  EXPECT_EQ(reals(value(y, "classes")), (std::vector<float>{0, 1, 0}));
  EXPECT_EQ(reals(value(y, "scores")), (std::vector<float>{0.9f, 0.6f, 0.4f}));
  EXPECT_NEAR(reals(value(y, "boxes"))[9], 0.1, 1e-6);
  EXPECT_EQ(reals(value(y, "count")), (std::vector<float>{3}));
}

TEST(import_tflite_detection, options_that_are_none_are_refused) {
  for (const char* name : {"max_detections", "max_classes_per_detection", "num_classes"})
    for (const int64_t number : {int64_t{0}, int64_t{-1}, int64_t{1} << 40})
      refusal(post_process(options_of({{name, number}}, {}), 3), kBadInput);
  for (const char* name : {"nms_iou_threshold", "nms_score_threshold", "h_scale"})
    refusal(post_process(options_of({}, {{name, std::nanf("")}}), 3), kBadInput);
  refusal(post_process({}, 3), kBadInput);
  refusal(post_process({1, 2, 3, 4}, 3), kBadInput);
  refusal(post_process({0, 4, 1}, 3), kBadInput);  // the number 0
}

}  // namespace
}  // namespace nacre::tools::tflite
