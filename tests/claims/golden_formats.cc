// Number formats: what their codes mean, rounding to them, and the scales of blocks.
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>

#include "engine/numeric/block_scale.h"
#include "engine/numeric/small_float.h"
#include "tests/claims/golden_topics.h"

namespace nacre::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Formats that only the tables have, made by the same template.
using Float8E4M3B11Fnuz = SmallFloat<uint8_t, 4, 3, 11, Special::kFnuz>;
using Float8E4M3Ieee = SmallFloat<uint8_t, 4, 3, 7, Special::kIeee>;
using Float8E3M4 = SmallFloat<uint8_t, 3, 4, 3, Special::kIeee>;

constexpr const char* kKinds[] = {"ieee", "fn", "fnuz", "finite"};

template <class T>
T code(uint32_t bits) {
  return T::of_bits(decltype(T::bits)(bits));
}

template <class T>
json format_row() {
  constexpr uint32_t kOne = uint32_t(T::kBias) << T::kMantissaBits;
  constexpr uint32_t kMinNormal = 1u << T::kMantissaBits;
  const auto hex = [](uint32_t bits) {
    char text[16];
    std::snprintf(text, sizeof text, "0x%x", unsigned(bits));
    return json(text);
  };
  return {{"bits", 1 + T::kExponentBits + T::kMantissaBits},
          {"E", T::kExponentBits},
          {"M", T::kMantissaBits},
          {"bias", T::kBias},
          {"kind", kKinds[int(T::kKind)]},
          {"max", double(code<T>(T::kMax))},
          {"max_code", hex(T::kMax)},
          {"min_normal", double(code<T>(kMinNormal))},
          {"min_normal_code", hex(kMinNormal)},
          {"min_subnormal", double(code<T>(1))},
          {"epsilon", double(code<T>(kOne + 1)) - 1},
          {"inf_code", T::kKind == Special::kIeee ? hex(T::kInfinity) : json()},
          {"nan_code", T::kKind == Special::kFinite ? json() : hex(T::kNan)}};
}

// Checks the threshold between numbers that still round to the largest value and numbers that do not.
template <class T>
bool overflows_above(float threshold) {
  const T above(std::nextafter(threshold, kInf)), below(std::nextafter(threshold, 0.0f));
  if (T::kKind == Special::kFinite) return below.bits == T::kMax && above.bits == T::kMax;
  return below.bits == T::kMax && above.bits != T::kMax &&
         T::saturated(std::nextafter(threshold, kInf)).bits == T::kMax;
}

json float32_row() {  // the small formats are rounded from these
  using Limits = std::numeric_limits<float>;
  return {{"bits", 32},
          {"E", 8},
          {"M", 23},
          {"bias", 127},
          {"kind", "ieee"},
          {"max", Limits::max()},
          {"max_code", "0x7f7fffff"},
          {"min_normal", Limits::min()},
          {"min_normal_code", "0x800000"},
          {"min_subnormal", Limits::denorm_min()},
          {"epsilon", Limits::epsilon()},
          {"inf_code", "0x7f800000"},
          {"nan_code", "0x7fc00000"}};
}

struct Format {
  const char* name;
  json (*row)();
  bool (*overflows)(float threshold);
};
template <class T>
constexpr Format format(const char* name) {
  return {name, format_row<T>, overflows_above<T>};
}

void formats(const json& table, Rows& rows) {
  const Format known[] = {format<Float16>("float16"),
                          format<Bfloat16>("bfloat16"),
                          {"float32", float32_row, nullptr},
                          format<Float8E4M3>("float8_e4m3fn"),
                          format<Float8E5M2>("float8_e5m2"),
                          format<Float8E4M3Fnuz>("float8_e4m3fnuz"),
                          format<Float8E5M2Fnuz>("float8_e5m2fnuz"),
                          format<Float8E4M3B11Fnuz>("float8_e4m3b11fnuz"),
                          format<Float8E4M3Ieee>("float8_e4m3"),
                          format<Float8E3M4>("float8_e3m4"),
                          format<Float4E2M1>("float4_e2m1fn")};
  for (const json& row : table) {
    bool holds = false;
    json computed;
    for (const Format& one : known) {
      if (row["name"] != one.name) continue;
      computed = one.row();
      holds = true;
      for (const auto& [key, value] : computed.items()) holds = holds && row[key] == value;
      const double threshold = row["rne_overflow_above"];
      if (one.overflows == nullptr)
        holds = holds && std::isinf(float(threshold)) && !std::isinf(float(std::nextafter(threshold, 0)));
      else holds = holds && one.overflows(float(threshold));
    }
    rows.row(holds, row, computed);
  }
}

