// A training over a data set: cut off after any step it ends with the same state; what it reports is what the formulas say.
#include "tools/training/tuner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "tests/tools/run_tool.h"
#include "tests/training/small_networks.h"
#include "tools/error.h"
#include "tools/split_mix64.h"
#include "tools/training/schedule_option.h"
#include "tools/training/training.h"
#include "tools/training/tuned_model.h"

namespace nacre::tools {
namespace {

constexpr int64_t kRows = 22, kWidth = 6;

// Rows of three classes: the largest of the first three numbers.
Dataset rows(int64_t count = kRows) {
  SplitMix64 random(5);
  std::vector<float> x;
  std::vector<int32_t> y;
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t i = 0; i < kWidth; ++i) x.push_back(float(double(random.next() >> 40) / 0x1p23 - 1));
    const float* first = &x[size_t(row * kWidth)];
    y.push_back(int32_t(std::max_element(first, first + 3) - first));
  }
  const auto array = [](ElementType type, std::vector<int64_t> dims, const auto& values) {
    NpyArray a = {.type = type, .dims = std::move(dims), .data = std::vector<uint8_t>(values.size() * sizeof values[0]), .place = "test"};
    std::memcpy(a.data.data(), values.data(), a.data.size());
    return a;
  };
  Dataset set;
  set.rows = count;
  set.inputs.push_back(array(ElementType::kFloat32, {count, kWidth}, x));
  set.labels = array(ElementType::kInt32, {count}, y);
  return set;
}

std::vector<uint8_t> training_bytes(Optimizer optimizer = Optimizer::kAdam) {
  TrainingOptions training;
  training.optimizer.kind = optimizer;
  return compile_training(tests::perceptron(4), training, {}).bytes;
}

struct Trained {
  Trained(const std::vector<uint8_t>& bytes, TuneSettings s)
      : model(bytes, "test", ""), objective(model), data(rows()), split(split_rows(kRows, "0.25", 3)), trainer(model), tuner(trainer, objective, data, split, std::move(s)) {}

  std::vector<std::byte> state() { return {trainer.trainer().state().begin(), trainer.trainer().state().end()}; }

  LoadedModel model;
  Objective objective;
  Dataset data;
  Split split;
  LoadedTrainer trainer;
  Tuner tuner;
};

TuneSettings settings(const std::string& checkpoint = "") {
  return {.epochs = 4, .batch = 6, .schedule = {.kind = ScheduleKind::kCosine, .rate = 0.05f, .steps = 12}, .keep_best = true, .checkpoint = checkpoint, .checkpoint_steps = 2, .options = "lr 0.05\nbatch 6\n"};
}

TEST(tuner, learns) {
  TuneSettings s = settings();
  s.epochs = 60;
  s.schedule = {.rate = 0.05f};
  Trained run(training_bytes(), s);
  EXPECT_EQ(run.tuner.run({}), Tuner::End::kEpochs);
  const std::vector<EpochRecord>& epochs = run.tuner.position().epochs;
  ASSERT_EQ(epochs.size(), 60u);
  EXPECT_LT(epochs.back().train_loss, 0.2 * epochs.front().train_loss);
  EXPECT_EQ(epochs.back().train_accuracy, 1);
  EXPECT_EQ(epochs[0].steps, 3u);  // 16 rows of 22, 6 at a time, by micro-batches of 4, 2, 4, 2, 4
}

// With a learning rate of 0 the losses of the steps, put together, are that of the rows. 40 roundings of 2^-24: a loss is the
// logarithm of a softmax of three in float32, once by the loss step and once from `infer`'s probabilities (8 each), and a mean over
// at most 6 rows of losses below 3 (7 each).
TEST(tuner, reports_the_mean_over_rows_and_the_rate_of_the_schedule) {
  TuneSettings s = settings();
  s.epochs = 1;
  s.schedule = {.rate = 0};
  Trained still(training_bytes(), s);
  still.split.validate = still.split.train;
  still.tuner.run({});
  const EpochRecord& e = still.tuner.position().epochs.at(0);
  ASSERT_LT(e.train_loss, 3);
  EXPECT_NEAR(e.train_loss, e.validate_loss, 40 * 0x1p-24);
  EXPECT_EQ(e.train_accuracy, e.validate_accuracy);

  Trained moving(training_bytes(), settings());
  moving.tuner.run({});
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(moving.tuner.position().epochs[i].learning_rate, settings().schedule.at(3 * i + 2)) << i;
}

