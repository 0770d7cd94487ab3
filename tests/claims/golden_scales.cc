// Scales that follow observed values: float8 scales by amax history, loss scales by overflow.
#include <bit>
#include <cmath>
#include <cstdio>

#include "engine/numeric/amax_history.h"
#include "engine/numeric/loss_scale.h"
#include "engine/numeric/small_float.h"
#include "tests/claims/golden_topics.h"

namespace nacre::test {
namespace {

constexpr float kMaxE4M3 = 448, kMaxE5M2 = 57344;

bool same_list(const std::vector<float>& values, const json& list) {
  bool holds = values.size() == list.size();
  for (size_t i = 0; holds && i < values.size(); ++i) holds = same(values[i], real_of(list[i]));
  return holds;
}

// Runs a sequence of amaxes through one history, from a fresh state. The numbers are the other systems' own, so
// Nacre's guards are off.
template <class F>
void sequence(const json& table, size_t length, DelayedScaling rule, Rows& rows, F further) {
  rule.guard = false;
  std::vector<float> amaxes(length);
  float scale = 1;
  const AmaxHistory history = {amaxes, &scale, nullptr};
  for (const json& row : table) {
    const bool used = same(scale, real_of(row["scale_used"]));
    const float amax = history.update(float_of(row["amax"]), rule);
    rows.row(used && same(scale, real_of(row["new_scale"])) && same_list(amaxes, row["history_after"]) &&
                 further(row, amax, scale),
             row, {scale, amax, amaxes});
  }
}

template <size_t kLength>
void transformer_engine(const json& table, DelayedScaling rule, Rows& rows) {
  sequence(table, kLength, rule, rows, [](const json& row, float amax, float scale) {
    return same(amax, real_of(row["amax_for_scale"])) && same(1 / scale, real_of(row["scale_inv"]));
  });
}

void te_delayed_max(const json& table, Rows& rows) { transformer_engine<4>(table, {.format_max = kMaxE4M3}, rows); }
void te_delayed_max_unfused(const json& table, Rows& rows) {
  transformer_engine<4>(table, {.format_max = kMaxE4M3, .fused = false}, rows);
}
void te_delayed_most_recent(const json& table, Rows& rows) {
  transformer_engine<4>(table, {.format_max = kMaxE4M3, .rule = AmaxRule::kMostRecent}, rows);
}
void te_delayed_margin(const json& table, Rows& rows) {
  transformer_engine<2>(table, {.format_max = kMaxE5M2, .margin = 2}, rows);
}

void keras(const json& table, float format_max, Rows& rows) {
  sequence(table, 4, {.format_max = format_max, .order = UpdateOrder::kKeras}, rows,
           [](const json& row, float, float scale) {
             return std::bit_cast<uint32_t>(scale) == bits_of(row["new_scale_f32"]);
           });
}
void keras_e4m3(const json& table, Rows& rows) { keras(table, kMaxE4M3, rows); }
void keras_e5m2(const json& table, Rows& rows) { keras(table, kMaxE5M2, rows); }

void keras_scale_edges(const json& table, Rows& rows) {
  for (const json& row : table) {
    const float step =
        keras_step(float_of(row["amax"]), float_of(row["old_scale"]), kMaxE4M3, row["margin"], false).scale;
    rows.row(std::bit_cast<uint32_t>(step) == bits_of(row["new_scale_f32"]), row, step);
  }
}

void keras_idle_drift(const json& table, Rows& rows) {
  const auto idle = [](float step) { return keras_step(0, step, kMaxE4M3, 0, false).scale; };
  int moved = 0, moved_twice = 0;
  json first;
  for (int k = 1; k < 2000; ++k) {
    const float step = float(k) / 448, once = idle(step), twice = idle(once);
    if (once != step && ++moved <= int(table["first"].size()))
      first.push_back(
          {k, std::bit_cast<uint32_t>(step), std::bit_cast<uint32_t>(once), std::bit_cast<uint32_t>(twice)});
    moved_twice += twice != once;
  }
  json expected;
  for (const json& row : table["first"])
    expected.push_back(
        {row["amax"], bits_of(row["scale"]), bits_of(row["after_one_idle_step"]), bits_of(row["after_two"])});
  rows.row(moved == table["count"] && moved_twice == table["second_step_moves"] && first == expected, table,
           {moved, moved_twice, first});
}

template <class T>
bool quantizes(const json& row) {
  const float scale = float_of(row["scale"]);
  const T q = T::saturated(float_of(row["x"]) / scale);
  return q.bits == bits_of(row["code"]) && same(float(q) * scale, real_of(row["qdq"]));
}

void keras_qdq(const json& table, Rows& rows) {
  for (const json& row : table)
    rows.row(row["fmt"] == "float8_e4m3fn" ? quantizes<Float8E4M3>(row) : quantizes<Float8E5M2>(row), row);
}

// TransformerEngine's epsilon is a float32, but some rows of the table divided by the decimal 0.001, which float32
// does not hold: 448000 in place of 447999.96875. For such a row the check divides twice. The decimal must give the
// table's scale, and the float32 must give Nacre's.
void te_current(const json& table, Rows& rows) {
  for (const json& row : table) {
    const double epsilon = row["eps"];
    const CurrentScaling rule = {kMaxE4M3, float(epsilon), row["pow2"]};
    const float scale = current_scale(float_of(row["amax"]), rule).scale;
    if (rule.epsilon == epsilon) rows.row(same(scale, float_of(row["scale"])), row, scale);
    else rows.row(float(kMaxE4M3 / epsilon) == float_of(row["scale"]) && scale == kMaxE4M3 / rule.epsilon, row, scale);
    if (!same(scale, float_of(row["scale"])))
      std::printf("     te_current_scale: eps %g rounded to float32 gives %.9g\n", epsilon, double(scale));
  }
}

Gradients gradients(const json& letter) { return {.infinite = letter == "I", .nan = letter == "N"}; }

void steps(const LossScaler& rule, const json& table, Rows& rows) {
  LossScaleState state = rule.start();
  for (const json& row : table) {
    const LossVerdict verdict = rule.step(state, gradients(row[0]));
    bool holds = same(verdict.scale, real_of(row[1])) && verdict.apply == row[2] &&
                 same(state.scale, real_of(row[3])) && state.good == row[4];
    if (row.size() > 5) holds = holds && verdict.overflow_at_floor == row[5];
    rows.row(holds, row, {verdict.scale, verdict.apply, state.scale, state.good, verdict.overflow_at_floor});
  }
}

// Checks the steps of loss scales. A value that is no parameter in the table's key has its system's default. The
// floors use interval 3.
void loss_scale(const json& table, Rows& rows) {
  using enum LossScaleSystem;
  const auto rule = [](LossScaleSystem system, float initial, uint32_t period, float factor = 2) {
    LossScaler scaler = loss_scaler(system);
    scaler.initial = initial, scaler.period = period, scaler.factor = factor;
    return scaler;
  };
  LossScaler fastai = rule(kFastai, 65536, 3);
  fastai.max = 131072;
  const std::pair<const char*, LossScaler> cases[] = {{"tf_jmp_period3_init32768", rule(kTensorFlow, 32768, 3)},
                                                      {"tf_jmp_period3_init32768", rule(kJmp, 32768, 3)},
                                                      {"keras3_growth3_init32768", rule(kKeras, 32768, 3)},
                                                      {"fastai_noskip3_init65536_max131072", fastai},
                                                      {"axon_period3_init32768", rule(kAxon, 32768, 3)},
                                                      {"tf_floor_init4", rule(kTensorFlow, 4, 3)},
                                                      {"tf_floor_init4", rule(kJmp, 4, 3)},
                                                      {"keras3_no_floor_init4", rule(kKeras, 4, 3)},
                                                      {"fastai_floor_init4", rule(kFastai, 4, 3)},
                                                      {"tf_ceiling_init2^126_period1", rule(kTensorFlow, 0x1p126f, 1)},
                                                      {"tf_ceiling_init2^126_period1", rule(kAxon, 0x1p126f, 1)},
                                                      {"keras3_ceiling_init2^126_growth1", rule(kKeras, 0x1p126f, 1)},
                                                      {"fastai_static512", loss_scaler(kFastai, LossScale::kFixed)},
                                                      {"tf_multiplier4_period2", rule(kTensorFlow, 64, 2, 4)}};
  size_t sequences = 0;
  for (const auto& [key, values] : table.items()) {
    bool known = false;
    for (const auto& [name, scaler] : cases)
      if (key == name) known = true, steps(scaler, values, rows);
    sequences += known;
  }
  rows.row(sequences == table.size(), table.size(), sequences);
}

void recommended(const json& table, Rows& rows) {
  LossScaler rule = loss_scaler(LossScaleSystem::kNacre);
  rule.period = 2;
  rule.initial = 0x1p23f;
  steps(rule, table.at("min1_max2^24_period2_init2^23"), rows);
  rule.initial = 2;
  steps(rule, table.at("min1_max2^24_period2_init2"), rows);
}

void columns(const json& table, Rows& rows) {  // which columns steps() reads by position
  const json expected = {"grads: F finite / I inf / N nan", "scale used", "update applied", "scale after",
                         "counter after"};
  for (size_t i = 0; i < table.size(); ++i) rows.row(i < expected.size() && table[i] == expected[i], table[i]);
}

constexpr Topic kTopics[] = {{"keras_fp8_e4m3_L4", keras_e4m3},
                             {"keras_fp8_e5m2_L4", keras_e5m2},
                             {"keras_fp8_scale_edges", keras_scale_edges},
                             {"keras_fp8_idle_drift", keras_idle_drift},
                             {"keras_fp8_qdq", keras_qdq},
                             {"te_delayed_max_L4", te_delayed_max},
                             {"te_delayed_max_L4_unfused", te_delayed_max_unfused},
                             {"te_delayed_most_recent_L4", te_delayed_most_recent},
                             {"te_delayed_margin2_L2_e5m2", te_delayed_margin},
                             {"te_current_scale", te_current},
                             {"loss_scale_columns", columns},
                             {"loss_scale", loss_scale},
                             {"recommended_loss_scale", recommended}};

}  // namespace

std::span<const Topic> scale_topics() { return kTopics; }

}  // namespace nacre::test