void fp8_encode(const json& table, Rows& rows) {
  for (const json& row : table) {
    const auto x = std::bit_cast<float>(bits_of(row["f32"]));
    const json computed = {Float8E4M3(x).bits,     Float8E4M3::saturated(x).bits,
                           Float8E5M2(x).bits,     Float8E5M2::saturated(x).bits,
                           Float8E4M3Fnuz(x).bits, Float8E4M3Fnuz::saturated(x).bits,
                           Float8E5M2Fnuz(x).bits, Float8E5M2Fnuz::saturated(x).bits};
    json expected;
    for (const char* key :
         {"e4m3fn", "e4m3fn_sat", "e5m2", "e5m2_sat", "e4m3fnuz", "e4m3fnuz_sat", "e5m2fnuz", "e5m2fnuz_sat"})
      expected.push_back(bits_of(row[key]));
    rows.row(same(x, float_of(row["x"])) && computed == expected &&
                 same(float(Float8E4M3::saturated(x)), real_of(row["e4m3fn_value"])) &&
                 same(float(Float8E5M2::saturated(x)), real_of(row["e5m2_value"])),
             row, computed);
  }
}

template <class T>
void decode(const json& values, Rows& rows) {
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = double(code<T>(uint32_t(i)));
    rows.row(same(value, real_of(values[i])), {i, values[i]}, value);
  }
}

void fp8_decode_all(const json& table, Rows& rows) {
  decode<Float8E4M3>(table.at("float8_e4m3fn"), rows);
  decode<Float8E5M2>(table.at("float8_e5m2"), rows);
  decode<Float8E4M3Fnuz>(table.at("float8_e4m3fnuz"), rows);
  decode<Float8E5M2Fnuz>(table.at("float8_e5m2fnuz"), rows);
}

void half_encode(const json& table, Rows& rows) {
  for (const json& row : table) {
    const auto x = std::bit_cast<float>(bits_of(row["f32"]));
    const Float16 half(x);
    const Bfloat16 brain(x);
    rows.row(half.bits == bits_of(row["f16"]) && brain.bits == bits_of(row["bf16"]) &&
                 same(float(half), real_of(row["f16_value"])) && same(float(brain), real_of(row["bf16_value"])),
             row, {half.bits, brain.bits});
  }
}

void fp4_rne(const json& table, Rows& rows) {
  for (const json& row : table) {
    const Float4E2M1 q(float_of(row["x"]));
    rows.row(q.bits == bits_of(row["code"]) && same(float(q), real_of(row["value"])), row, q.bits);
  }
}

void mx_e8m0_scale(const json& table, Rows& rows) {
  for (const json& row : table) {
    const float amax = float_of(row["amax"]);
    const Float8E8M0 e4m3 = mx_scale<Float8E4M3>(amax), e5m2 = mx_scale<Float8E5M2>(amax),
                     floor = mx_scale_floor<Float8E4M3>(amax);
    const json& defined = row["ocp_floor_e4m3_code"];  // null if OCP defines no code; ours is NaN then
    rows.row(e4m3.bits == row["te_e4m3_code"] && same(float(e4m3), real_of(row["te_e4m3_scale"])) &&
                 e5m2.bits == row["te_e5m2_code"] && floor.bits == (defined.is_null() ? 255 : defined.get<int>()),
             row, {e4m3.bits, e5m2.bits, floor.bits});
  }
}

void mxfp8_block(const json& block, Rows& rows) {
  const std::vector<float> x = floats_of(block["x"]);
  const Float8E8M0 scale = mx_scale<Float8E4M3>(amax_value(amax_bits<float>(x)));
  bool holds = scale.bits == block["scale_code"] && same(float(scale), real_of(block["scale"]));
  json computed = {scale.bits};
  for (size_t i = 0; i < x.size(); ++i) {
    const auto q = mx_code<Float8E4M3>(x[i], scale);
    computed.push_back(q.bits);
    holds = holds && q.bits == bits_of(block["q"][i]) && same(mx_value(q, scale), real_of(block["dequant"][i]));
  }
  rows.row(holds, block, computed);
}

void nvfp4_block(const json& block, Rows& rows) {
  const std::vector<float> x = floats_of(block["x"]);
  const float tensor_scale = nvfp4_tensor_scale(float_of(block["global_amax"]));
  const Float8E4M3 scale = nvfp4_block_scale(amax_value(amax_bits<float>(x)), tensor_scale);
  const float multiplier = nvfp4_multiplier(scale, tensor_scale);
  bool holds = same(tensor_scale, real_of(block["S_enc"])) && scale.bits == bits_of(block["block_scale_e4m3"]);
  json computed = {tensor_scale, scale.bits};
  for (size_t i = 0; i < x.size(); ++i) {
    const Float4E2M1 q = nvfp4_code(x[i], multiplier);
    computed.push_back({q.bits, nvfp4_value(q, scale, tensor_scale)});
    holds = holds && q.bits == bits_of(block["q"][i]) &&
            same(nvfp4_value(q, scale, tensor_scale), real_of(block["dequant"][i]));
  }
  rows.row(holds, block, computed);
}

constexpr Topic kTopics[] = {{"formats", formats},
                             {"fp8_encode", fp8_encode},
                             {"fp8_decode_all", fp8_decode_all},
                             {"fp4_e2m1_decode_all", decode<Float4E2M1>},
                             {"half_encode", half_encode},
                             {"fp4_rne", fp4_rne},
                             {"mx_e8m0_scale", mx_e8m0_scale},
                             {"mxfp8_block", mxfp8_block},
                             {"nvfp4_block", nvfp4_block}};

}  // namespace

std::span<const Topic> format_topics() { return kTopics; }

}  // namespace nacre::test
