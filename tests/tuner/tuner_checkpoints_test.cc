// Tests trainings whose checkpoints are damaged, removed, or belong to another training.
// tests/claims/checkpoints_hold.cc tries all of them.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "tests/run_tool.h"
#include "tests/tuner/tuned_perceptron.h"
#include "tools/base/error.h"
#include "tools/tuner/saved_state.h"

namespace nacre::tools {
namespace {

namespace fs = std::filesystem;
using tuned_perceptron::settings;
using tuned_perceptron::Trained;
using tuned_perceptron::training_bytes;

class tuner_checkpoints : public testing::Test {
 protected:
  // Returns settings of a training in the folder whose options text includes the rate.
  TuneSettings of_folder(float rate = 0.6f) const {
    TuneSettings s = settings(folder / "run");
    s.schedule = {.rate = rate};
    s.checkpoint_steps = 0;
    s.options = "lr " + std::to_string(rate) + "\n";
    return s;
  }

  void train(const TuneSettings& s, bool restart = false) {
    Trained run(bytes, s);
    run.tuner.begin(restart);
    run.tuner.run({});
    run.tuner.take_kept();
    kept = run.state();
  }

  void damage(const std::string& file) const {
    std::vector<uint8_t> data = read_bytes(folder / file);
    data[data.size() / 2] ^= 1;
    write_bytes(folder / file, data);
  }

  std::string refusal(const TuneSettings& s, int code) const {
    try {
      Trained(bytes, s).tuner.begin(false);
      return "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code, code) << error.what();
      return error.what();
    }
  }

  // Resumes the training as a second process would. Returns its best state and appends its warnings.
  std::vector<std::byte> best_of(const TuneSettings& s, std::string* warnings) const {
    Trained run(bytes, s);
    EXPECT_TRUE(run.tuner.begin(false));
    for (const std::string& warning : run.tuner.warnings()) *warnings += warning + "\n";
    run.tuner.run({});
    run.tuner.take_kept();
    return run.state();
  }

  TemporaryDirectory folder;
  std::vector<uint8_t> bytes = training_bytes();
  std::vector<std::byte> kept;
};

TEST_F(tuner_checkpoints, a_best_epoch_that_is_damaged_is_never_an_older_one) {
  train(of_folder());
  for (const char* slot : {"run/best/slot0.checkpoint", "run/best/slot1.checkpoint"}) damage(slot);
  std::string warnings;
  if (const std::string why = refusal(of_folder(), kBadInput); why == "taken") {
    EXPECT_EQ(best_of(of_folder(), &warnings), kept);
  } else {
    EXPECT_TRUE(has(why, "holds no whole checkpoint of epoch")) << why;
  }
}

TEST_F(tuner_checkpoints, a_best_epoch_of_another_training_is_not_taken) {
  train(of_folder(0.05f));
  fs::rename(folder / "run/best", folder / "other");
  fs::remove_all(folder / "run");
  train(of_folder());
  fs::remove_all(folder / "run/best");
  fs::rename(folder / "other", folder / "run/best");
  const std::string why = refusal(of_folder(), kBadInput);
  if (why == "taken") {
    std::string warnings;
    EXPECT_EQ(best_of(of_folder(), &warnings), kept);
  } else {
    EXPECT_TRUE(has(why, "run/best: holds no whole checkpoint of epoch")) << why;
  }
}

TEST_F(tuner_checkpoints, a_slot_that_is_not_whole_is_said_with_the_epoch_that_is_taken) {
  train(of_folder());
  damage("run/slot1.checkpoint");
  const LoadedModel model(bytes, "test", "");
  LoadedTrainer trainer(model);
  const LoadedState loaded = load_state(trainer, folder / "run");
  EXPECT_EQ(loaded.where, "epoch 3");
  ASSERT_EQ(loaded.warnings.size(), 1u);
  EXPECT_TRUE(has(loaded.warnings[0], "run/slot1.checkpoint is not whole")) << loaded.warnings[0];
  EXPECT_TRUE(has(loaded.warnings[0], "run/slot0.checkpoint is taken, epoch 3")) << loaded.warnings[0];
  std::string warnings;
  EXPECT_EQ(best_of(of_folder(), &warnings), kept);
  EXPECT_TRUE(has(warnings, "is taken, epoch 3")) << warnings;
}

TEST_F(tuner_checkpoints, slots_without_anything_are_refused_and_not_begun_anew) {
  train(of_folder());
  for (const char* slot : {"run/slot0.checkpoint", "run/slot1.checkpoint"}) write_bytes(folder / slot, {});
  EXPECT_TRUE(has(refusal(of_folder(), kBadInput), "nothing in them\n    begin anew with --restart"));
  for (const char* slot : {"run/slot0.checkpoint", "run/slot1.checkpoint"}) fs::remove(folder / slot);
  EXPECT_TRUE(has(refusal(of_folder(), kBadInput), "holds the best epoch of a training, and no checkpoint of"));
  const std::vector<std::byte> before = kept;
  train(of_folder(), true);
  EXPECT_EQ(kept, before);
}

TEST_F(tuner_checkpoints, restart_keeps_the_old_training_until_the_new_one_saves_and_then_none_of_it) {
  train(of_folder());
  const std::vector<std::byte> old = kept;
  std::string warnings;
  {
    Trained run(bytes, of_folder(0.05f));
    EXPECT_FALSE(run.tuner.begin(true));
  }
  EXPECT_EQ(best_of(of_folder(), &warnings), old);
  {
    Trained run(bytes, of_folder(0.05f));
    run.tuner.begin(true);
    run.tuner.run({.step = {}, .epoch = [](const TunePosition&) { return false; }, .interrupted = {}});
  }
  EXPECT_TRUE(has(refusal(of_folder(), kUsage), "another training"));
  const LoadedModel model(bytes, "test", "");
  LoadedTrainer trainer(model);
  EXPECT_EQ(load_state(trainer, folder / "run", {.best = true}).where, "epoch 1");
}

TEST_F(tuner_checkpoints, a_folder_that_is_removed_or_replaced_ends_the_training_with_the_code_of_output) {
  for (const bool replaced : {false, true}) {
    fs::remove_all(folder / "run");
    Trained run(bytes, of_folder());
    const auto at_epoch = [&](const TunePosition& p) {
      if (p.epoch != 2) return true;
      fs::rename(folder / "run", folder / "moved");
      if (replaced) fs::copy(folder / "moved", folder / "run", fs::copy_options::recursive);
      return true;
    };
    try {
      run.tuner.run({.step = {}, .epoch = at_epoch, .interrupted = {}});
      ADD_FAILURE() << "it says that it is saved";
    } catch (const Error& error) {
      EXPECT_EQ(error.code, kIo);
      EXPECT_TRUE(has(error.what(), "while it was in use")) << error.what();
    }
    EXPECT_FALSE(run.tuner.checkpoint_there());
    fs::remove_all(folder / "moved");
  }
}

}  // namespace
}  // namespace nacre::tools
