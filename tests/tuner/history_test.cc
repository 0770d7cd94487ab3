// Tests the order of rows and the records of a training: the log, the rule for stopping early, the page.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "tests/run_tool.h"
#include "tools/base/error.h"
#include "tools/files/npy.h"
#include "tools/report/plots/line_plot.h"
#include "tools/tuner/history.h"
#include "tools/tuner/rows.h"

namespace nacre::tools {
namespace {

EpochRecord record(uint32_t epoch, double train, double validate) {
  return {.epoch = epoch,
          .steps = 3,
          .refused = 0,
          .learning_rate = 0.1f,
          .loss_scale = 1,
          .train_loss = train,
          .validate_loss = validate};
}

TEST(history, a_loss_that_only_rises_is_seen) {
  EXPECT_TRUE(only_rises({record(1, 1, NAN), record(2, 2, NAN), record(3, 4, NAN)}));
  EXPECT_TRUE(only_rises({record(1, 9, 1), record(2, 8, 2)})) << "of the validation rows where there are some";
  EXPECT_FALSE(only_rises({record(1, 1, NAN), record(2, 3, NAN), record(3, 2, NAN)}));
  EXPECT_FALSE(only_rises({record(1, 1, NAN), record(2, 1, NAN)}));
  EXPECT_FALSE(only_rises({record(1, 1, NAN)}));
}

TEST(rows, are_shuffled_as_the_formula_says) {
  // The expected order was computed from the description in rows.h with Python's integers, for seed 1, epoch 0.
  EXPECT_EQ(shuffled(8, 1, 0), (std::vector<int64_t>{6, 0, 3, 4, 5, 2, 1, 7}));
  EXPECT_EQ(shuffled(8, 1, 1), (std::vector<int64_t>{7, 3, 1, 5, 0, 6, 2, 4}));
}

TEST(rows, every_epoch_has_every_row_once_and_its_own_order) {
  std::set<std::vector<int64_t>> seen;
  for (uint64_t seed = 0; seed < 4; ++seed)
    for (uint64_t epoch = 0; epoch < 50; ++epoch) {
      std::vector<int64_t> order = shuffled(33, seed, epoch);
      EXPECT_EQ(order, shuffled(33, seed, epoch));
      EXPECT_TRUE(seen.insert(order).second);
      std::ranges::sort(order);
      for (int64_t i = 0; i < 33; ++i) ASSERT_EQ(order[size_t(i)], i);
    }
  EXPECT_EQ(shuffled(1, 5, 5), (std::vector<int64_t>{0}));
}

// How often row i is at position j is binomial(n, 1/5): within 5 standard deviations of n / 5.
TEST(rows, every_place_is_as_likely_as_any_other) {
  constexpr int kDraws = 20000, kRows = 5;
  int counts[kRows][kRows] = {};
  for (int epoch = 0; epoch < kDraws; ++epoch) {
    const std::vector<int64_t> order = shuffled(kRows, 9, uint64_t(epoch));
    for (size_t j = 0; j < kRows; ++j) ++counts[order[j]][j];
  }
  const double mean = kDraws / 5.0, deviation = std::sqrt(kDraws * 0.2 * 0.8);
  for (const auto& of_row : counts)
    for (const int count : of_row) EXPECT_NEAR(count, mean, 5 * deviation);
}

TEST(rows, a_fraction_is_kept_for_validation) {
  const Split split = split_rows(10, "0.25", 3);
  EXPECT_EQ(split.validate.size(), 3u);  // 2.5, to the nearest, ties away from 0
  EXPECT_EQ(split.train.size(), 7u);
  std::set<int64_t> all(split.train.begin(), split.train.end());
  all.insert(split.validate.begin(), split.validate.end());
  EXPECT_EQ(all.size(), 10u);
  EXPECT_EQ(split.validate, split_rows(10, "0.25", 3).validate);
  EXPECT_EQ(split_rows(10, "", 3).train.size(), 10u);
  for (const char* bad : {"0", "1", "-0.1", "0.01", "0.99", "nan"}) EXPECT_THROW(split_rows(10, bad, 3), Error) << bad;
}

TEST(rows, a_file_names_them) {
  const TemporaryDirectory folder;
  const auto file = [&](std::vector<uint8_t> rows) {
    write_npy(folder / "rows.npy", {.type = ElementType::kUint8, .dims = {int64_t(rows.size())}, .data = rows});
    return folder / "rows.npy";
  };
  EXPECT_EQ(split_rows(5, file({4, 0}), 0).train, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_THROW(split_rows(5, file({5}), 0), Error);
  EXPECT_THROW(split_rows(5, file({1, 1}), 0), Error);
  EXPECT_THROW(split_rows(2, file({1, 0}), 0), Error);
  EXPECT_THROW(split_rows(5, folder / "nowhere.npy", 0), Error);
}

TEST(rows, a_mask_of_bools_names_them) {
  const TemporaryDirectory folder;
  const auto file = [&](std::vector<uint8_t> mask) {
    write_npy(folder / "mask.npy", {.type = ElementType::kBool, .dims = {int64_t(mask.size())}, .data = mask});
    return folder / "mask.npy";
  };
  EXPECT_EQ(split_rows(5, file({1, 0, 0, 0, 1}), 0).validate, (std::vector<int64_t>{0, 4}));
  for (const std::vector<uint8_t>& bad :
       {std::vector<uint8_t>{0, 1}, {0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}, {1, 0, 0, 0, 1, 1}})
    EXPECT_THROW(split_rows(5, file(bad), 0), Error) << bad.size();
}

TEST(early_stop, waits_for_its_patience_and_no_longer) {
  std::vector<EpochRecord> epochs;
  const EarlyStop stop = {.patience = 2, .least = 0.1};
  const double losses[] = {1.0, 0.5, 0.45, 0.39, 0.31, 0.35};  // better by more than 0.1: at 2 and at 4
  const bool stops[] = {false, false, false, false, false, true};
  for (size_t i = 0; i < 6; ++i) {
    epochs.push_back(record(uint32_t(i + 1), 9, losses[i]));
    EXPECT_EQ(stop.stops(epochs), stops[i]) << i;
    EXPECT_FALSE(EarlyStop{}.stops(epochs));
  }
  EXPECT_EQ(best_epoch(epochs), 4u);
}

TEST(early_stop, watches_the_training_loss_where_there_is_no_other) {
  std::vector<EpochRecord> epochs = {record(1, 2, EpochRecord::kNone),
                                     record(2, EpochRecord::kNone, EpochRecord::kNone)};
  EXPECT_EQ(best_epoch(epochs), 0u);
  EXPECT_TRUE((EarlyStop{.patience = 1, .least = 0}.stops(epochs)));  // NaN is no better loss
  EXPECT_EQ(best_epoch({record(1, EpochRecord::kNone, EpochRecord::kNone)}), std::nullopt);
}

TEST(csv_log, has_every_digit_and_empty_fields) {
  EpochRecord e = record(1, 0.1, EpochRecord::kNone);
  e.train_accuracy = 1.0 / 3;
  EXPECT_EQ(csv_log({e}),
            "epoch,steps,refused,learning_rate,loss_scale,loss,accuracy,validation_loss,validation_accuracy\n"
            "1,3,0,0.1,1,0.1,0.3333333333333333,,\n");
}

TEST(line_plot, marks_are_round_and_few) {
  EXPECT_EQ(mark_step(1, 6), 0.2);
  EXPECT_EQ(mark_step(10, 10), 1);
  EXPECT_EQ(mark_step(7, 6), 2);
  EXPECT_EQ(mark_step(0, 6), 1);
  for (double range = 1e-6; range < 1e6; range *= 1.37) {
    EXPECT_LE(range / mark_step(range, 6), 6 * (1 + 1e-9)) << range;
    EXPECT_GT(range / mark_step(range, 6), 2) << range;
  }
}

TEST(line_plot, zero_has_no_sign) {
  const std::string svg = line_plot({.x_name = "epoch", .curves = {{"loss", {{1, 0.008}, {2, 0.0039}, {3, 0.022}}}}});
  EXPECT_NE(svg.find(">0</text>"), std::string::npos);
  EXPECT_EQ(svg.find(">-0</text>"), std::string::npos);
}

// A share of one epoch, or one that is equal in all epochs, is drawn between marks that are shares too.
TEST(line_plot, shares_stay_between_0_and_100_percent) {
  for (const std::vector<std::pair<double, double>>& points : {std::vector<std::pair<double, double>>{{1, 1.0}},
                                                               {{1, 1.0}, {2, 1.0}},
                                                               {{1, 0.0}},
                                                               {{1, 0.0}, {2, 1.0}},
                                                               {{1, 0.997}, {2, 1.0}},
                                                               {{1, 0.5}}}) {
    const std::string svg = line_plot({.x_name = "epoch", .curves = {{"accuracy", points}}, .percent = true});
    int marks = 0;
    for (size_t at = svg.find(" %</text>"); at != svg.npos; at = svg.find(" %</text>", at + 1)) {
      const size_t first = svg.rfind('>', at) + 1;
      const double mark = std::stod(svg.substr(first, at - first));
      EXPECT_GE(mark, 0) << svg;
      EXPECT_LE(mark, 100) << svg;
      ++marks;
    }
    EXPECT_GE(marks, 3) << svg;
  }
}

TEST(line_plot, says_at_every_x_what_all_curves_are) {
  const double none = std::nan("");
  const std::vector<LineReadout> readouts = line_readouts(
      {.x_name = "epoch", .curves = {{"training", {{1, 0.5}, {2, 0.25}}}, {"validation", {{2, 0.3}, {3, none}}}}});
  ASSERT_EQ(readouts.size(), 2u);
  EXPECT_EQ(readouts[0].text, "epoch 1: training 0.5");
  EXPECT_EQ(readouts[1].text, "epoch 2: training 0.25, validation 0.3");
  EXPECT_LT(readouts[0].place, readouts[1].place);
}

TEST(line_plot, draws_whatever_the_numbers) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const std::vector<std::pair<double, double>>& points : std::vector<std::vector<std::pair<double, double>>>{
           {},
           {{1, 0.5}},
           {{1, inf}, {2, -inf}},
           {{1, 0}, {2, 0}},
           {{1, 1e300}, {2, -1e300}, {3, EpochRecord::kNone}, {4, 1}}}) {
    const std::string svg = line_plot({.x_name = "epoch", .curves = {{"a <b>", points}}});
    EXPECT_EQ(svg.find("inf"), std::string::npos);
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_NE(svg.find("a &lt;b&gt;"), std::string::npos);
  }
}

TEST(training_page, has_the_curves_there_are) {
  const TrainingPage page = {.title = "digits & more",
                             .summary = {"one"},
                             .options = {{"--lr", "0.1"}},
                             .epochs = {record(1, 2, EpochRecord::kNone), record(2, 1, EpochRecord::kNone)}};
  const std::string html = training_html(page);
  EXPECT_NE(html.find("digits &amp; more"), std::string::npos);
  EXPECT_NE(html.find("<title>training, epoch 2: 1</title>"), std::string::npos);
  EXPECT_EQ(html.find("<title>validation"), std::string::npos);
  EXPECT_EQ(html.find("Accuracy:"), std::string::npos);
  EXPECT_EQ(html.find("src="), std::string::npos);  // nothing from outside
}

}  // namespace
}  // namespace nacre::tools
