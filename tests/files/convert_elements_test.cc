#include "tools/files/convert_elements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/numeric/small_float.h"
#include "tools/base/error.h"
#include "tools/base/format.h"

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
  EXPECT_EQ(values_of<int8_t>(quantize_elements(bytes_of(x), ElementType::kInt8, 1, 3, "x")),
            (std::vector<int8_t>{4, 2, 5, 1, 3, 127, -128}));
}

TEST(quantize_elements, has_codes_of_16_bits) {
  const std::vector<float> x = {0.5f, -300.4f, 40000, -40000};
  const std::vector<uint8_t> codes = quantize_elements(bytes_of(x), ElementType::kInt16, 1, 0, "x");
  EXPECT_EQ(values_of<int16_t>(codes), (std::vector<int16_t>{1, -300, 32767, -32768}));
  EXPECT_EQ(values_of<float>(dequantize_elements(codes, ElementType::kInt16, 0.5f, 0)),
            (std::vector<float>{0.5f, -150, 16383.5f, -16384}));
}

TEST(quantize_elements, refuses_what_has_no_code) {
  for (const float x : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    EXPECT_THROW(quantize_elements(bytes_of<float>({0, x}), ElementType::kInt8, 1, 0, "x"), Error);
}

TEST(quantize_elements, codes_survive_a_round_trip) {
  std::vector<int8_t> codes;
  for (int code = -128; code < 128; ++code) codes.push_back(int8_t(code));
  for (const float scale : {1.0f, 0.003921569f, 0.58470290899276733f, 1e-20f}) {
    const std::vector<uint8_t> reals = dequantize_elements(bytes_of(codes), ElementType::kInt8, scale, 83);
    EXPECT_EQ(values_of<int8_t>(quantize_elements(reals, ElementType::kInt8, scale, 83, "x")), codes) << scale;
  }
}

// 0.1 lies between numbers of both formats; 65520 is the first that rounds to float16's infinity.
TEST(round_elements, gives_the_nearest_number_of_a_float_type) {
  const std::vector<uint8_t> x = bytes_of<float>({0.1f, -2, 65519});
  EXPECT_EQ(values_of<uint16_t>(round_elements(x, ElementType::kFloat16, "x")),
            (std::vector<uint16_t>{0x2E66, 0xC000, 0x7BFF}));
  EXPECT_EQ(values_of<uint16_t>(round_elements(x, ElementType::kBfloat16, "x")),
            (std::vector<uint16_t>{0x3DCD, 0xC000, 0x4780}));
  EXPECT_EQ(values_of<double>(round_elements(x, ElementType::kFloat64, "x"))[0], double(0.1f));
  EXPECT_THROW(round_elements(bytes_of<float>({65520}), ElementType::kFloat16, "x"), Error);
}

// Every code of the formats that numpy has no name for is a float32; NaN stays NaN.
TEST(in_numpy_type, keeps_every_code) {
  std::vector<uint8_t> codes(256);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = uint8_t(i);
  for (const ElementType type : {ElementType::kFloat8E4M3, ElementType::kFloat8E5M2}) {
    const NpyArray array = in_numpy_type({type, {256}, codes});
    EXPECT_EQ(array.type, ElementType::kFloat32);
    const std::vector<float> x = array.values<float>();
    for (size_t i = 0; i < codes.size(); ++i) {
      const float wanted = type == ElementType::kFloat8E4M3 ? float(Float8E4M3::of_bits(uint8_t(i)))
                                                            : float(Float8E5M2::of_bits(uint8_t(i)));
      EXPECT_TRUE(x[i] == wanted || (std::isnan(x[i]) && std::isnan(wanted))) << i;
    }
  }
  EXPECT_EQ(in_numpy_type({ElementType::kBfloat16, {1}, {0xCD, 0x3D}}).values<float>()[0], 0.10009765625f);
  EXPECT_EQ(in_numpy_type({ElementType::kFloat16, {1}, {0, 0}}).type, ElementType::kFloat16);
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
  EXPECT_EQ(values_of<uint16_t>(cast(uint8_t{16}, ElementType::kUint8, ElementType::kBfloat16))[0], 0x4180);
  EXPECT_EQ(values_of<float>(cast(uint16_t{0x2E66}, ElementType::kFloat16, ElementType::kFloat32))[0],
            0.0999755859375f);
  EXPECT_THROW(cast(257.0f, ElementType::kFloat32, ElementType::kBfloat16), Error);
  EXPECT_THROW(cast(INT64_MAX, ElementType::kInt64, ElementType::kBfloat16), Error);
  EXPECT_THROW(cast(int32_t{(1 << 24) + 1}, ElementType::kInt32, ElementType::kFloat32), Error);
  EXPECT_THROW(cast(0.1, ElementType::kFloat64, ElementType::kFloat32), Error);
  EXPECT_THROW(cast(0.5f, ElementType::kFloat32, ElementType::kInt8), Error);
  EXPECT_THROW(cast(128.0f, ElementType::kFloat32, ElementType::kInt8), Error);
  EXPECT_THROW(cast(0x1p63, ElementType::kFloat64, ElementType::kInt64), Error);
  EXPECT_THROW(cast(std::nan(""), ElementType::kFloat64, ElementType::kInt32), Error);
  EXPECT_THROW(cast(int64_t{INT64_MAX}, ElementType::kInt64, ElementType::kFloat64), Error);
  EXPECT_THROW(cast(uint16_t{0}, ElementType::kTernary, ElementType::kFloat32), Error);
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