// The claim of the whole design: wherever it is cut off, and whatever was trained in between, the end is the same.
TEST(tuner, cut_off_after_any_step_it_ends_the_same) {
  const std::vector<uint8_t> bytes = training_bytes();
  Trained whole(bytes, settings());
  whole.tuner.run({});
  whole.tuner.take_kept();
  for (int cut = 1; cut <= 12; ++cut) {
    const TemporaryDirectory folder;
    {
      Trained first(bytes, settings(folder / "run"));
      EXPECT_FALSE(first.tuner.begin(false));
      int steps = 0;
      EXPECT_EQ(first.tuner.run({.step = [&](const Tuner::Progress&) { ++steps; }, .epoch = {}, .interrupted = [&] { return steps == cut; }}), Tuner::End::kInterrupted);
    }
    Trained second(bytes, settings(folder / "run"));
    EXPECT_TRUE(second.tuner.begin(false));
    second.tuner.run({});
    second.tuner.take_kept();
    EXPECT_EQ(second.state(), whole.state()) << cut;
    EXPECT_EQ(csv_log(second.tuner.position().epochs), csv_log(whole.tuner.position().epochs)) << cut;
    EXPECT_EQ(tuned_model(second.trainer, {}), tuned_model(whole.trainer, {})) << cut;
  }
}

// A log that cannot be written, on a full disk, takes no epoch with it.
TEST(tuner, an_epoch_is_saved_before_anybody_hears_of_it) {
  const TemporaryDirectory folder;
  const std::vector<uint8_t> bytes = training_bytes();
  {
    Trained first(bytes, settings(folder / "run"));
    EXPECT_THROW(first.tuner.run({.step = {}, .epoch = [](const TunePosition&) { throw Error(kIo, "log.csv", "cannot be written"); }, .interrupted = {}}), Error);
  }
  Trained second(bytes, settings(folder / "run"));
  EXPECT_TRUE(second.tuner.begin(false));
  EXPECT_EQ(second.tuner.position().epoch, 1u);
  EXPECT_EQ(second.tuner.position().step, 0u);
}

// With fewer epochs than it has begun, the state is of none of them.
TEST(tuner, a_training_that_stands_beyond_its_end_is_refused) {
  const TemporaryDirectory folder;
  const std::vector<uint8_t> bytes = training_bytes();
  for (const int cut : {4, 6}) {  // of 3 steps an epoch: in the second, and at its end
    TuneSettings s = settings(folder / std::to_string(cut));
    {
      Trained first(bytes, s);
      int steps = 0;
      first.tuner.run({.step = [&](const Tuner::Progress&) { ++steps; }, .epoch = {}, .interrupted = [&] { return steps == cut; }});
    }
    s.epochs = 1;
    Trained second(bytes, s);
    const std::vector<std::byte> before = second.state();
    EXPECT_THROW(second.tuner.begin(false), Error) << cut;
    EXPECT_EQ(second.state(), before) << cut;
  }
}

TEST(tuner, a_finished_training_trains_no_more) {
  const TemporaryDirectory folder;
  const std::vector<uint8_t> bytes = training_bytes();
  {
    Trained run(bytes, settings(folder / "run"));
    run.tuner.run({});
  }
  Trained again(bytes, settings(folder / "run"));
  EXPECT_TRUE(again.tuner.begin(false));
  const std::vector<std::byte> before = again.state();
  EXPECT_TRUE(again.tuner.finished());
  again.tuner.run({.step = [](const Tuner::Progress&) { ADD_FAILURE(); }, .epoch = {}, .interrupted = {}});
  EXPECT_EQ(again.state(), before);
}

