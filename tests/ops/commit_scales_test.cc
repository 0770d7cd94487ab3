// Tests the steps that update scales: a float8 scale with its amax history, and the loss scale.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "engine/kernels/training.h"
#include "engine/ops/commit.h"
#include "tests/golden_tables.h"
#include "tests/ops/step_in_place.h"
#include "tools/base/json.h"

namespace nacre::test {
namespace {

using json = nacre::tools::Json;
using namespace reference;

bool same(float a, float b) { return a == b || (a != a && b != b); }

struct ScaleTopic {
  const char* name;
  int32_t length;
  std::vector<uint32_t> words;  // format_max, order, rule, margin, fused, guard
};

TEST(update_scales, replays_the_golden_histories) {
  const ScaleTopic topics[] = {{"te_delayed_max_L4", 4, {bits(448), 0, 0, 0, 1, 0}},
                               {"te_delayed_max_L4_unfused", 4, {bits(448), 0, 0, 0, 0, 0}},
                               {"te_delayed_most_recent_L4", 4, {bits(448), 0, 1, 0, 1, 0}},
                               {"te_delayed_margin2_L2_e5m2", 2, {bits(57344), 0, 0, 2, 1, 0}},
                               {"keras_fp8_e4m3_L4", 4, {bits(448), 1, 0, 0, 1, 0}},
                               {"keras_fp8_e5m2_L4", 4, {bits(57344), 1, 0, 0, 1, 0}}};
  for (const ScaleTopic& topic : topics) {
    const json table = golden(topic.name);
    if (table.is_null()) GTEST_SKIP() << "no golden tables";
    std::vector<float> scale = {1}, history(size_t(topic.length), 0);
    std::vector<uint32_t> counters(6);
    uint32_t events = 0;
    for (const json& row : table) {
      EXPECT_TRUE(same(scale[0], number(row["scale_used"]))) << topic.name << row.dump();
      std::vector<uint32_t> amax = {magnitude_bits(number(row["amax"]))};
      ASSERT_EQ(Step(&kUpdateScalesF32, topic.words)
                    .operand(amax, {1})
                    .operand(scale, {1})
                    .operand(history, {topic.length})
                    .operand(counters, {6})
                    .run(),
                Code::kOk);
      EXPECT_TRUE(same(scale[0], number(row["new_scale"]))) << topic.name << row.dump() << scale[0];
      for (size_t i = 0; i < history.size(); ++i)
        EXPECT_TRUE(same(history[i], number(row["history_after"][i]))) << topic.name << row.dump();
      uint32_t now = 0;
      for (const uint32_t counter : counters) now += counter;
      EXPECT_EQ(now, ++events);  // each update is one event
    }
    EXPECT_GT(events, 0u);
  }
}

TEST(update_scales, refuses_attributes_and_shapes) {
  const std::vector<uint32_t> good = {bits(448), 0, 0, uint32_t(-128), 1, 1};
  const auto run = [](const std::vector<uint32_t>& words, int32_t counts = 6, int32_t scales = 1) {
    std::vector<float> scale = {1, 1}, history(4);
    std::vector<uint32_t> amax = {0}, counters(7);
    return Step(&kUpdateScalesF32, words)
        .operand(amax, {1})
        .operand(scale, {scales})
        .operand(history, {4})
        .operand(counters, {counts})
        .run();
  };
  EXPECT_EQ(run(good), Code::kOk);
  const std::pair<size_t, uint32_t> bad[] = {{0, bits(0)}, {0, bits(-1)}, {0, bits(NAN)}, {0, bits(INFINITY)},
                                             {1, 2},       {2, 2},        {3, 128},       {3, uint32_t(-129)},
                                             {4, 2},       {5, 2}};
  for (const auto& [word, value] : bad) {
    std::vector<uint32_t> words = good;
    words[word] = value;
    EXPECT_EQ(run(words), Code::kAttribute) << word;
  }
  EXPECT_EQ(run(good, 5), Code::kShapeInput);
  EXPECT_EQ(run(good, 6, 2), Code::kShapeScale);
}

struct LossTopic {
  const char* name;
  LossScaleSystem system;
  LossScale kind = LossScale::kDynamic;
  float initial = 32768;
  uint32_t period = 3;
  float factor = 2, min = 1, max = kLargest;
  const char* topic = "loss_scale";
};

Code adjust(const std::vector<uint32_t>& words, std::vector<uint32_t>& amax, std::vector<uint32_t>& apply,
            std::vector<float>& scale, std::vector<uint32_t>& counters, int32_t counts = 3) {
  return Step(&kAdjustLossScaleF32, words)
      .operand(amax, {1})
      .operand(apply, {1})
      .operand(scale, {1})
      .operand(counters, {counts})
      .run();
}

TEST(adjust_loss_scale, replays_the_golden_sequences) {
  using enum LossScaleSystem;
  constexpr LossScale kDynamic = LossScale::kDynamic, kFixed = LossScale::kFixed;
  const LossTopic topics[] = {
      {"tf_jmp_period3_init32768", kTensorFlow},
      {"tf_jmp_period3_init32768", kJmp},
      {"keras3_growth3_init32768", kKeras},
      {"fastai_noskip3_init65536_max131072", kFastai, kDynamic, 65536, 3, 2, 1, 131072},
      {"axon_period3_init32768", kAxon},
      {"tf_floor_init4", kTensorFlow, kDynamic, 4},
      {"tf_floor_init4", kJmp, kDynamic, 4},
      {"keras3_no_floor_init4", kKeras, kDynamic, 4},
      {"fastai_floor_init4", kFastai, kDynamic, 4},
      {"tf_ceiling_init2^126_period1", kTensorFlow, kDynamic, 0x1p126f, 1},
      {"tf_ceiling_init2^126_period1", kAxon, kDynamic, 0x1p126f, 1},
      {"keras3_ceiling_init2^126_growth1", kKeras, kDynamic, 0x1p126f, 1},
      {"fastai_static512", kFastai, kFixed, 512, 1000, 2, 1, 0x1p24f},
      {"tf_multiplier4_period2", kTensorFlow, kDynamic, 64, 2, 4},
      {"min1_max2^24_period2_init2^23", kNacre, kDynamic, 0x1p23f, 2, 2, 1, 0x1p24f, "recommended_loss_scale"},
      {"min1_max2^24_period2_init2", kNacre, kDynamic, 2, 2, 2, 1, 0x1p24f, "recommended_loss_scale"}};
  for (const LossTopic& topic : topics) {
    const json tables = golden(topic.topic);
    if (tables.is_null()) GTEST_SKIP() << "no golden tables";
    std::vector<float> scale = {topic.initial};
    std::vector<uint32_t> counters(3);
    const std::vector<uint32_t> words = {uint32_t(topic.system), uint32_t(topic.kind), bits(topic.initial),
                                         topic.period,           bits(topic.factor),   bits(topic.min),
                                         bits(topic.max)};
    uint32_t skipped = 0;
    for (const json& row : tables.at(topic.name)) {
      std::vector<uint32_t> amax = {row[0] == "I"   ? kInfinityBits
                                    : row[0] == "N" ? 0x7FC00000u
                                                    : bits(3)},
                            apply = {row[0] == "F" ||
                                     (row[0] == "N" && topic.system == kAxon)};  // Axon takes NaN for finite
      EXPECT_TRUE(same(scale[0], number(row[1]))) << topic.name << row.dump();
      ASSERT_EQ(adjust(words, amax, apply, scale, counters), Code::kOk);
      EXPECT_TRUE(same(scale[0], number(row[3]))) << topic.name << row.dump();
      EXPECT_EQ(counters[0], row[4].get<uint32_t>()) << topic.name << row.dump();
      skipped += apply[0] != 0 ? 0 : 1;  // whatever the rule would do
      EXPECT_EQ(counters[1], skipped) << topic.name << row.dump();
      EXPECT_EQ(counters[2] > 0, row.size() > 5 && row[5].get<bool>()) << topic.name << row.dump();
    }
  }
}

// The verdict op may refuse a step for its loss or its gradients' norm, although every gradient is finite.
TEST(adjust_loss_scale, takes_a_refused_step_for_one_with_infinite_gradients) {
  using enum LossScaleSystem;
  for (const LossScaleSystem system : {kNacre, kTensorFlow, kKeras, kJmp, kFastai, kAxon}) {
    const std::vector<uint32_t> words = {uint32_t(system), uint32_t(LossScale::kDynamic), bits(64), 3, bits(2), bits(1),
                                         bits(0x1p24)};
    for (const uint32_t seen : {0u, bits(3), kInfinityBits, 0x7FC00000u}) {
      std::vector<float> scale = {64};
      std::vector<uint32_t> counters(3), amax = {bits(3)}, apply = {1};
      ASSERT_EQ(adjust(words, amax, apply, scale, counters), Code::kOk);
      EXPECT_EQ(counters, (std::vector<uint32_t>{1, 0, 0}));
      amax = {seen}, apply = {0};
      for (uint32_t refused = 1; refused <= 6; ++refused) {
        ASSERT_EQ(adjust(words, amax, apply, scale, counters), Code::kOk);
        EXPECT_EQ(scale[0], std::ldexp(64.0f, -int(refused))) << int(system);
        EXPECT_EQ(counters, (std::vector<uint32_t>{0, refused, 0})) << int(system);
      }
    }
  }
}

TEST(adjust_loss_scale, refuses_attributes_and_shapes) {
  const std::vector<uint32_t> good = {0, 2, bits(32768), 2000, bits(2), bits(1), bits(16777216)};
  const auto run = [](const std::vector<uint32_t>& words, int32_t counts = 3) {
    std::vector<float> scale = {1};
    std::vector<uint32_t> amax = {0}, apply = {1}, counters(4);
    return adjust(words, amax, apply, scale, counters, counts);
  };
  EXPECT_EQ(run(good), Code::kOk);
  const std::pair<size_t, uint32_t> bad[] = {{0, 6},        {1, 3},       {2, bits(3)},        {2, bits(NAN)},
                                             {3, 0},        {4, bits(1)}, {4, bits(INFINITY)}, {5, bits(0)},
                                             {6, bits(0.5)}};
  for (const auto& [word, value] : bad) {
    std::vector<uint32_t> words = good;
    words[word] = value;
    EXPECT_EQ(run(words), Code::kAttribute) << word;
  }
  EXPECT_EQ(run({}), Code::kAttribute);
  EXPECT_EQ(run(good, 4), Code::kShapeInput);
}

}  // namespace
}  // namespace nacre::test
