// Tests random_uniform: known answers of Philox as fractions, in every type.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "engine/kernels/reference.h"
#include "tests/cases.h"
#include "tests/short_names.h"

namespace nacre::test {
namespace {

Array run_of(int32_t count) {
  Array run = make_array(ElementType::kInt32, {1});
  run.set(0, count);
  return run;
}

Array drawn(const KernelEntry& entry, ElementType type, std::vector<int32_t> dims, int32_t run,
            const std::vector<uint32_t>& words = {}) {
  const Execution execution = execute(entry, words, {make_array(type, std::move(dims)), run_of(run)});
  EXPECT_EQ(execution.code, Code::kOk);
  return execution.outputs[0];
}

// The words are "philox4x32 10" of zeros in Random123's kat_vectors.
TEST(random_uniform, is_the_leading_bits_of_philox) {
  constexpr uint32_t kWords[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  const auto expect = [&](const KernelEntry& entry, ElementType type, int bits) {
    const Array y = drawn(entry, type, {2, 2}, 0);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(y.real(i), std::ldexp(double(kWords[i] >> (32 - bits)), -bits)) << bits;
  };
  expect(reference::kRandomF32, kF32, 24);
  expect(reference::kRandomF16, kF16, 11);
  expect(reference::kRandomBf16, kBf16, 8);
  expect(reference::kRandomF64, kF64, 32);
}

// All 2^8 numbers occur with equal frequency: chi-squared with 255 degrees of freedom is 255 +- 5 sqrt(510).
TEST(random_uniform, is_uniform_and_below_1) {
  constexpr int kCount = 1 << 16;
  const Array y = drawn(reference::kRandomBf16, kBf16, {kCount}, 7, {1, 2, 3});
  std::vector<int> found(256);
  for (int i = 0; i < kCount; ++i) {
    ASSERT_GE(y.real(i), 0);
    ASSERT_LT(y.real(i), 1);
    ++found[size_t(y.real(i) * 256)];
  }
  double chi = 0;
  for (const int n : found) chi += (n - 256.0) * (n - 256.0) / 256;
  EXPECT_NEAR(chi, 255, 5 * std::sqrt(510.0));
}

TEST(random_uniform, depends_on_seed_layer_and_run) {
  std::set<std::vector<uint8_t>> made;
  int draws = 0;
  const auto draw = [&](int32_t run, const std::vector<uint32_t>& words) {
    const Array y = drawn(reference::kRandomF32, kF32, {5}, run, words);
    made.insert({y.bytes.begin(), y.bytes.end()});
    ++draws;
  };
  for (const int32_t run : {0, 1, -1}) draw(run, {});
  draw(0, {1});
  draw(0, {0, 1});
  draw(0, {0, 0, 1});
  EXPECT_EQ(made.size(), size_t(draws));
}

TEST(random_uniform, its_count_is_one_number) {
  const std::vector<Array> wrong = {make_array(kF32, {3}), make_array(ElementType::kInt32, {2})};
  EXPECT_EQ(execute(reference::kRandomF32, {}, wrong).code, Code::kShapeInput);
}

}  // namespace
}  // namespace nacre::test
