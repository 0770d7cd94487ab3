// Tests runs of fewer rows than compiled. If a tensor and its alias have rows of different sizes, the first rows of
// one are not those that a shorter run wrote of the other. Then only the whole batch runs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/model/execute.h"
#include "tests/short_names.h"

namespace nacre::test {
namespace {

constexpr int kBatch = 4, kWidth = 3;

struct Refused {
  const char* text;
  Draft draft;
  uint32_t step;
};

// Builds h = tanh(x), y = tanh(view of h): two steps over a batch of 4 rows of 3.
struct Chain {
  Draft d;
  uint32_t x = d.arena(kF32, {kBatch, kWidth}, 0, 0, 0, kNoIndex, kInput | kBatched);

  Draft two_steps(uint32_t written, uint32_t read, uint32_t y) {
    d.step(Op::kTanh, {}, {x}, {written});
    d.step(Op::kTanh, {}, {read}, {y});
    d.program(Entry::kInfer, "", {192}, kBatch);
    return d;
  }
  uint32_t output(uint16_t flags, std::vector<int32_t> dims = {kBatch, kWidth}) {
    return d.arena(kF32, std::move(dims), 1, 1, 144, kNoIndex, uint16_t(kOutput | flags));
  }
};

Draft whole_view() {  // [4, 3] seen as [4, 3, 1]
  Chain c;
  const uint32_t h = c.d.arena(kF32, {kBatch, kWidth}, 0, 1, 48, kNoIndex, kBatched),
                 y = c.output(kBatched, {kBatch, kWidth, 1});
  const uint32_t view = c.d.alias(h, {kBatch, kWidth, 1}, 1, 1);
  return c.two_steps(h, view, y);
}

Draft view_that_is_not_batched(std::vector<int32_t> dims) {
  Chain c;
  const uint32_t h = c.d.arena(kF32, {kBatch, kWidth}, 0, 1, 48, kNoIndex, kBatched), y = c.output(0, dims);
  const uint32_t view = c.d.alias(h, dims, 1, 1);
  c.d.tensors[view].flags = 0;
  return c.two_steps(h, view, y);
}

Draft written_through_a_batched_view() {
  Chain c;
  const uint32_t h = c.d.arena(kF32, {kBatch, kWidth}, 0, 1, 48), y = c.output(0);
  const uint32_t view = c.d.alias(h, {kBatch, kWidth}, 0, 0);
  c.d.tensors[view].flags = kBatched;
  return c.two_steps(view, h, y);
}

// Views the 12 numbers of h [4, 3] from the seventh on, as [4, 1].
Draft batched_part() {
  Chain c;
  const uint32_t h = c.d.arena(kF32, {kBatch, kWidth}, 0, 1, 48, kNoIndex, kBatched),
                 y = c.output(kBatched, {kBatch, 1});
  const uint32_t part = c.d.alias(h, {kBatch, 1}, 1, 1, 24);
  return c.two_steps(h, part, y);
}

Draft output_that_is_not_batched() {
  Chain c;
  const uint32_t h = c.d.arena(kF32, {kBatch, kWidth}, 0, 1, 48, kNoIndex, kBatched), y = c.output(kBatched);
  const uint32_t view = c.d.alias(h, {kBatch, kWidth}, 0, 1);
  c.d.tensors[view].flags = kOutput;
  return c.two_steps(h, h, y);
}

Draft view_of_a_stream() {
  Draft d;
  const uint32_t s = d.global(Region::kStream, kF32, {kBatch, kWidth}, kBatched);
  const uint32_t view = d.alias(s, {kBatch, kWidth}, 0, 0);
  d.tensors[view].flags = 0;
  const uint32_t y = d.arena(kF32, {kBatch, kWidth}, 0, 0, 0, kNoIndex, kOutput);
  d.step(Op::kTanh, {}, {view}, {y});
  d.program(Entry::kInfer, "", {48}, kBatch);
  return d;
}

TEST(rows, a_view_that_keeps_them_lowers_the_batch) {
  const Buffer file = pack(whole_view());
  Bound b;
  ASSERT_TRUE(b.open(file.bytes()).ok());
  for (uint32_t rows = 1; rows <= kBatch; ++rows) {
    std::vector<float> x(kBatch * kWidth), y(x.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = float(i) * 0.25f - 1;
    std::memcpy(b.program.input(0).data(), x.data(), x.size() * sizeof(float));
    ASSERT_TRUE(b.program.run_rows(rows).ok());
    std::memcpy(y.data(), b.program.output(0).data(), y.size() * sizeof(float));
    for (size_t i = 0; i < rows * kWidth; ++i) EXPECT_EQ(y[i], std::tanh(std::tanh(x[i]))) << rows;
  }
}

TEST(rows, a_view_that_does_not_keep_them_fixes_its_step) {
  const Refused rows[] = {{"of the same shape, not batched", view_that_is_not_batched({kBatch, kWidth}), 1},
                          {"flat", view_that_is_not_batched({kBatch * kWidth}), 1},
                          {"batched, of what is not", written_through_a_batched_view(), 0},
                          {"batched, of a part", batched_part(), 1},
                          {"an output that no step names", output_that_is_not_batched(), 1},
                          {"of a stream", view_of_a_stream(), 0}};
  for (const Refused& row : rows) {
    const Buffer file = pack(row.draft);
    Bound b;
    ASSERT_TRUE(b.open(file.bytes()).ok()) << row.text;
    EXPECT_TRUE(b.program.run().ok()) << row.text;
    EXPECT_TRUE(b.program.run_rows(kBatch).ok()) << row.text;
    for (uint32_t fewer = 1; fewer < kBatch; ++fewer) {
      const Status s = b.program.run_rows(fewer);
      EXPECT_EQ(s.code, Code::kRowsUnsupported) << row.text;
      EXPECT_EQ(s.table, Table::kStep) << row.text;
      EXPECT_EQ(s.index, row.step) << row.text;
    }
  }
}

}  // namespace
}  // namespace nacre::test