TEST(tuner, other_options_and_damage_are_refused_and_nothing_is_changed) {
  const TemporaryDirectory folder;
  const std::vector<uint8_t> bytes = training_bytes();
  {
    Trained run(bytes, settings(folder / "run"));
    run.tuner.run({});
  }
  {
    TuneSettings other = settings(folder / "run");
    other.options = "lr 0.06\nbatch 6\n";
    Trained run(bytes, other);
    const std::vector<std::byte> before = run.state();
    try {
      run.tuner.begin(false);
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("lr 0.05, now lr 0.06"), std::string::npos) << error.what();
    }
    EXPECT_EQ(run.state(), before);
    EXPECT_FALSE(run.tuner.begin(true));
  }
  for (const char* slot : {"run/slot0.checkpoint", "run/slot1.checkpoint"}) {
    std::vector<uint8_t> damaged = read_bytes(folder / slot);
    damaged[damaged.size() / 2] ^= 1;
    write_bytes(folder / slot, damaged);
  }
  Trained run(bytes, settings(folder / "run"));
  EXPECT_THROW(run.tuner.begin(false), Error);
}

// SGD's parameters, for the same network under Adam: what both have is taken.
TEST(tuner, starts_from_another_training) {
  const TemporaryDirectory folder;
  Trained sgd(training_bytes(Optimizer::kSgd), settings(folder / "run"));
  sgd.tuner.run({});
  Trained adam(training_bytes(), settings());
  {
    Trained gone(training_bytes(Optimizer::kSgd), settings());  // the directory is locked while `sgd` lives
    EXPECT_THROW(gone.tuner.start_from(folder / "run"), Error);
  }
  EXPECT_THROW(adam.tuner.start_from(folder / "nowhere"), Error);
  std::filesystem::copy(folder / "run", folder / "copy", std::filesystem::copy_options::recursive);
  const Checkpoint::Report report = adam.tuner.start_from(folder / "copy");
  EXPECT_GE(report.taken, 4u);
  EXPECT_GT(report.kept, 0u);
  EXPECT_EQ(adam.tuner.validate().mean_loss(), sgd.tuner.validate().mean_loss());
}

// A row of NaN: of three steps the first is refused in every epoch, never two in a row, and nothing of it counts.
TEST(tuner, a_refused_step_counts_for_nothing) {
  TuneSettings s = settings();
  s.epochs = 5;
  s.shuffle = false;
  s.most_refused = 2;
  Trained run(training_bytes(), s);
  const float nan = NAN;
  std::memcpy(run.data.inputs[0].data.data() + size_t(run.split.train[0] * kWidth) * sizeof nan, &nan, sizeof nan);
  EXPECT_EQ(run.tuner.run({}), Tuner::End::kEpochs);
  const TunePosition& p = run.tuner.position();
  EXPECT_EQ(p.applied, 10u);
  for (uint32_t i = 0; i < 5; ++i) {
    const EpochRecord& e = p.epochs.at(i);
    EXPECT_EQ(e.refused, 1u);
    EXPECT_EQ(e.steps, 3u);
    EXPECT_TRUE(std::isfinite(e.train_loss));
    EXPECT_EQ(e.train_accuracy, std::round(e.train_accuracy * 10) / 10) << "of 10 rows";
    EXPECT_EQ(e.learning_rate, s.schedule.at(2 * i + 1)) << "the schedule waits";
  }
}

TEST(tuner, diverging_stops_with_advice) {
  TuneSettings s = settings();
  s.schedule = {.rate = 1e30f};
  s.most_refused = 3;
  s.epochs = 40;
  Trained run(training_bytes(Optimizer::kSgd), s);
  try {
    run.tuner.run({});
    ADD_FAILURE() << "it did not diverge";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, kFailed);
    EXPECT_NE(std::string(error.what()).find("3 steps in a row"), std::string::npos) << error.what();
  }
}

// One step throws the weights so far away that outputs are NaN; the loss before it was good.
TEST(tuner, an_epoch_that_validates_to_no_number_is_not_the_best) {
  TuneSettings s = settings();
  s.batch = 16;
  s.epochs = 2;
  s.schedule = {.rate = 1e30f};
  Trained run(training_bytes(Optimizer::kSgd), s);
  run.tuner.run({});
  const std::vector<EpochRecord>& epochs = run.tuner.position().epochs;
  ASSERT_EQ(epochs[0].refused, 0u);
  EXPECT_TRUE(std::isfinite(epochs[0].train_loss));
  EXPECT_EQ(epochs[0].validate_loss, INFINITY);
  EXPECT_EQ(best_epoch(epochs), std::nullopt);
}

