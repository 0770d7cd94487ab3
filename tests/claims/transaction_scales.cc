// The parts `scales` and `float8` of claim step_is_a_transaction: they follow loss scales and float8 scales.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "engine/numeric/amax_history.h"
#include "tests/claims/step_is_a_transaction.h"
#include "tests/differentiate/networks.h"
#include "tests/differentiate/training_run.h"
#include "tools/base/error.h"
#include "tools/base/json.h"
#include "tools/compile/training.h"

namespace nacre::test::step_is_a_transaction {
namespace {

using namespace nacre::tools;

// ---- scales

struct Sequence {
  const char* key;
  LossScaler rule;
};

std::vector<Sequence> sequences() {
  using enum LossScaleSystem;
  const auto rule = [](LossScaleSystem system, float initial, uint32_t period, float factor = 2) {
    LossScaler scaler = loss_scaler(system);
    scaler.initial = initial, scaler.period = period, scaler.factor = factor;
    return scaler;
  };
  LossScaler fastai = rule(kFastai, 65536, 3);
  fastai.max = 131072;
  return {{"tf_jmp_period3_init32768", rule(kTensorFlow, 32768, 3)},
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
          {"tf_multiplier4_period2", rule(kTensorFlow, 64, 2, 4)},
          {"min1_max2^24_period2_init2^23", rule(kNacre, 0x1p23f, 2)},
          {"min1_max2^24_period2_init2", rule(kNacre, 2, 2)}};
}

float number(const Json& v) { return v.is_string() ? kInfinity : v.get<float>(); }

// Sets targets 2^-12 from the outputs, whose gradients stay finite with a scale of 2^127. One target that is not
// finite makes the gradients of its sample infinite, with no infinity against another, or NaN. A target of 2^80 makes
// the loss, a square, infinite.
void aim(TrainingRun& run, const PeerBatch& batch, const std::string& kind) {
  run.write(0, batch.x);
  run.write(1, batch.targets);
  run.accumulate();
  std::vector<float> targets(batch.targets.size());
  std::memcpy(targets.data(), run.trainer().output(0).data(), targets.size() * sizeof(float));
  run.trainer().discard();
  for (float& t : targets) t += 0x1p-12f;
  if (kind == "I") targets[5] = -kInfinity;
  if (kind == "N") targets[5] = kNan;
  if (kind == "L") targets[5] = 0x1p80f;
  run.write(0, batch.x);
  run.write(1, targets);
}

// `infinite` says how a step gets infinite gradients, I, or an infinite loss, L.
void run_sequence(const PeerNetwork& network, const Sequence& sequence, const Json& rows, const char* infinite,
                  Scales& scales) {
  TrainingOptions options;
  options.loss.kind = Loss::kSquaredError;
  options.loss_scale = sequence.rule;
  options.train.last_layers = 1;  // a relu's 0 times an infinity would be NaN, which hides the infinity
  TrainingRun run(compiled(network.graph, options, "float32").bytes);
  const PeerBatch batch = peer_batch(network, 0);
  for (const Json& row : rows) {
    if (!std::isfinite(number(row[1]))) {
      ++scales.left_out;
      continue;
    }
    // Axon counts NaN as finite and commits the step; Nacre refuses such a step and lowers the scale (NUMERICS.md
    // section 10). So the test replays a row with NaN as a finite step, which moves the scale by the same rule.
    const bool axon = sequence.rule.system == LossScaleSystem::kAxon;
    const std::string kind = axon && row[0] == "N" ? "F" : row[0].get<std::string>();
    aim(run, batch, kind == "I" ? infinite : kind);
    run.accumulate();
    const Trainer::Report report = run.commit(0x1p-10f);
    const bool finite = kind == "F", applied = finite && row[2].get<bool>();
    scales.refused_against_rule += !finite && row[2].get<bool>() ? 1 : 0;
    bool holds = report.loss_scale == number(row[1]) && report.applied == applied &&
                 float(run.numbers("loss_scale").at(0)) == number(row[3]) &&
                 run.numbers("loss_scale_counters").at(0) == row[4].get<double>();
    if (row.size() > 5) holds = holds && report.overflow_at_floor == row[5].get<bool>();
    scales.steps.note(holds);
    if (!holds)
      std::printf("  %s: %s gives scale %g applied %d, after %g counter %g\n", sequence.key, row.dump().c_str(),
                  double(report.loss_scale), int(report.applied), run.numbers("loss_scale").at(0),
                  run.numbers("loss_scale_counters").at(0));
  }
  ++scales.sequences;
}

}  // namespace

Scales compare_scales(const PeerNetwork& network, const Json& golden) {
  Scales scales;
  std::set<std::string> known;
  for (const Sequence& sequence : sequences()) {
    known.insert(sequence.key);
    const Json& table =
        golden.at(sequence.rule.system == LossScaleSystem::kNacre ? "recommended_loss_scale" : "loss_scale");
    for (const char* infinite : {"I", "L"}) run_sequence(network, sequence, table.at(sequence.key), infinite, scales);
  }
  for (const char* topic : {"loss_scale", "recommended_loss_scale"})
    for (const auto& [key, rows] : golden.at(topic).items())
      if (!known.contains(key)) throw Error(kFailed, topic, key + " is a sequence that no test runs");
  return scales;
}

namespace {

// ---- float8

struct Scaled {
  std::string amax, scale, history, events;
  DelayedScaling rule;
  std::vector<float> amaxes;
  float value = 1;
  ScaleCounters counters;
};

std::vector<Scaled> scaled_values(const Graph& update, const TrainingRun& run) {
  std::vector<Scaled> all;
  for (const Node& node : update.nodes) {
    if (node.op != Op::kUpdateScales) continue;
    const auto name = [&](size_t i) { return update.values[size_t(node.inputs[i])].name; };
    Scaled s = {.amax = name(0),
                .scale = name(1),
                .history = name(2),
                .events = name(3),
                .rule = {.format_max = get_real(node, "format_max")},
                .amaxes = {},
                .counters = {}};
    s.rule.order = UpdateOrder(get_integer(node, "order"));
    s.rule.rule = AmaxRule(get_integer(node, "rule"));
    s.rule.margin = int8_t(get_integer(node, "margin"));
    s.rule.fused = get_integer(node, "fused") != 0;
    s.rule.guard = get_integer(node, "guard") != 0;
    s.amaxes.assign(run.numbers(s.history).size(), 0.0f);
    all.push_back(std::move(s));
  }
  return all;
}

bool is_same(const TrainingRun& run, const Scaled& s) {
  const auto bytes = [&](const auto* data, size_t count) {
    const auto* first = reinterpret_cast<const uint8_t*>(data);
    return std::vector<uint8_t>(first, first + count * sizeof *data);
  };
  return run.bytes(s.scale) == bytes(&s.value, 1) && run.bytes(s.history) == bytes(s.amaxes.data(), s.amaxes.size()) &&
         run.bytes(s.events) == bytes(s.counters.events, size_t(ScaleEvent::kCount));
}

}  // namespace

Float8 follow_scales(const PeerNetwork& network, const std::string& policy, int wrong_step) {
  TrainingOptions options;
  options.loss.kind = Loss::kSquaredError;
  options.optimizer.kind = Optimizer::kMomentum;
  const TrainingModel made = compiled(network.graph, options, policy);
  TrainingRun run(made.bytes);
  std::vector<Scaled> values = scaled_values(made.update, run);
  Float8 result;
  int exponent = 0;
  for (int step = 0; step < 50; ++step) {
    exponent = std::clamp(exponent + (step * step * 7 + step * 3) % 5 - 2, -6, 6);
    PeerBatch batch = peer_batch(network, step);
    for (float& v : batch.x) v = step >= 20 && step < 25 ? 0 : std::ldexp(v, exponent);
    const bool bad = step == 41;
    if (bad || step == 30) batch.x[3] = bad ? kNan : kInfinity;
    run.write(0, batch.x);
    run.write(1, batch.targets);
    run.accumulate();
    std::vector<float> amaxes;
    for (const Scaled& s : values) amaxes.push_back(amax_value(uint32_t(run.numbers(s.amax).at(0))));
    if (run.commit(0x1p-12f).applied == bad)
      throw Error(kFailed, policy, "step " + std::to_string(step) + " has another verdict");
    for (size_t i = 0; i < values.size(); ++i) {
      Scaled& s = values[i];
      const float before = s.value;
      if (!bad)
        AmaxHistory{s.amaxes, &s.value, &s.counters}.update(step == wrong_step ? 2 * amaxes[i] : amaxes[i], s.rule);
      result.states.note(is_same(run, s));
      result.moved += s.value != before ? 1 : 0;
    }
  }
  return result;
}

}  // namespace nacre::test::step_is_a_transaction
