#include "tools/policies/keras_policy.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/policies/keras_language_check.h"
#include "tests/policies/refusal.h"
#include "tests/project_path.h"
#include "tools/base/print.h"
#include "tools/policies/policy_language.h"

namespace nacre::tools {
namespace {

Refusal get_refusal(const std::string& name) {
  return refusal([&] { parse_keras_policy(name); });
}

Json golden_rows() {
  std::ifstream file(shared_path("golden/policies.json"));
  return file ? Json::parse(file)["policy_names"] : Json();
}

TEST(keras_policy, the_44_golden_names_resolve_as_by_keras) {
  const Json rows = golden_rows();
  if (rows.is_null()) GTEST_SKIP() << "no golden table";
  ASSERT_EQ(rows.size(), 44u);
  for (const Json& row : rows) {
    const std::string name = row["name"];
    if (row.contains("error")) {
      EXPECT_EQ(get_refusal(name).label, row["error"].get<std::string>()) << name;
      continue;
    }
    const KerasPolicy p = parse_keras_policy(name);
    EXPECT_EQ(p.class_name, row["cls"].get<std::string>()) << name;
    EXPECT_EQ(p.name, row["canonical"].get<std::string>()) << name;
    EXPECT_EQ(p.compute, row["compute"].get<std::string>()) << name;
    EXPECT_EQ(p.variable, row["variable"].get<std::string>()) << name;
    EXPECT_EQ(p.mode, row["mode"].is_null() ? "" : row["mode"].get<std::string>()) << name;
    EXPECT_EQ(p.block_size, row.value("block_size", 0)) << name;
    EXPECT_EQ(p.weight_bits, row.value("weight_bits", 0)) << name;
    EXPECT_EQ(p.group_size, row.value("group_size", 0)) << name;
    EXPECT_EQ(p.amax_history_length, row.value("amax_history_length", 0)) << name;
  }
}

TEST(keras_policy, the_table_made_by_keras_itself_agrees_in_every_case) {
  const LanguageCheck check = check_keras_language(project_path("tests/peers/keras_language.json"));
  EXPECT_EQ(check.cases, 200);
  EXPECT_EQ(check.agreed, check.cases) << check.first_difference;
}

TEST(keras_policy, a_changed_table_is_noticed) {
  const std::string path = testing::TempDir() + "/nacre_language_table.json";
  std::ofstream(path) << R"({"versions": {"keras": "3", "backend": "jax"}, "cases": [
    {"kind": "name", "text": "int8", "error": "NotAPair"},
    {"kind": "name", "text": "int8", "error": "CannotConvert"},
    {"kind": "map", "entries": [["a.", "float16"]], "default": "float32", "path": "ab", "result": null}]})";
  const LanguageCheck check = check_keras_language(path);
  EXPECT_EQ(check.cases, 3);
  EXPECT_EQ(check.agreed, 1);
  EXPECT_NE(check.first_difference.find("NotAPair"), std::string::npos);
}

TEST(keras_policy, the_two_entry_points_disagree_about_names_that_start_like_a_mode) {
  for (const char* name : {"int8", "float8_e4m3fn", "float8_e5m2"}) {
    EXPECT_EQ(get_refusal(name).label, "NotAPair") << name;
    EXPECT_EQ(construct_keras_policy(name).compute, name) << name;
  }
  EXPECT_EQ(refusal([] { construct_keras_policy("int8_from_float32"); }).label, "CannotConvert");
}

TEST(keras_policy, integers_are_what_pythons_int_reads) {
  EXPECT_EQ(parse_keras_policy("int4/ 1_28 _from_float32").name, "int4/128_from_float32");
  EXPECT_EQ(parse_keras_policy("int4/+0032_from_float32").block_size, 32);
  EXPECT_EQ(parse_keras_policy("int4/\t-1\n_from_float32").block_size, -1);
  EXPECT_EQ(parse_keras_policy("int4/2147483647_from_float32").block_size, 2147483647);
  for (const char* block : {"1__2", "_1", "1_", "1.0", "0x10", "- 1", "", " ", "1 2"})
    EXPECT_EQ(get_refusal("int4/" + std::string(block) + "_from_float32").label, "BlockSizeNotInt") << block;
  for (const char* block : {"2147483648", "99999999999999999999", "-99999999999999999999", "-2", "0", "-0"})
    EXPECT_EQ(get_refusal("int4/" + std::string(block) + "_from_float32").label, "BadBlockSize") << block;
}

TEST(keras_policy, every_refusal_is_a_sentence_with_the_place_the_fact_and_a_remedy) {
  const struct {
    const char *name, *label, *fact, *remedy;
  } rows[] = {
      {"fp16", "CannotConvert", "cannot convert 'fp16' to a policy", "did you mean f16 or bf16?"},
      {"Float32", "CannotConvert", "cannot convert 'Float32' to a policy", "float32"},
      {"", "CannotConvert", "cannot convert '' to a policy", "write one like float32"},
      {"int8", "NotAPair", "'int8' names no policy to quantize from", "int8_from_float32"},
      {"int8_from_int8_from_float32", "NotAPair", "has more than one '_from_'", "did you mean"},
      {"int8x_from_float32", "InvalidMode", "'int8x' is no quantization mode", "int8_from_float32"},
      {"int8_from_float16", "Int8WithFloat16", "int8 does not go with compute type float16",
       "int8_from_mixed_bfloat16 or int8_from_float32, or quantize the weights only: int8/weights_from_float16"},
      {"int4/1/2_from_float32", "BadModeFormat", "mode 'int4/1/2': is not int4/BLOCK", "int4/128_from_float32"},
      {"int4/x_from_float32", "BlockSizeNotInt", "block 'x' is no integer", "int4/128_from_float32"},
      {"int4/0_from_float32", "BadBlockSize", "block 0 is neither -1 nor positive", "int4/128_from_float32"},
      {"gptq_from_float32", "BadModeFormat", "mode 'gptq': is not gptq/BITS/GROUP", "gptq/4/128_from_float32"},
      {"gptq/4/x_from_float32", "BitsOrGroupNotInt", "group 'x' is no integer", "gptq/4/128_from_float32"},
      {"gptq/5/128_from_float32", "BadWeightBits", "5 bits are not supported", "2, 3, 4 or 8"},
      {"awq/8/128_from_float32", "BadWeightBits", "8 bits are not supported", "awq/4/128_from_float32"},
      {"awq/4/0_from_float32", "BadGroupSize", "group 0 is neither -1 nor positive", "awq/4/128_from_float32"},
  };
  for (const auto& row : rows) {
    const Refusal r = refusal([&] { parse_keras_policy(row.name, {"--policy X", kUsage}); });
    EXPECT_EQ(r.label, row.label) << row.name;
    EXPECT_TRUE(r.text.starts_with("--policy X: ")) << r.text;
    EXPECT_NE(r.text.find(row.fact), std::string::npos) << r.text;
    const size_t line = r.text.find("\n    ");
    ASSERT_NE(line, std::string::npos) << r.text;
    EXPECT_NE(r.text.find(row.remedy, line), std::string::npos) << r.text;
  }
}

TEST(keras_policy, the_remedies_for_int8_from_float16_are_policies) {
  for (const char* name : {"int8_from_mixed_bfloat16", "int8_from_float32", "int8/weights_from_float16",
                           "int8/weights_from_mixed_float16"})
    EXPECT_NO_THROW(parse_policy(name)) << name;
}

}  // namespace
}  // namespace nacre::tools