TEST(tuner, early_stop_keeps_the_best_epoch) {
  TuneSettings s = settings();
  s.epochs = 200;
  s.schedule = {.rate = 0.05f};
  s.early_stop = {.patience = 5, .least = 0};
  Trained run(training_bytes(), s);
  std::vector<std::vector<std::byte>> states;
  ASSERT_EQ(run.tuner.run({.step = {}, .epoch = [&](const TunePosition&) { states.push_back(run.state()); }, .interrupted = {}}), Tuner::End::kEarly);
  const size_t best = *best_epoch(run.tuner.position().epochs);
  EXPECT_EQ(states.size(), best + 6);
  run.tuner.take_kept();
  EXPECT_EQ(run.state(), states[best]);
}

// The loss of probabilities, in float64: -log p of the label, mean over rows.
TEST(objective, judges_as_the_formulas_say) {
  const LoadedModel model(training_bytes(), "test", "");
  const Objective objective(model);
  EXPECT_EQ(objective.labels().classes, 3);
  EXPECT_EQ(objective.labels().sample.dims.size(), 0u);
  EXPECT_EQ(objective.inputs()[0].dims, (std::vector<int64_t>{6}));
  EXPECT_EQ(objective.loss_name(), "softmax_cross_entropy");
  const float p[4][3] = {{0.5f, 0.25f, 0.25f}, {0.125f, 0.75f, 0.125f}, {0, 0, 1}, {1, 0, 0}};
  const int32_t y[4] = {0, 1, 2, 1};
  const auto bytes = std::as_bytes(std::span(&p[0][0], 12));
  const auto labels = std::span(reinterpret_cast<const uint8_t*>(y), sizeof y);
  const Judged three = objective.judge(objective.inferred(), bytes, labels.first(12), 3);
  EXPECT_NEAR(three.loss, -std::log(0.5) - std::log(0.75), 1e-15);
  EXPECT_EQ(three.right, 3u);
  EXPECT_EQ(three.answers, 3u);
  const Judged all = objective.judge(objective.inferred(), bytes, labels, 4);
  EXPECT_NEAR(all.loss, three.loss + 149 * std::log(2), 1e-12);  // a probability of 0 counts as 2^-149
  EXPECT_EQ(all.right, 3u);
  EXPECT_TRUE(std::isnan(Judged().mean_loss()) && std::isnan(Judged().accuracy()));
}

// x [rows, 6] -> dense 5, relu -> dense 3, and a step of gradient descent on the mean of (y - t)^2, by the chain rule in float64.
struct PerceptronOracle {
  std::vector<double> w1, b1, w2, b2;

  // The loss before the step.
  double step(const float* x, const float* t, size_t rows, double rate) {
    PerceptronOracle g = {std::vector<double>(w1.size()), std::vector<double>(b1.size()), std::vector<double>(w2.size()), std::vector<double>(b2.size())};
    double loss = 0;
    for (size_t row = 0; row < rows; ++row, x += 6, t += 3) {
      double h[5], dh[5] = {};
      for (size_t j = 0; j < 5; ++j) {
        h[j] = b1[j];
        for (size_t i = 0; i < 6; ++i) h[j] += w1[6 * j + i] * double(x[i]);
        h[j] = std::max(h[j], 0.0);
      }
      for (size_t k = 0; k < 3; ++k) {
        double y = b2[k];
        for (size_t j = 0; j < 5; ++j) y += w2[5 * k + j] * h[j];
        const double d = y - double(t[k]), dy = 2 * d / (3 * double(rows));
        loss += d * d / (3 * double(rows));
        g.b2[k] += dy;
        for (size_t j = 0; j < 5; ++j) g.w2[5 * k + j] += dy * h[j], dh[j] += dy * w2[5 * k + j];
      }
      for (size_t j = 0; j < 5; ++j) {
        if (h[j] <= 0) continue;
        g.b1[j] += dh[j];
        for (size_t i = 0; i < 6; ++i) g.w1[6 * j + i] += dh[j] * double(x[i]);
      }
    }
    const std::pair<std::vector<double>*, const std::vector<double>*> all[] = {{&w1, &g.w1}, {&b1, &g.b1}, {&w2, &g.w2}, {&b2, &g.b2}};
    for (const auto& [p, dp] : all)
      for (size_t i = 0; i < p->size(); ++i) (*p)[i] -= rate * (*dp)[i];
    return loss;
  }
};

