// Evaluates ops in the compiler. A constant expression may not have undefined behaviour: an index out of range, a
// signed overflow or a read of uninitialised memory does not compile. The ops are constexpr because CUDA's device
// compiler compiles them too (ports/cuda).
#include <gtest/gtest.h>

#include <array>

#include "engine/ops/conv.h"
#include "engine/ops/dense.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/move.h"
#include "engine/ops/optimize.h"

namespace nacre::test {
namespace {

TEST(constant_evaluation, dense) {
  constexpr auto y = [] {
    constexpr float x[] = {1, 2, 3, 4}, w[] = {1, -1, 0.5f, 2, 0, 1}, b[] = {10, 20, 30};
    std::array<float, 6> out = {};
    const Dense op = {.rows = 2, .in = 2, .out = 3, .rows_per_batch = 1, .x_zero = 0, .epilogue = {}};
    op.forward<float>(x, w, Optional<const float>{b}, out.data());
    return out;
  }();
  static_assert(y == std::array<float, 6>{9, 24.5f, 32, 9, 29.5f, 34});
  EXPECT_EQ(y[1], 24.5f);
}

// For x [1, 2, 2, 1] and a window of 2 x 2 with a pad of 1 before, each output is the sum of the elements inside.
constexpr WindowAxis kAxis = {.in = 2, .out = 2, .kernel = 2, .stride = 1, .dilation = 1, .before = 1};

TEST(constant_evaluation, conv2d_int8_at_borders) {
  constexpr auto y = [] {
    constexpr int8_t x[] = {1, 2, 3, 4}, w[] = {1, 1, 1, 1};
    constexpr int32_t scale[] = {1 << 30, 1};  // 1
    std::array<int8_t, 4> out = {};
    const Conv2d op = {.batch = 1,
                       .in_c = 1,
                       .out_c = 1,
                       .group_in = 1,
                       .group_out = 1,
                       .w_channel = 4,
                       .w_column = 1,
                       .window = {kAxis, kAxis},
                       .x_zero = 0,
                       .epilogue = {}};
    op.forward_int8<Rounding::kDouble>(x, w, Optional<const int32_t>{nullptr}, scale, out.data());
    return out;
  }();
  static_assert(y == std::array<int8_t, 4>{1, 3, 4, 10});
  EXPECT_EQ(y[3], 10);
}

TEST(constant_evaluation, transpose_and_broadcast) {
  constexpr auto y = [] {
    constexpr float x[] = {1, 2, 3, 4, 5, 6}, row[] = {10, 20};
    std::array<float, 6> turned = {}, out = {};
    Transpose transpose = {};
    transpose.walk = {.rank = 2, .size = {3, 2}, .stride = {{1, 3}}, .first = {}};
    transpose.forward<float>(x, turned.data());
    Sum sum = {};
    sum.walk = {.rank = 2, .size = {3, 2}, .stride = {{2, 1}, {0, 1}}, .first = {}};
    sum.add<float>(turned.data(), row, out.data());
    return out;
  }();
  static_assert(y == std::array<float, 6>{11, 24, 12, 25, 13, 26});
  EXPECT_EQ(y[5], 26);
}

TEST(constant_evaluation, sgd) {
  constexpr auto p = [] {
    constexpr float gradients[] = {1, -2, 8}, report[] = {0.5f, 0, 0, 1}, rate[] = {2};
    std::array<float, 3> parameters = {1, 1, 1};
    const Sgd op = {{.elements = 3, .clip_value = 3, .weight_decay = 0}};
    op.forward<float, float>(gradients, report, rate, Update<float>{parameters.data()});
    return parameters;
  }();
  static_assert(p == std::array<float, 3>{0, 3, -5});
  EXPECT_EQ(p[2], -5);
}

}  // namespace
}  // namespace nacre::test
