// Tests a training over a data set: cut off after any step it ends with the same state, and its reports agree with
// the formulas.
#include "tools/tuner/tuner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "tests/run_tool.h"
#include "tests/tuner/tuned_perceptron.h"
#include "tools/base/error.h"
#include "tools/commands/schedule_option.h"
#include "tools/tuner/tuned_model.h"

namespace nacre::tools {
namespace {

using namespace tuned_perceptron;

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

// With a learning rate of 0 the losses of the steps, averaged, equal the loss of the rows. 40 roundings of 2^-24 are
// allowed. A loss is the logarithm of a softmax of three in float32, once by the loss step and once from `infer`'s
// probabilities (8 each), and a mean over at most 6 rows of losses below 3 (7 each).
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
  for (uint32_t i = 0; i < 4; ++i)
    EXPECT_EQ(moving.tuner.position().epochs[i].learning_rate, settings().schedule.at(3 * i + 2)) << i;
}

// Wherever the training is cut off, and whatever was trained in between, it must end with the same state. The whole
// design claims this.
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
      EXPECT_EQ(first.tuner.run({.step = [&](const Tuner::Progress&) { ++steps; },
                                 .epoch = {},
                                 .interrupted = [&] { return steps == cut; }}),
                Tuner::End::kInterrupted);
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

// If the log cannot be written on a full disk, no epoch is lost.
TEST(tuner, an_epoch_is_saved_before_anybody_hears_of_it) {
  const TemporaryDirectory folder;
  const std::vector<uint8_t> bytes = training_bytes();
  {
    Trained first(bytes, settings(folder / "run"));
    EXPECT_THROW(
        first.tuner.run({.step = {},
                         .epoch = [](const TunePosition&) -> bool { throw Error(kIo, "log.csv", "cannot be written"); },
                         .interrupted = {}}),
        Error);
  }
  Trained second(bytes, settings(folder / "run"));
  EXPECT_TRUE(second.tuner.begin(false));
  EXPECT_EQ(second.tuner.position().epoch, 1u);
  EXPECT_EQ(second.tuner.position().step, 0u);
}

// The training has begun more epochs than are now asked for, so its state belongs to none of them.
TEST(tuner, a_training_that_stands_beyond_its_end_is_refused) {
  const TemporaryDirectory folder;
  const std::vector<uint8_t> bytes = training_bytes();
  for (const int cut : {4, 6}) {  // of 3 steps an epoch: in the second, and at its end
    TuneSettings s = settings(folder / std::to_string(cut));
    {
      Trained first(bytes, s);
      int steps = 0;
      first.tuner.run(
          {.step = [&](const Tuner::Progress&) { ++steps; }, .epoch = {}, .interrupted = [&] { return steps == cut; }});
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

// SGD's parameters start the same network under Adam, which takes the state that both have.
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

// One row is NaN. In every epoch the first of three steps is refused, never two in a row, and it changes nothing.
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
  s.batch = 2;  // 8 steps of an epoch
  Trained run(training_bytes(Optimizer::kSgd), s);
  try {
    run.tuner.run({});
    ADD_FAILURE() << "it did not diverge";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, kFailed);
    EXPECT_NE(std::string(error.what()).find("3 steps in a row"), std::string::npos) << error.what();
  }
}

std::string divergence_of(Trained& run) {
  try {
    run.tuner.run({});
  } catch (const Error& error) {
    EXPECT_EQ(error.code, kFailed);
    return error.what();
  }
  return "";
}

// With this rate one step makes the weights so large that outputs become NaN. The training loss is computed before
// the step and is finite.
TEST(tuner, an_epoch_that_validates_to_no_number_is_not_the_best_and_ends_the_training) {
  TuneSettings s = settings();
  s.batch = 16;
  s.epochs = 2;
  s.schedule = {.rate = 1e30f};
  Trained run(training_bytes(Optimizer::kSgd), s);
  const std::string why = divergence_of(run);
  EXPECT_NE(why.find("epoch 1: the training diverged: the loss on the validation rows is not finite"), why.npos) << why;
  const std::vector<EpochRecord>& epochs = run.tuner.position().epochs;
  ASSERT_EQ(epochs[0].refused, 0u);
  EXPECT_TRUE(std::isfinite(epochs[0].train_loss));
  EXPECT_EQ(epochs[0].validate_loss, INFINITY);
  EXPECT_EQ(best_epoch(epochs), std::nullopt);
}

// The first step was good and the last was not. Only the outputs of the last step's numbers show it.
TEST(tuner, outputs_of_the_last_batch_that_are_no_numbers_end_the_training_and_are_not_saved) {
  const TemporaryDirectory directory;
  TuneSettings s = settings();
  s.batch = 32;
  s.keep_best = false;
  s.checkpoint = directory / "run";
  s.checkpoint_steps = 1;
  s.schedule = {.rate = 1e30f};
  s.to_model = "nacre export";
  Trained run(training_bytes(Optimizer::kSgd), s, "");
  const std::string why = divergence_of(run);
  EXPECT_NE(why.find("outputs of the last batch are not finite"), why.npos) << why;
  EXPECT_NE(why.find("no model is written"), why.npos) << why;
}

// The first epoch was good. Its checkpoint stays, and the sentence says how to make a model of it.
TEST(tuner, the_last_finite_epoch_stays_and_is_named) {
  const TemporaryDirectory directory;
  TuneSettings s = settings();
  s.keep_best = false;
  s.epochs = 2;
  s.checkpoint = directory / "run";
  s.to_model = "nacre export";
  s.schedule = {.rate = 0.01f};
  const std::vector<uint8_t> bytes = training_bytes(Optimizer::kSgd);
  std::vector<std::byte> good;
  {
    Trained first(bytes, s, "");
    int epochs = 0;
    first.tuner.run({.step = {}, .epoch = [&](const TunePosition&) { return ++epochs < 1; }, .interrupted = {}});
    good = first.state();
  }
  s.schedule = {.rate = 1e30f};
  {
    Trained second(bytes, s, "");
    ASSERT_TRUE(second.tuner.begin(false));
    const std::string why = divergence_of(second);
    EXPECT_NE(why.find("epoch 2: the training diverged"), why.npos) << why;
    EXPECT_NE(why.find("epoch 1 stays in " + s.checkpoint + ": nacre export"), why.npos) << why;
  }
  Trained third(bytes, s, "");
  ASSERT_TRUE(third.tuner.begin(false));
  EXPECT_EQ(third.state(), good);
}

// A loss scale of 3e38 makes every step be refused, and is halved each time. That is not divergence, but nothing may be
// saved.
TEST(tuner, a_training_without_a_step_that_counts_ends_as_one_that_diverged) {
  TuneSettings s = settings();
  s.epochs = 1;
  s.batch = 16;
  s.schedule = {.rate = 0.01f};
  TrainingOptions training;
  training.optimizer.kind = Optimizer::kSgd;
  training.loss_scale = loss_scaler(LossScaleSystem::kJmp);
  training.loss_scale.initial = 3e38f;
  Trained run(compile_training(test::perceptron(4), training, {}).bytes, s, "");
  for (size_t at = 0; at < run.data.inputs[0].data.size(); at += sizeof(float)) {  // products beyond float32
    const float large = 1e6f;
    std::memcpy(run.data.inputs[0].data.data() + at, &large, sizeof large);
  }
  const std::string why = divergence_of(run);
  EXPECT_NE(why.find("nothing was learned"), why.npos) << why;
}

TEST(tuner, early_stop_keeps_the_best_epoch) {
  TuneSettings s = settings();
  s.epochs = 200;
  s.schedule = {.rate = 0.05f};
  s.early_stop = {.patience = 5, .least = 0};
  Trained run(training_bytes(), s);
  std::vector<std::vector<std::byte>> states;
  ASSERT_EQ(run.tuner.run({.step = {},
                           .epoch = [&](const TunePosition&) { return states.push_back(run.state()), true; },
                           .interrupted = {}}),
            Tuner::End::kEarly);
  const size_t best = *best_epoch(run.tuner.position().epochs);
  EXPECT_EQ(states.size(), best + 6);
  run.tuner.take_kept();
  EXPECT_EQ(run.state(), states[best]);
}

TEST(position, comes_back_as_it_was) {
  TunePosition p = {.epoch = 2,
                    .step = 7,
                    .applied = 99,
                    .refused_in_row = 2,
                    .epoch_steps = 7,
                    .epoch_refused = 1,
                    .learning_rate = 0.1f,
                    .loss_scale = 1024,
                    .judged = {.loss = 0.1, .samples = 12, .right = 5, .answers = 12},
                    .epochs = {{.epoch = 1, .steps = 9, .train_loss = 1.0 / 3}, {.epoch = 2}}};
  const std::vector<std::byte> note = note_of(p, "a 1\nb 2\n");
  const TunePosition q = position_of(note, "a 1\nb 2\n", "here").position;
  EXPECT_EQ(note_of(q, "a 1\nb 2\n"), note);
  EXPECT_EQ(q.applied, 99u);
  EXPECT_EQ(q.epochs[0].train_loss, 1.0 / 3);
  EXPECT_TRUE(std::isnan(q.epochs[1].validate_loss));
  for (const char* other : {"a 1\nb 3\n", "a 1\n", "a 1\nb 2\nc 3\n", ""})
    EXPECT_THROW(position_of(note, other, "here"), Error) << other;
  for (size_t size = 0; size < note.size(); ++size)
    EXPECT_THROW(position_of(std::span(note).first(size), "a 1\nb 2\n", "here"), Error) << size;
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
  EXPECT_THROW(parse_schedule("cosine,warmup=4,warmup=5", 1, 20), Error) << "a field given twice";
  EXPECT_EQ(parse_schedule("step,every=3,gamma=0.5", 1, 20).at(6), 0.25f);
  EXPECT_EQ(parse_schedule("linear", 1, 10).at(5), 0.5f);
  EXPECT_EQ(parse_schedule("one_cycle", 1, 100).kind, ScheduleKind::kOneCycle);
  for (const char* bad : {"", "cos", "step", "cosine,every=2", "cosine,end", "cosine,end=x", "cosine,end=2",
                          "cosine,warmup=-1", "one_cycle,warmup=3", "step,every=0", "cosine,", "constant,end=0.1"})
    EXPECT_THROW(parse_schedule(bad, 0.1f, 10), Error) << bad;
  for (const float rate : {-0.1f, NAN, INFINITY}) EXPECT_THROW(parse_schedule("constant", rate, 10), Error) << rate;
}

}  // namespace
}  // namespace nacre::tools