// In float64 the targets reach the loss by a cast. Parameters within 1e-13: 12 steps of at most 22 * 6 terms below 4, rounded at
// 2^-53. Losses are judged of outputs in float32: 2^-24 of numbers below 4, and of their squares.
TEST(objective, targets_of_a_training_in_float64) {
  Graph graph = tests::perceptron(4);
  graph.outputs[0].value = graph.nodes.back().inputs[0];  // without the softmax
  graph.nodes.pop_back();
  PerceptronOracle oracle;
  const std::pair<const char*, std::vector<double>*> parameters[] = {{"w1", &oracle.w1}, {"b1", &oracle.b1}, {"w2", &oracle.w2}, {"b2", &oracle.b2}};
  for (const Value& v : graph.values)
    for (const auto& [name, p] : parameters)
      if (v.name == name) {
        const std::vector<float> x = reals(v);
        p->assign(x.begin(), x.end());
      }
  for (const bool immediate : {false, true}) {
    TrainingOptions training;
    training.loss.kind = Loss::kSquaredError;
    training.immediate = immediate;
    CompileOptions compiling;
    compiling.policies = parse_policy_options({.policy = "float64", .set = {}, .file = {}, .only = {}, .except = {}});
    const LoadedModel model(compile_training(graph, training, compiling).bytes, "test", "");
    const Objective objective(model);
    EXPECT_EQ(objective.loss_name(), "squared_error");
    EXPECT_EQ(objective.labels().sample.name, "targets");
    EXPECT_EQ(objective.labels().sample.type, ElementType::kFloat32);
    EXPECT_EQ(objective.labels().sample.dims, (std::vector<int64_t>{3}));
    ASSERT_EQ(objective.inputs().size(), 1u);
    EXPECT_EQ(objective.inputs()[0].name, "x");

    Dataset data = rows();
    std::vector<float> x(size_t(kRows * kWidth)), t;
    std::memcpy(x.data(), data.inputs[0].data.data(), x.size() * sizeof(float));
    for (size_t row = 0; row < size_t(kRows); ++row)
      for (size_t k = 0; k < 3; ++k) t.push_back(x[6 * row + k] * x[6 * row + 5 - k]);
    data.labels = {.type = ElementType::kFloat32, .dims = {kRows, 3}, .data = std::vector<uint8_t>(t.size() * sizeof(float)), .place = "test"};
    std::memcpy(data.labels.data.data(), t.data(), data.labels.data.size());
    const Split split = split_rows(kRows, "", 1);
    LoadedTrainer trainer(model);
    const uint32_t batch = immediate ? 4 : 6;  // 6: by micro-batches of 4 and 2
    Tuner tuner(trainer, objective, data, split,
                {.epochs = 2, .batch = batch, .schedule = {.rate = 0.25f}, .shuffle = false, .options = "float64\n"});
    tuner.run({});
    PerceptronOracle expected = oracle;
    for (const EpochRecord& epoch : tuner.position().epochs) {
      double loss = 0;
      for (size_t row = 0; row < size_t(kRows); row += batch) {
        const size_t count = std::min(size_t(batch), size_t(kRows) - row);
        loss += double(count) * expected.step(&x[6 * row], &t[3 * row], count, 0.25);
      }
      EXPECT_NEAR(epoch.train_loss, loss / double(kRows), 64 * 0x1p-24) << immediate;
    }
    const std::pair<const char*, const std::vector<double>*> learned[] = {
        {"w1", &expected.w1}, {"b1", &expected.b1}, {"w2", &expected.w2}, {"b2", &expected.b2}};
    int compared = 0;
    for (uint32_t id = 0; id < model.model().tensors().size(); ++id)
      for (const auto& [name, p] : learned) {
        const TensorRecord& r = model.model().tensors()[id];
        if (r.region != Region::kState || model.tensor_name(id) != name) continue;
        ASSERT_EQ(r.bytes, p->size() * sizeof(double)) << name;
        std::vector<double> found(p->size());
        std::memcpy(found.data(), trainer.trainer().state().data() + r.offset, r.bytes);
        for (size_t i = 0; i < found.size(); ++i, ++compared) EXPECT_NEAR(found[i], (*p)[i], 1e-13) << name << ' ' << i << ' ' << immediate;
      }
    EXPECT_EQ(compared, 30 + 5 + 15 + 3);
  }
}

