// Tests ops with state that outlives a run, stream_lstm and svdf, and the 16-bit functions of the integer LSTM.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/kernels/reference.h"
#include "engine/numeric/fixed_point_functions_16.h"
#include "engine/simd/fixed16.h"
#include "engine/simd/vec.h"
#include "tests/cases.h"
#include "tests/short_names.h"

namespace nacre::test {
namespace {

// Measures the largest errors over all inputs, in units of 2^-15. The oracle of stream_lstm relies on these bounds.
TEST(fixed_point_16, logistic_and_tanh_are_near_the_functions) {
  double worst_logistic = 0, worst_tanh = 0;
  for (int x = INT16_MIN; x <= INT16_MAX; ++x) {
    const double exact = 32768 / (1 + std::exp(-x * 0x1p-12));
    worst_logistic = std::max(worst_logistic, std::abs(fixed16::logistic(x) - exact));
    for (int bits = 0; bits <= 6; ++bits)
      worst_tanh = std::max(worst_tanh, std::abs(fixed16::tanh(x, bits) - 32768 * std::tanh(std::ldexp(x, bits - 15))));
  }
  EXPECT_LT(worst_logistic, 7);
  EXPECT_LT(worst_tanh, 13);
}

// Vectors of plain C++ compute the bits of the functions above, for all inputs. kernels_correct tests each tier.
TEST(fixed_point_16, vectors_compute_the_same_bits) {
  using V = Lanes<8>;
  using Fixed = VectorFixed16<V>;
  for (int x = INT16_MIN; x <= INT16_MAX; x += V::kLanes) {
    V::I inputs = {};
    for (int i = 0; i < V::kLanes; ++i) inputs.lane[i] = x + i;
    const V::I sigmoids = Fixed::logistic(inputs);
    for (int i = 0; i < V::kLanes; ++i) ASSERT_EQ(sigmoids.lane[i], fixed16::logistic(x + i)) << x + i;
    for (int bits = 0; bits <= 6; ++bits) {
      const V::I tangents = Fixed::tanh(inputs, bits);
      for (int i = 0; i < V::kLanes; ++i)
        ASSERT_EQ(tangents.lane[i], fixed16::tanh(x + i, bits)) << x + i << ' ' << bits;
    }
  }
}

constexpr const KernelEntry* kLstms[] = {&reference::kStreamLstmF32, &reference::kStreamLstmF16,
                                         &reference::kStreamLstmBf16, &reference::kStreamLstmF64,
                                         &reference::kStreamLstmI8Double};

// Returns the steps [first, first + count) of x [batch, time, width].
Array steps_of(const Array& x, int first, int count) {
  Array part = make_array(x.element, {x.dims[0], count, x.dims[2]});
  const size_t row = x.bytes.size() / size_t(x.dims[0]), step = row / size_t(x.dims[1]);
  for (int n = 0; n < x.dims[0]; ++n)
    std::copy_n(x.bytes.begin() + long(size_t(n) * row + size_t(first) * step), size_t(count) * step,
                part.bytes.begin() + long(size_t(n * count) * step));
  return part;
}

TEST(stream_lstm, a_sequence_in_parts_is_the_whole) {
  for (const KernelEntry* entry : kLstms)
    for (uint64_t seed = 0; seed < 10; ++seed) {
      Random random(seed);
      Case made = random_case(*entry, random);
      made.inputs[0].dims[1] = 5;
      std::vector<Array> inputs = random_inputs(made, random);
      const Array x = inputs[0];
      const Execution whole = execute(*entry, made.words, inputs);
      ASSERT_EQ(whole.code, Code::kOk);
      int first = 0;
      for (const int count : {2, 3}) {
        inputs[0] = steps_of(x, first, count);
        const Execution part = execute(*entry, made.words, inputs);
        EXPECT_EQ(part.outputs[0].bytes, steps_of(whole.outputs[0], first, count).bytes)
            << int(entry->op) << ' ' << seed;
        inputs[3] = part.updated[0], inputs[4] = part.updated[1];
        first += count;
      }
      EXPECT_EQ(inputs[3].bytes, whole.updated[0].bytes);
      EXPECT_EQ(inputs[4].bytes, whole.updated[1].bytes);
    }
}

// With a state of zeros it equals lstm to the bit.
TEST(stream_lstm, without_a_past_it_is_lstm) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Random random(seed);
    Case made = random_case(reference::kStreamLstmF32, random);
    std::vector<Array> inputs = random_inputs(made, random);
    for (const size_t slot : {3u, 4u}) std::fill(inputs[slot].bytes.begin(), inputs[slot].bytes.end(), uint8_t(0));
    const Execution streamed = execute(reference::kStreamLstmF32, {}, inputs);
    inputs[3] = inputs[4] = {};
    EXPECT_EQ(streamed.outputs[0].bytes, execute(reference::kLstmF32, {}, inputs).outputs[0].bytes);
  }
}

