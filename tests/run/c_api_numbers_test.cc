// Tests conversions of numbers (nacre_c_numbers.h), and what C tells about kernels, operands and other machines.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "engine/nacre.h"
#include "engine/nacre_c.h"
#include "engine/numeric/affine.h"
#include "engine/numeric/small_float.h"
#include "ports/cortex_m/cortex_m.h"
#include "ports/cortex_m/cortex_m_c.h"
#include "ports/x86/x86.h"
#include "ports/x86/x86_c.h"
#include "tests/model/execute.h"

namespace nacre::test {
namespace {

// All codes of a small format go to float32 and back, and every kind of float32 rounds as the type of C++ rounds.
template <class T, class Round>
void expect_format(uint8_t element, const Round& round) {
  using Bits = decltype(T::bits);
  for (uint32_t code = 0; code <= std::numeric_limits<Bits>::max(); ++code) {
    const T value = T::of_bits(Bits(code));
    float real = 0;
    Bits back = 0;
    ASSERT_EQ(nacre_to_float32(element, &value.bits, &real, 1).code, 0);
    ASSERT_EQ(std::bit_cast<uint32_t>(real), std::bit_cast<uint32_t>(float(value))) << code;
    ASSERT_EQ(nacre_from_float32(element, &real, &back, 1).code, 0);
    ASSERT_EQ(back, round(real).bits) << code;
  }
  for (uint32_t word = 0; word < 0xFFFF0000u; word += 0x10001u * 7) {
    const auto real = std::bit_cast<float>(word);
    Bits code = 0;
    ASSERT_EQ(nacre_from_float32(element, &real, &code, 1).code, 0);
    ASSERT_EQ(code, round(real).bits) << word;
  }
}

TEST(c_api_numbers, are_those_of_the_types_of_cpp) {
  expect_format<Float16>(NACRE_FLOAT16, [](float v) { return Float16(v); });
  expect_format<Bfloat16>(NACRE_BFLOAT16, [](float v) { return Bfloat16(v); });
  expect_format<Float8E4M3>(NACRE_FLOAT8_E4M3, [](float v) { return Float8E4M3::saturated(v); });
  expect_format<Float8E5M2>(NACRE_FLOAT8_E5M2, [](float v) { return Float8E5M2::saturated(v); });
  expect_format<Float8E4M3Fnuz>(NACRE_FLOAT8_E4M3_FNUZ, [](float v) { return Float8E4M3Fnuz::saturated(v); });
  expect_format<Float8E5M2Fnuz>(NACRE_FLOAT8_E5M2_FNUZ, [](float v) { return Float8E5M2Fnuz::saturated(v); });
}

TEST(c_api_numbers, integers_round_half_to_even_and_saturate) {
  const float real[] = {2.5f, 3.5f, -2.5f, 1e30f, -1e30f, std::nanf(""), 0.5f};
  int8_t small[7];
  int32_t large[7];
  uint8_t truth[7];
  ASSERT_EQ(nacre_from_float32(NACRE_INT8, real, small, 7).code, 0);
  ASSERT_EQ(nacre_from_float32(NACRE_INT32, real, large, 7).code, 0);
  ASSERT_EQ(nacre_from_float32(NACRE_BOOL, real, truth, 7).code, 0);
  EXPECT_EQ(std::vector<int>(small, small + 7), (std::vector<int>{2, 4, -2, 127, -128, 0, 0}));
  EXPECT_EQ(std::vector<int>(large, large + 7), (std::vector<int>{2, 4, -2, INT32_MAX, INT32_MIN, 0, 0}));
  EXPECT_EQ(std::vector<int>(truth, truth + 7), (std::vector<int>{1, 1, 1, 1, 1, 1, 1}));
  float back[7];
  ASSERT_EQ(nacre_to_float32(NACRE_INT32, large, back, 7).code, 0);
  EXPECT_EQ(back[3], 2147483648.0f);
  double wide[2] = {0.1, 1e300};
  ASSERT_EQ(nacre_to_float32(NACRE_FLOAT64, wide, back, 2).code, 0);
  EXPECT_EQ(back[0], 0.1f);
  EXPECT_TRUE(std::isinf(back[1]));
}

TEST(c_api_numbers, a_quantized_tensor_rounds_as_tflite_does) {
  nacre_tensor_info info = {};
  info.size = sizeof info, info.element = NACRE_INT8, info.rank = 2, info.dims[0] = 256, info.dims[1] = 4;
  info.scale = 0.1f, info.zero = -3;
  std::vector<float> real;
  for (int i = -512; i < 512; ++i) real.push_back(float(i) * 0.033f);
  std::vector<int8_t> codes(real.size());
  ASSERT_EQ(nacre_write_numbers(&info, real.data(), codes.data(), real.size()).code, 0);
  for (size_t i = 0; i < real.size(); ++i) ASSERT_EQ(codes[i], affine_code(real[i], 0.1f, -3)) << real[i];
  std::vector<float> back(real.size());
  ASSERT_EQ(nacre_read_numbers(&info, codes.data(), back.data(), back.size()).code, 0);
  for (size_t i = 0; i < real.size(); ++i) ASSERT_EQ(back[i], affine_value(codes[i], 0.1f, -3));

  const float scales[] = {1, 0.5f};
  const int32_t zeros[] = {0, 10};
  info.dims[0] = 2, info.dims[1] = 3, info.scale = 0, info.zero = 0, info.axis = 0;
  info.scales = scales, info.zeros = zeros, info.scale_count = 2;
  const float rows[] = {1, 2, 3, 1, 2, 3};
  int8_t each[6];
  ASSERT_EQ(nacre_write_numbers(&info, rows, each, 6).code, 0);
  EXPECT_EQ(std::vector<int>(each, each + 6), (std::vector<int>{1, 2, 3, 12, 14, 16}));
  float same[6];
  ASSERT_EQ(nacre_read_numbers(&info, each, same, 6).code, 0);
  EXPECT_EQ(std::memcmp(same, rows, sizeof rows), 0);
}

TEST(c_api_numbers, refuse_what_they_cannot_convert) {
  float one = 1;
  uint8_t bytes[8];
  for (const int element : {0, int(NACRE_INT64), int(NACRE_INT4), 17, 20, 255}) {
    EXPECT_EQ(nacre_to_float32(uint8_t(element), bytes, &one, 1).code, NACRE_ARGUMENT);
    EXPECT_EQ(nacre_from_float32(uint8_t(element), &one, bytes, 1).code, NACRE_ARGUMENT);
  }
  EXPECT_EQ(nacre_to_float32(NACRE_FLOAT16, nullptr, &one, 1).index, 1u);
  EXPECT_EQ(nacre_from_float32(NACRE_FLOAT16, &one, nullptr, 1).index, 2u);
  EXPECT_EQ(nacre_to_float32(NACRE_FLOAT16, nullptr, nullptr, 0).code, 0);
  nacre_tensor_info info = {};
  EXPECT_EQ(nacre_write_numbers(nullptr, &one, bytes, 1).code, NACRE_ARGUMENT);
  EXPECT_EQ(nacre_write_numbers(&info, &one, bytes, 1).code, NACRE_ARGUMENT) << "the size is not set";
  info.size = sizeof info, info.element = NACRE_INT8, info.rank = 1, info.dims[0] = 1, info.scale = 1;
  EXPECT_EQ(nacre_write_numbers(&info, &one, bytes, 1).code, 0);
  EXPECT_EQ(nacre_write_numbers(&info, &one, bytes, 2).code, NACRE_ARGUMENT) << "the tensor has one number";
  EXPECT_EQ(nacre_read_numbers(&info, bytes, &one, 2).code, NACRE_ARGUMENT);
  EXPECT_EQ(nacre_write_numbers(&info, nullptr, bytes, 1).code, NACRE_ARGUMENT);
}

// ---- Kernels, operands, limits, machines ----

void expect_no_size(nacre_status status) {
  EXPECT_EQ(status.code, NACRE_ARGUMENT);
  EXPECT_EQ(status.index, 3u);
}

template <class At>
void expect_list(std::span<const reference::NamedEntry> list, const At& at) {
  nacre_kernel_info info = {};
  info.size = sizeof info;
  for (uint32_t i = 0; i < list.size(); ++i) {
    ASSERT_EQ(at(i, &info).code, 0);
    ASSERT_STREQ(info.name, list[i].name);
    ASSERT_EQ(info.kernel, reinterpret_cast<const void*>(list[i].entry->run));
    ASSERT_STREQ(info.op, find_rule(list[i].entry->op)->name);
  }
  EXPECT_EQ(at(uint32_t(list.size()), &info).code, NACRE_NO_NAME);
  EXPECT_EQ(at(0, nullptr).code, NACRE_ARGUMENT);
}

TEST(c_api_kernels, are_listed_with_their_names) {
  expect_list(reference::list(), nacre_reference_kernel_at);
  expect_list(reference::training_list(), nacre_training_kernel_at);
  expect_list(cortex_m::list(), nacre_cortex_m_kernel_at);
  EXPECT_EQ(nacre_cortex_m_kernels(), &cortex_m::kernels());
  EXPECT_STREQ(nacre_kernels_name(nacre_reference_kernels()), "reference");
  EXPECT_STREQ(nacre_kernels_name(nullptr), "");
  uint32_t tiers = 0;
  for (; nacre_x86_tier(tiers) != nullptr; ++tiers) {
    const char* const name = nacre_x86_tier(tiers);
    const auto tier = x86::Tier(tiers);
    EXPECT_STREQ(name, x86::name(tier));
    EXPECT_EQ(nacre_x86_lanes(name), x86::lanes(tier));
    EXPECT_EQ(nacre_x86_by_name(name), int(x86::by_name(tier)));
    EXPECT_EQ(nacre_x86_port(name), x86::runs_here(tier) ? static_cast<const void*>(&x86::port(tier)) : nullptr);
    expect_list(x86::list(tier),
                [&](uint32_t i, nacre_kernel_info* info) { return nacre_x86_kernel_at(name, i, info); });
  }
  EXPECT_EQ(tiers, uint32_t(x86::Tier::kCount));
  EXPECT_EQ(nacre_x86_lanes("none"), 0);
  EXPECT_EQ(nacre_x86_port(nullptr), nullptr);
  nacre_kernel_info info = {};
  info.size = sizeof info;
  EXPECT_EQ(nacre_x86_kernel_at("none", 0, &info).code, NACRE_NO_NAME);
}

TEST(c_api_operands, are_those_of_the_file) {
  Buffer file = pack(dense_int8());
  Model model;
  nacre_model c;
  ASSERT_TRUE(model.open(file.bytes()).ok());
  ASSERT_EQ(nacre_model_open(&c, file.data(), file.size()).code, 0);
  const ProgramView view = model.program(0);
  nacre_operand_info info = {};
  info.size = sizeof info;
  int written = 0;
  for (uint32_t s = 0; s < view.step_count; ++s) {
    const StepRecord& record = model.steps()[view.first_step + s];
    for (uint32_t i = 0; i < record.operand_count; ++i) {
      ASSERT_EQ(nacre_model_operand(&c, 0, s, i, &info).code, 0);
      const uint32_t word = model.operands(record)[i];
      EXPECT_EQ(info.role, word >> 30);
      EXPECT_EQ(info.tensor, (word & kOperandIdMask) == kNoOperand ? kNoIndex : word & kOperandIdMask);
      written += info.role == NACRE_WRITTEN ? 1 : 0;
    }
    EXPECT_EQ(nacre_model_operand(&c, 0, s, record.operand_count, &info).code, NACRE_NO_NAME);
  }
  EXPECT_GT(written, 0);
  EXPECT_EQ(nacre_model_operand(&c, 0, view.step_count, 0, &info).code, NACRE_NO_NAME);
  EXPECT_EQ(nacre_model_operand(nullptr, 0, 0, 0, &info).index, 0u);
  EXPECT_EQ(nacre_model_operand(&c, 0, 0, 0, nullptr).index, 4u);
}

TEST(c_api_limits, refuse_a_file_that_exceeds_one) {
  Buffer file = pack(dense_int8());
  nacre_model model;
  nacre_limits limits = {};
  expect_no_size(nacre_model_open_with(&model, file.data(), file.size(), &limits));
  limits.size = sizeof limits;
  ASSERT_EQ(nacre_model_open_with(&model, file.data(), file.size(), &limits).code, 0);
  limits.tensors = nacre_model_tensor_count(&model);
  limits.file_bytes = file.size();
  ASSERT_EQ(nacre_model_open_with(&model, file.data(), file.size(), &limits).code, 0);
  const auto refused = [&](auto member, auto bound) {
    nacre_limits less = limits;
    less.*member = bound;
    return nacre_model_open_with(&model, file.data(), file.size(), &less).code != 0;
  };
  EXPECT_TRUE(refused(&nacre_limits::tensors, limits.tensors - 1));
  EXPECT_TRUE(refused(&nacre_limits::file_bytes, limits.file_bytes - 1));
  expect_no_size(nacre_model_open_with(&model, file.data(), file.size(), nullptr));
}

TEST(c_api_machine, counts_the_bytes_of_another_machine) {
  Buffer file = pack(dense_int8());
  Model model;
  nacre_model c;
  ASSERT_TRUE(model.open(file.bytes()).ok());
  ASSERT_EQ(nacre_model_open(&c, file.data(), file.size()).code, 0);
  const nacre_kernels* const kernels[] = {nacre_reference_kernels()};
  nacre_sizes sizes = {};
  sizes.size = sizeof sizes;
  for (const uint32_t pointer : {4u, 8u}) {
    const nacre_machine machine = {sizeof machine, pointer, 3, 0};
    ASSERT_EQ(nacre_program_measure_for(&c, 0, kernels, 1, &machine, &sizes).code, 0);
    Sizes expected;
    ASSERT_TRUE(
        Program::measure(model, 0, kernels, &expected, {.pointer_bytes = pointer, .workers = 3, .packs = false}).ok());
    EXPECT_EQ(sizes.calls, expected.bytes[kCalls]);
    EXPECT_EQ(sizes.total, expected.total());
    EXPECT_EQ(sizes.unpacked, expected.total());
  }
  const nacre_machine refused[] = {{sizeof(nacre_machine), 5, 1, 0}, {sizeof(nacre_machine), 4, 0, 0}, {0, 4, 1, 0}};
  for (const nacre_machine& wrong : refused)
    EXPECT_EQ(nacre_program_measure_for(&c, 0, kernels, 1, &wrong, &sizes).index, 4u);
  Buffer trained = pack(training());
  const nacre_kernels* const both[] = {nacre_reference_kernels(), nacre_training_kernels()};
  ASSERT_EQ(nacre_model_open(&c, trained.data(), trained.size()).code, 0);
  ASSERT_TRUE(model.open(trained.bytes()).ok());
  const nacre_machine machine = {sizeof machine, 4, 1, 0};
  ASSERT_EQ(nacre_trainer_measure_for(&c, nullptr, both, 2, &machine, &sizes).code, 0);
  Sizes expected;
  ASSERT_TRUE(Trainer::measure(model, nullptr, both, &expected, {.pointer_bytes = 4, .packs = false}).ok());
  EXPECT_EQ(sizes.total, expected.total());
  EXPECT_EQ(nacre_trainer_measure_for(&c, nullptr, both, 2, nullptr, &sizes).index, 4u);
}

}  // namespace
}  // namespace nacre::test
