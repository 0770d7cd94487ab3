#include "tools/convert_elements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tools/error.h"
#include "tools/format.h"

namespace nacre::tools {
namespace {

template <class T>
std::vector<uint8_t> bytes_of(const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  return {bytes, bytes + values.size() * sizeof(T)};
}

template <class T>
std::vector<T> values_of(const std::vector<uint8_t>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(quantize_elements, rounds_half_away_from_zero_and_saturates) {
  const std::vector<float> x = {0.5f, -0.5f, 1.5f, -1.5f, 0.49f, 1e30f, -1e30f};
  EXPECT_EQ(values_of<int8_t>(quantize_elements(bytes_of(x), 1, 3, "x")),
            (std::vector<int8_t>{4, 2, 5, 1, 3, 127, -128}));
}

TEST(quantize_elements, refuses_what_has_no_code) {
  for (const float x : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    EXPECT_THROW(quantize_elements(bytes_of<float>({0, x}), 1, 0, "x"), Error);
}

TEST(quantize_elements, codes_survive_a_round_trip) {
  std::vector<int8_t> codes;
  for (int code = -128; code < 128; ++code) codes.push_back(int8_t(code));
  for (const float scale : {1.0f, 0.003921569f, 0.58470290899276733f, 1e-20f}) {
    const std::vector<uint8_t> reals = dequantize_elements(bytes_of(codes), scale, 83);
    EXPECT_EQ(values_of<int8_t>(quantize_elements(reals, scale, 83, "x")), codes) << scale;
  }
}

TEST(cast_elements, keeps_every_number_or_refuses) {
  const auto cast = [](auto from, ElementType from_type, ElementType to) {
    return cast_elements(bytes_of(std::vector{from}), from_type, to, "x");
  };
  EXPECT_EQ(values_of<float>(cast(uint8_t{255}, ElementType::kUint8, ElementType::kFloat32))[0], 255);
  EXPECT_EQ(values_of<int8_t>(cast(-128.0f, ElementType::kFloat32, ElementType::kInt8))[0], -128);
  EXPECT_EQ(values_of<int64_t>(cast(-0x1p63, ElementType::kFloat64, ElementType::kInt64))[0], INT64_MIN);
  EXPECT_EQ(values_of<float>(cast(int32_t{1 << 24}, ElementType::kInt32, ElementType::kFloat32))[0], 0x1p24f);
  EXPECT_TRUE(std::isnan(values_of<float>(cast(std::nan(""), ElementType::kFloat64, ElementType::kFloat32))[0]));
  EXPECT_THROW(cast(int32_t{(1 << 24) + 1}, ElementType::kInt32, ElementType::kFloat32), Error);
  EXPECT_THROW(cast(0.1, ElementType::kFloat64, ElementType::kFloat32), Error);
  EXPECT_THROW(cast(0.5f, ElementType::kFloat32, ElementType::kInt8), Error);
  EXPECT_THROW(cast(128.0f, ElementType::kFloat32, ElementType::kInt8), Error);
  EXPECT_THROW(cast(0x1p63, ElementType::kFloat64, ElementType::kInt64), Error);
  EXPECT_THROW(cast(std::nan(""), ElementType::kFloat64, ElementType::kInt32), Error);
  EXPECT_THROW(cast(int64_t{INT64_MAX}, ElementType::kInt64, ElementType::kFloat64), Error);
  EXPECT_THROW(cast(uint16_t{0}, ElementType::kFloat16, ElementType::kFloat32), Error);
}

TEST(format, groups_digits_by_three) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(grouped(UINT64_MAX), "18,446,744,073,709,551,615");
}

TEST(format, says_one_sample_and_two_samples) {
  EXPECT_EQ(counted(1, "sample"), "1 sample");
  EXPECT_EQ(counted(1797, "sample"), "1,797 samples");
}

TEST(format, quantizers_show_the_sign_of_the_zero_point) {
  EXPECT_EQ(quantizer_text(0.5f, -128), "real = 0.5 * (code + 128)");
  EXPECT_EQ(quantizer_text(0.25f, 3), "real = 0.25 * (code - 3)");
}

TEST(format, file_names_leave_no_directory) {
  EXPECT_EQ(file_name_of("model/dense:0"), "model_dense_0");
  EXPECT_EQ(file_name_of("../../etc/passwd"), "_._.._etc_passwd");
  EXPECT_EQ(file_name_of(".hidden"), "_hidden");
  EXPECT_EQ(file_name_of(""), "_");
  EXPECT_EQ(file_name_of(std::string(500, 'a')).size(), 100u);
}

}  // namespace
}  // namespace nacre::tools