TEST(objective, a_model_that_only_infers_is_refused) {
  Trained run(training_bytes(), settings());
  const LoadedModel tuned(tuned_model(run.trainer, {}), "tuned", "");
  EXPECT_THROW(Objective{tuned}, Error);
}

TEST(position, comes_back_as_it_was) {
  TunePosition p = {.epoch = 2, .step = 7, .applied = 99, .refused_in_row = 2, .epoch_steps = 7, .epoch_refused = 1, .learning_rate = 0.1f, .loss_scale = 1024,
                    .judged = {.loss = 0.1, .samples = 12, .right = 5, .answers = 12}, .epochs = {{.epoch = 1, .steps = 9, .train_loss = 1.0 / 3}, {.epoch = 2}}};
  const std::vector<std::byte> note = note_of(p, "a 1\nb 2\n");
  const TunePosition q = position_of(note, "a 1\nb 2\n", "here");
  EXPECT_EQ(note_of(q, "a 1\nb 2\n"), note);
  EXPECT_EQ(q.applied, 99u);
  EXPECT_EQ(q.epochs[0].train_loss, 1.0 / 3);
  EXPECT_TRUE(std::isnan(q.epochs[1].validate_loss));
  for (const char* other : {"a 1\nb 3\n", "a 1\n", "a 1\nb 2\nc 3\n", ""}) EXPECT_THROW(position_of(note, other, "here"), Error) << other;
  for (size_t size = 0; size < note.size(); ++size) EXPECT_THROW(position_of(std::span(note).first(size), "a 1\nb 2\n", "here"), Error) << size;
  for (size_t at = 0; at < 9; ++at) {  // magic, version, and an epoch that has no record
    std::vector<std::byte> damaged = note;
    damaged[at] ^= std::byte{1};
    EXPECT_THROW(position_of(damaged, "a 1\nb 2\n", "here"), Error) << at;
  }
  std::vector<std::byte> many = note;
  for (size_t at = 72; at < 76; ++at) many[at] = std::byte{0xFF};  // epochs
  EXPECT_THROW(position_of(many, "a 1\nb 2\n", "here"), Error);
}

TEST(schedule_option, names_and_fields) {
  EXPECT_EQ(parse_schedule("constant", 0.5f, 10).at(7), 0.5f);
  const Schedule cosine = parse_schedule("cosine,warmup=4,end=0.1", 1, 20);
  EXPECT_EQ(cosine.warmup_steps, 4u);
  EXPECT_EQ(cosine.steps, 16u);  // warm-up and fall fill the run
  EXPECT_EQ(cosine.at(20), 0.1f);
  EXPECT_EQ(parse_schedule("cosine,steps=5", 1, 20).steps, 5u);
  EXPECT_EQ(parse_schedule("step,every=3,gamma=0.5", 1, 20).at(6), 0.25f);
  EXPECT_EQ(parse_schedule("linear", 1, 10).at(5), 0.5f);
  EXPECT_EQ(parse_schedule("one_cycle", 1, 100).kind, ScheduleKind::kOneCycle);
  for (const char* bad : {"", "cos", "step", "cosine,every=2", "cosine,end", "cosine,end=x", "cosine,end=2", "cosine,warmup=-1", "one_cycle,warmup=3", "step,every=0", "cosine,", "constant,end=0.1"})
    EXPECT_THROW(parse_schedule(bad, 0.1f, 10), Error) << bad;
  for (const float rate : {-0.1f, NAN, INFINITY}) EXPECT_THROW(parse_schedule("constant", rate, 10), Error) << rate;
}

}  // namespace
}  // namespace nacre::tools