// Zeroed memory is the state 0, whatever the zero point is: h has no effect, and silence gives the code of 0.
TEST(streams, zeroed_memory_is_a_reset) {
  const Array x = array_of<int>(ElementType::kInt8, {1, 2}, {30, 30}),
              w = array_of<int>(kI8, {2, 3}, {1, 2, 3, 4, 5, 6});
  const std::vector<uint32_t> words = {1, 30, 7, 1 << 30, 1};
  const Execution svdf = execute(reference::kSvdfI8Double, words, {x, w, {}, make_array(kI8, {1, 2, 3})});
  EXPECT_EQ(svdf.outputs[0].integer(0), 7);
  EXPECT_EQ(svdf.updated[0].bytes, make_array(kI8, {1, 2, 3}).bytes);

  const Array gates = make_array(ElementType::kInt16, {1, 1, 4}), r = array_of<int>(kI8, {4, 1}, {90, 90, 90, 90});
  std::vector<uint32_t> lstm = {0, 12, uint32_t(-20), uint32_t(-20)};
  for (int i = 0; i < 5; ++i) lstm.insert(lstm.end(), {1u << 30, uint32_t(i < 4 ? 0 : -22)});
  const Execution run = execute(reference::kStreamLstmI8Double, lstm,
                                {gates, r, {}, make_array(kI8, {1, 1}), make_array(ElementType::kInt16, {1, 1})});
  EXPECT_EQ(run.outputs[0].integer(0), -20);
  EXPECT_EQ(run.updated[0].integer(0), 0);
}

TEST(streams, shapes_and_attributes_that_do_not_fit_are_refused) {
  const auto lstm = [](std::vector<uint32_t> words, std::vector<std::vector<int32_t>> dims) {
    std::vector<Array> inputs;
    for (size_t i = 0; i < dims.size(); ++i) inputs.push_back(make_array(kF32, dims[i]));
    return execute(reference::kStreamLstmF32, words, inputs).code;
  };
  EXPECT_EQ(lstm({}, {{1, 2, 8}, {8, 2}, {8}, {1, 2}, {1, 2}}), Code::kOk);
  EXPECT_EQ(lstm({}, {{1, 2, 8}, {8, 2}, {8}, {2, 2}, {1, 2}}), Code::kShapeInput);
  EXPECT_EQ(lstm({}, {{1, 2, 8}, {8, 2}, {4}, {1, 2}, {1, 2}}), Code::kShapeBias);
  EXPECT_EQ(lstm({}, {{1, 2, 6}, {8, 2}, {8}, {1, 2}, {1, 2}}), Code::kShapeWeights);
  EXPECT_EQ(lstm({0xBF800000}, {{1, 2, 8}, {8, 2}, {8}, {1, 2}, {1, 2}}), Code::kAttribute);  // clips at -1
  EXPECT_EQ(lstm({0, 0, 1}, {{1, 2, 8}, {8, 2}, {8}, {1, 2}, {1, 2}}), Code::kAttribute);     // a zero point
  const auto svdf = [](std::vector<uint32_t> words, std::vector<std::vector<int32_t>> dims) {
    std::vector<Array> inputs;
    for (size_t i = 0; i < dims.size(); ++i) inputs.push_back(make_array(kF32, dims[i]));
    return execute(reference::kSvdfF32, words, inputs).code;
  };
  EXPECT_EQ(svdf({1}, {{1, 4}, {4, 3}, {2}, {1, 4, 3}}), Code::kOk);
  EXPECT_EQ(svdf({2}, {{1, 4}, {4, 3}, {2}, {1, 4, 3}}), Code::kGroups);
  EXPECT_EQ(svdf({0xFFFFFFFF}, {{1, 4}, {4, 3}, {2}, {1, 4, 3}}), Code::kGroups);
  EXPECT_EQ(svdf({1}, {{1, 4}, {4, 3}, {4}, {1, 4, 3}}), Code::kShapeBias);
  EXPECT_EQ(svdf({1}, {{1, 4}, {4, 3}, {2}, {1, 4, 4}}), Code::kShapeInput);
}

}  // namespace
}  // namespace nacre::test
