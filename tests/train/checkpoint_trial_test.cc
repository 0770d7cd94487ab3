// Tests checkpoints on trial: confirmed, reverted, torn.
#include <gtest/gtest.h>

#include "engine/train/checkpoint.h"
#include "tests/train/flash.h"
#include "tests/train/opened_model.h"
#include "tests/train/state_models.h"

namespace nacre::test {
namespace {

using namespace opened_model;

class trial : public testing::Test {
 protected:
  Opened m{learner(3, "sgd")};
  Flash flash{8, 64, bytes_for(m.model, 8, 64)};
  Checkpoint checkpoint{flash.storage()};

  bool save(uint8_t fill, bool pending) {
    return checkpoint.save(m.model, m.state(fill).bytes(), {.pending = pending}).ok();
  }
  void expect(uint8_t fill, bool pending) {
    Buffer state = m.state(0);
    Checkpoint::Report report, look;
    ASSERT_TRUE(checkpoint.load(m.model, state.bytes(), &report).ok());
    EXPECT_TRUE(all_are(state.bytes(), fill)) << int(fill);
    EXPECT_EQ(report.pending, pending);
    ASSERT_TRUE(checkpoint.look(&look).ok());
    EXPECT_EQ(look.pending, pending);
    EXPECT_EQ(look.generation, report.generation);
    EXPECT_EQ(flash.violations(), 0u);
  }
};

TEST_F(trial, counts_once_confirmed) {
  ASSERT_TRUE(save(1, false));
  ASSERT_TRUE(save(2, true));
  expect(2, true);
  ASSERT_TRUE(checkpoint.confirm().ok());
  expect(2, false);
  ASSERT_TRUE(checkpoint.confirm().ok()) << "again";
  ASSERT_TRUE(save(3, true));  // overwrites checkpoint 1
  expect(3, true);
  ASSERT_TRUE(checkpoint.revert().ok());
  expect(2, false);
}

TEST_F(trial, reverted_gives_the_one_before) {
  ASSERT_TRUE(save(1, false));
  ASSERT_TRUE(save(2, true));
  ASSERT_TRUE(checkpoint.revert().ok());
  expect(1, false);
  EXPECT_EQ(checkpoint.revert().code, Code::kNoCheckpoint) << "the only one that counts";
  expect(1, false);
  ASSERT_TRUE(save(3, false));
  ASSERT_TRUE(checkpoint.revert().ok()) << "one that counts, with one before it";
  expect(1, false);
}

TEST_F(trial, never_writes_over_the_last_that_counts) {
  ASSERT_TRUE(save(1, false));
  for (uint8_t i = 2; i < 6; ++i) ASSERT_TRUE(save(i, true));
  expect(5, true);
  ASSERT_TRUE(checkpoint.revert().ok());
  expect(1, false);
}

TEST_F(trial, the_first_may_be_forgotten_too) {
  EXPECT_EQ(checkpoint.revert().code, Code::kNoCheckpoint);
  EXPECT_EQ(checkpoint.confirm().code, Code::kNoCheckpoint);
  ASSERT_TRUE(save(1, true));
  ASSERT_TRUE(save(2, true)) << "beside it: nothing counts yet";
  expect(2, true);
  ASSERT_TRUE(checkpoint.revert().ok());
  expect(1, true);
  ASSERT_TRUE(checkpoint.revert().ok());
  Buffer state = m.state(9);
  EXPECT_EQ(checkpoint.load(m.model, state.bytes()).code, Code::kNoCheckpoint);
}

TEST_F(trial, a_torn_confirm_says_so) {
  ASSERT_TRUE(save(1, false));
  ASSERT_TRUE(save(2, true));
  for (uint64_t seed = 1; seed < 50; ++seed) {
    Flash torn = flash;
    torn.cut_after(9, seed);  // the second granule of the mark
    EXPECT_EQ(Checkpoint(torn.storage()).confirm().code, Code::kStorageFailed);
    torn.restore();
    const Code again = Checkpoint(torn.storage()).confirm().code;
    EXPECT_TRUE(again == Code::kOk || again == Code::kConfirmTorn) << int(again);
    ASSERT_TRUE(Checkpoint(torn.storage()).save(m.model, m.state(3).bytes()).ok());
    EXPECT_EQ(torn.violations(), 0u);
  }
}

}  // namespace
}  // namespace nacre::test
