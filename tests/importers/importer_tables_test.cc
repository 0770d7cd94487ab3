// Tests the importers' tables: no operator, layer or function stands in two rows. Only the first row would be used, and
// nothing else says that the other is ignored.
#include <gtest/gtest.h>

#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tools/importers/keras/functions/functions.h"
#include "tools/importers/keras/importer.h"
#include "tools/importers/onnx/evaluator.h"
#include "tools/importers/onnx/operators.h"
#include "tools/importers/tflite/importer.h"

namespace nacre::tools {
namespace {

template <class Row, class Key>
void expect_unique(const std::vector<std::span<const Row>>& tables, Key key, size_t least) {
  std::set<decltype(key(tables[0][0]))> met;
  for (const std::span<const Row> table : tables)
    for (const Row& row : table)
      EXPECT_TRUE(met.insert(key(row)).second) << testing::PrintToString(key(row)) << " stands in two rows";
  EXPECT_GE(met.size(), least);
}

TEST(importer_tables, have_an_operator_of_onnx_once_in_a_domain) {
  const auto key = [](const onnx_import::OperatorImporter& row) {
    return std::pair(std::string(row.domain), std::string(row.op));
  };
  using namespace onnx_import;
  expect_unique<OperatorImporter>(
      {
#define NACRE_ONNX_SUBJECT(subject) subject##_importers(),
#include "tools/importers/onnx_subjects.inc"
#undef NACRE_ONNX_SUBJECT
      },
      key, 200);
}

TEST(importer_tables, have_an_operator_that_is_computed_at_import_once) {
  const auto key = [](const onnx_import::Evaluator& row) { return std::string(row.op); };
  using namespace onnx_import;
  expect_unique<Evaluator>({pointwise_evaluators(), move_evaluators(), reduce_evaluators()}, key, 50);
}

TEST(importer_tables, have_a_layer_and_a_function_of_keras_once) {
  const auto key = [](const keras::Converter& row) { return std::string(row.class_name); };
  using namespace keras;
  expect_unique<Converter>(
      {dense_converters(), window_converters(), transpose_converters(), pool_converters(), activation_converters(),
       norm_converters(), move_converters(), merge_converters(), recurrent_converters(), attention_converters(),
       volume_converters(), image_converters(), contrast_converters(), encode_converters(), signal_converters()},
      key, 50);
  const std::vector<std::span<const Converter>> functions = {formula_functions(), move_functions(), place_functions(),
                                                             sum_functions()};
  expect_unique<Converter>(functions, key, 50);
  for (const std::span<const Converter> table : functions)
    for (const Converter& row : table) EXPECT_EQ(find_function(row.class_name), &row) << row.class_name;
}

TEST(importer_tables, have_an_operator_of_tflite_once) {
  const auto key = [](const tflite::Converter& row) { return int(row.code); };
  using namespace tflite;
  expect_unique<Converter>(
      {matmul_converters(), pointwise_converters(), move_converters(), slice_converters(), resize_converters(),
       space_converters(), transposed_converters(), recurrent_converters(), variable_converters(), rnn_converters(),
       repeat_converters(), whole_converters(), control_converters(), place_converters(), order_converters(),
       volume_converters(), dynamic_converters(), angle_converters(), detection_converters()},
      key, 100);
}

}  // namespace
}  // namespace nacre::tools
