// Tests non_max_suppression on boxes written by hand: equal scores, corners, boxes without area, NaN scores, soft
// suppression, and shapes. Claim op_table tests the values in between.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "engine/kernels/reference.h"
#include "tests/one_step.h"
#include "tests/short_names.h"

namespace nacre::test {
namespace {

struct Suppression {
  std::vector<double> boxes, scores;
  uint32_t most = 3, closed = 0, at_least = 0;
  float overlap = 0.5f, least = 0, sigma = 0;
  int32_t empty = -1;

  Execution run(const KernelEntry& entry = reference::kNonMaxSuppressionF32) const {
    const ElementType real = entry.operands[0].element;
    Array box = array_of(real, {int32_t(boxes.size())}, boxes);
    Array score = array_of(real, {int32_t(scores.size())}, scores);
    box.dims = {1, int32_t(boxes.size() / 4), 4};
    score.dims = {1, int32_t(4 * scores.size() / boxes.size()), int32_t(boxes.size() / 4)};
    const auto word = [](float v) { return std::bit_cast<uint32_t>(v); };
    return execute(entry, {most, word(overlap), word(least), word(sigma), closed, at_least, uint32_t(empty)},
                   {box, score});
  }
  void expect(const std::vector<int64_t>& places) const {
    for (const KernelEntry* entry : {&reference::kNonMaxSuppressionF32, &reference::kNonMaxSuppressionF64}) {
      const Execution done = run(*entry);
      ASSERT_EQ(done.code, Code::kOk);
      EXPECT_EQ(done.outputs[2].integer(0), int64_t(places.size()));
      for (size_t i = 0; i < size_t(done.outputs[0].dims[0]); ++i) {
        EXPECT_EQ(done.outputs[0].integer(int64_t(i)), i < places.size() ? places[i] : empty) << i;
        if (i >= places.size()) {
          EXPECT_EQ(done.outputs[1].real(int64_t(i)), 0) << i;
        }
      }
    }
  }
};

TEST(non_max_suppression, of_equals_the_first_is_selected) {
  Suppression({.boxes = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}, .scores = {0.5, 0.5, 0.5}, .most = 2}).expect({0, 1});
}

TEST(non_max_suppression, an_overlap_at_the_bound_counts_where_it_is_closed) {
  Suppression half = {.boxes = {0, 0, 1, 2, 0, 0, 1, 1}, .scores = {0.9, 0.8}};  // o = 1 / 2
  half.expect({0, 1});
  half.closed = 1;
  half.expect({0});
}

TEST(non_max_suppression, corners_may_be_any_two) {
  Suppression({.boxes = {1, 1, 0, 0, 0, 1, 1, 0, 1, 0, 0, 1}, .scores = {0.1, 0.3, 0.2}}).expect({1});
}

TEST(non_max_suppression, boxes_without_area_overlap_nothing) {
  Suppression({.boxes = {0, 0, 0, 1, 0, 0, 0, 1, kNan, 0, 1, 1}, .scores = {0.1, 0.3, 0.2}}).expect({1, 2, 0});
}

TEST(non_max_suppression, scores_at_the_least_and_no_numbers_have_no_part) {
  Suppression some = {.boxes = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7},
                      .scores = {0.25, kNan, 0.5, -kInf},
                      .most = 4,
                      .least = 0.25f};
  some.expect({2});
  some.at_least = 1;
  some.expect({2, 0});
  some.least = -float(kInf);
  some.expect({2, 0});
}

TEST(non_max_suppression, lists_stand_without_gaps) {
  Suppression({.boxes = {0, 0, 1, 1, 0, 0, 1, 1}, .scores = {0.1, 0.2, -1, -1, 0.4, 0.3}}).expect({1, 4});
}

TEST(non_max_suppression, soft_suppression_lowers_by_a_gaussian) {
  const Suppression soft = {
      .boxes = {0, 0, 1, 2, 0, 0, 1, 1, 5, 5, 6, 6}, .scores = {0.9, 0.8, 0.7}, .overlap = 1, .sigma = 0.5f};
  soft.expect({0, 2, 1});
  EXPECT_NEAR(soft.run().outputs[1].real(2), 0.8 * std::exp(-0.25), 1e-6);
  Suppression bounded = soft;
  bounded.least = 0.65f;  // above the score that box 1 keeps
  bounded.expect({0, 2});
}

TEST(non_max_suppression, shapes_and_attributes_that_do_not_fit_are_refused) {
  Suppression bad = {.boxes = {0, 0, 1, 1}, .scores = {0.5}};
  bad.most = 0;
  EXPECT_EQ(bad.run().code, Code::kAttribute);
  bad.most = 1u << 31;
  EXPECT_EQ(bad.run().code, Code::kAttribute);
  bad.most = 1, bad.sigma = float(kNan);
  EXPECT_EQ(bad.run().code, Code::kAttribute);
  bad.sigma = 0, bad.closed = 2;
  EXPECT_EQ(bad.run().code, Code::kAttribute);
  const Array boxes = make_array(kF32, {1, 2, 4}), scores = make_array(kF32, {1, 1, 3});
  const auto code = [](const Array& b, const Array& s, uint32_t most) {
    return execute(reference::kNonMaxSuppressionF32, {most}, {b, s}).code;
  };
  EXPECT_EQ(code(boxes, scores, 1), Code::kShapeInput);
  EXPECT_EQ(code(boxes, make_array(kF32, {1, 2}), 1), Code::kShapeRank);
  EXPECT_EQ(code(make_array(kF32, {1, 2, 5}), make_array(kF32, {1, 1, 2}), 1), Code::kShapeInput);
  EXPECT_EQ(code(boxes, make_array(kF32, {1, 3, 2}), 1u << 30), Code::kElements);
}

}  // namespace
}  // namespace nacre::test
