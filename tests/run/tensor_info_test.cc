// Tests what Model says about tensors: by index and by name, whether an input survives a run, texts and labels.
#include "engine/model/tensor_info.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "engine/nacre_c.h"
#include "tests/model/execute.h"

namespace nacre::test {
namespace {

TEST(tensor_info, nothing_is_told_of_a_model_that_is_not_open) {
  const Model model;
  TensorInfo info;
  EXPECT_FALSE(model.input("x", &info).ok());
  EXPECT_EQ(model.input(0, 0, &info).code, Code::kNoName);
  EXPECT_EQ(model.tensor(0, &info).code, Code::kNoName);
  EXPECT_EQ(model.target(0), nullptr);
  EXPECT_EQ(model.metadata_count(), 0u);
  EXPECT_EQ(model.metadata("labels"), nullptr);
  EXPECT_TRUE(model.label(0).empty());
  EXPECT_EQ(model.layer_name(0), nullptr);
}

TEST(tensor_info, names_types_shapes_and_codes) {
  Draft draft = dense_int8();
  draft.programs[0].input_names = {"pixels"};
  draft.programs[0].output_names = {"scores"};
  draft.programs[0].input_layouts = {"NC"};
  draft.programs[0].output_layouts = {""};
  Buffer file = pack(draft);
  Model model;
  ASSERT_TRUE(model.open(file.bytes()).ok());
  TensorInfo info;
  ASSERT_TRUE(model.input("pixels", &info).ok());
  EXPECT_STREQ(info.name, "pixels");
  EXPECT_STREQ(info.axes, "NC");
  EXPECT_EQ(info.element(), ElementType::kInt8);
  ASSERT_EQ(info.dims().size(), 2u);
  EXPECT_EQ(info.dims()[0], 1);
  EXPECT_EQ(info.dims()[1], 8);
  EXPECT_EQ(info.bytes(), 8u);
  EXPECT_EQ(info.scale, 0.05f);
  EXPECT_EQ(info.zero, -3);
  EXPECT_TRUE(info.scales.empty());
  EXPECT_FALSE(info.survives) << "the output lies where it lay";
  EXPECT_EQ(info.program, 0u);
  EXPECT_EQ(info.index, 0u);
  ASSERT_TRUE(model.output(0, 0, &info).ok());
  EXPECT_STREQ(info.name, "scores");
  EXPECT_EQ(info.scale, 0.2f);
  EXPECT_EQ(info.zero, 5);
  EXPECT_EQ(model.input("scores", &info).code, Code::kNoName);
  EXPECT_EQ(info.record, nullptr);
  EXPECT_EQ(model.input(0, 1, &info).code, Code::kNoName);
  EXPECT_EQ(model.output(1, 0, &info).code, Code::kNoName);
  ASSERT_TRUE(model.tensor(0, &info).ok());
  EXPECT_STREQ(info.name, "w1");
  EXPECT_EQ(info.index, kNoIndex);

  EXPECT_STREQ(model.target(0), "");
  EXPECT_EQ(model.target(1), nullptr);
  EXPECT_STREQ(model.layer_name(1), "fc2");
  EXPECT_EQ(model.layer_name(2), nullptr);
  ASSERT_EQ(model.metadata_count(), 2u);
  EXPECT_STREQ(model.metadata("source"), "dense.tflite");
  EXPECT_EQ(model.metadata("other"), nullptr);
  const auto label = [&](uint32_t i) { return std::string(model.label(i).data(), model.label(i).size()); };
  EXPECT_EQ(label(0), "yes");
  EXPECT_EQ(label(1), "no");
  EXPECT_EQ(label(2), "maybe");
  EXPECT_TRUE(model.label(3).empty());
}

TEST(tensor_info, one_scale_for_each_channel) {
  Buffer file = pack(per_channel());
  Model model;
  ASSERT_TRUE(model.open(file.bytes()).ok());
  int with_scales = 0;
  for (uint32_t i = 0; i < model.tensors().size(); ++i) {
    TensorInfo info;
    ASSERT_TRUE(model.tensor(i, &info).ok());
    if (info.scales.empty()) continue;
    ++with_scales;
    EXPECT_EQ(info.scale, 0.0f);
    EXPECT_EQ(int32_t(info.scales.size()), info.dims()[info.axis]);
    for (const float scale : info.scales) EXPECT_GT(scale, 0);
  }
  EXPECT_GT(with_scales, 0);
}

TEST(tensor_info, c_tells_the_same) {
  Draft draft = dense_int8();
  draft.programs[0].input_names = {"pixels"};
  Buffer file = pack(draft);
  nacre_model model;
  ASSERT_EQ(nacre_model_open(&model, file.data(), file.size()).code, 0);
  nacre_tensor_info info = {};
  info.size = sizeof info;
  ASSERT_EQ(nacre_model_input(&model, "pixels", &info).code, 0);
  EXPECT_EQ(info.size, sizeof info);
  EXPECT_EQ(info.element, NACRE_INT8);
  EXPECT_EQ(info.rank, 2);
  EXPECT_EQ(info.dims[1], 8);
  EXPECT_EQ(info.dims[2], 0);
  EXPECT_EQ(info.scale, 0.05f);
  EXPECT_EQ(info.zero, -3);
  EXPECT_EQ(info.scales, nullptr);
  EXPECT_EQ(nacre_model_input(&model, "voice", &info).code, NACRE_NO_NAME);
  EXPECT_EQ(info.rank, 0);
  uint32_t program = 7;
  EXPECT_EQ(Code(nacre_model_find(&model, NACRE_GRADIENTS, nullptr, &program).code), Code::kNoEntry);
  EXPECT_EQ(Code(nacre_model_find(&model, 256 + NACRE_INFER, nullptr, &program).code), Code::kNoEntry);
  ASSERT_EQ(nacre_model_find(&model, NACRE_INFER, "", &program).code, 0);
  EXPECT_EQ(program, 0u);
  nacre_program_info told = {};
  told.size = sizeof told;
  ASSERT_EQ(nacre_model_program(&model, 0, &told).code, 0);
  EXPECT_EQ(told.inputs, 1u);
  EXPECT_EQ(told.outputs, 1u);
  EXPECT_EQ(told.steps, 2u);
  EXPECT_STREQ(told.target, "");
  EXPECT_EQ(nacre_model_program(&model, 1, &told).code, NACRE_NO_NAME);
  nacre_step_info step = {};
  step.size = sizeof step;
  ASSERT_EQ(nacre_model_step(&model, 0, 1, &step).code, 0);
  EXPECT_STREQ(step.op, "dense");
  EXPECT_STREQ(step.layer, "fc2");
  EXPECT_EQ(nacre_model_step(&model, 0, 2, &step).code, NACRE_NO_NAME);
  size_t length = 0;
  const char* const label = nacre_model_label(&model, 2, &length);
  EXPECT_EQ(std::string(label, length), "maybe");
  const char *key = nullptr, *value = nullptr;
  ASSERT_EQ(nacre_model_metadata_at(&model, 1, &key, &value).code, 0);
  EXPECT_STREQ(key, "labels");
  EXPECT_EQ(nacre_model_metadata_at(&model, 2, &key, &value).code, NACRE_NO_NAME);
}

// An input with `survives` keeps its bytes in a run. The others may be overwritten or not, so only the first is
// tested.
TEST(tensor_info, an_input_that_survives_has_its_bytes_behind_a_run) {
  int surviving = 0;
  for (const ModelCase& each : cases()) {
    Buffer file = pack(each.make());
    Bound b;
    if (!b.open(file.bytes()).ok()) continue;
    for (uint32_t i = 0; i < b.program.input_count(); ++i) {
      TensorInfo info;
      ASSERT_TRUE(b.model.input(0, i, &info).ok());
      ASSERT_EQ(info.bytes(), b.program.input(i).size());
      if (!info.survives) continue;
      ++surviving;
      std::memset(b.program.input(i).data(), 1, b.program.input(i).size());
    }
    if (!b.program.run().ok()) continue;
    for (uint32_t i = 0; i < b.program.input_count(); ++i) {
      TensorInfo info;
      ASSERT_TRUE(b.model.input(0, i, &info).ok());
      if (!info.survives) continue;
      for (const std::byte byte : b.program.input(i)) ASSERT_EQ(byte, std::byte{1}) << each.name << " input " << i;
    }
  }
  EXPECT_GT(surviving, 0);
}

}  // namespace
}  // namespace nacre::test
