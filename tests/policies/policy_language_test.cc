#include "tools/policies/policy_language.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/numeric/rounding.h"
#include "tests/policies/refusal.h"
#include "tests/sanitized.h"
#include "tools/base/nearest.h"
#include "tools/policies/policy_fields.h"
#include "tools/policies/policy_names.h"
#include "tools/policies/policy_text.h"

namespace nacre::tools {
namespace {

constexpr ElementType kF32 = ElementType::kFloat32, kF16 = ElementType::kFloat16, kBf16 = ElementType::kBfloat16,
                      kF64 = ElementType::kFloat64;

Policy record(ElementType variable, ElementType compute, Quantization quantization = Quantization::kNone) {
  Policy p;
  p.variable = variable;
  p.compute = p.output = compute;
  p.quantization = quantization;
  return p;
}

Policy float8(ElementType variable, ElementType compute, uint16_t history) {
  Policy p = record(variable, compute, Quantization::kFloat8);
  p.amax_history_length = history;
  p.update_order = UpdateOrder::kKeras;
  return p;
}

Policy fit(ElementType variable, ElementType compute, WeightFit fit, uint8_t bits, uint32_t block) {
  Policy p = record(variable, compute, bits == 8 ? Quantization::kInt8Weights : Quantization::kInt4Weights);
  p.weight_fit = fit;
  p.weight_bits = bits;
  p.block = block;
  return p;
}

Policy with(Policy p, auto change) {
  change(p);
  return p;
}

struct Row {
  std::string text;
  Policy policy;
};

std::vector<Row> rows() {
  const auto reciprocal = [](Policy& p) { p.scale_form = ScaleForm::kReciprocal; };
  const auto dynamic = [](Policy& p) { p.loss_scale = LossScale::kDynamic; };
  const auto each = [](Policy& p) { p.operation_rounding = OperationRounding::kEach; };
  return {
      {"float32", record(kF32, kF32)},
      {"float16", record(kF16, kF16)},
      {"bfloat16", record(kBf16, kBf16)},
      {"float64", record(kF64, kF64)},
      {"mixed_float16", with(record(kF32, kF16), dynamic)},
      {"mixed_bfloat16", record(kF32, kBf16)},
      {"int8_from_float32", with(record(kF32, kF32, Quantization::kInt8Dynamic), reciprocal)},
      {"int8_from_mixed_bfloat16", with(record(kF32, kBf16, Quantization::kInt8Dynamic), reciprocal)},
      {"int8_from_float64", with(record(kF64, kF64, Quantization::kInt8Dynamic), reciprocal)},
      {"int8/static_from_float32", record(kF32, kF32, Quantization::kInt8Static)},
      {"int8/full_from_float32", record(kF32, kF32, Quantization::kInt8Full)},
      {"int8/weights_from_mixed_float16", record(kF32, kF16, Quantization::kInt8Weights)},
      {"int4_from_bfloat16", with(record(kBf16, kBf16, Quantization::kInt4Weights), reciprocal)},
      {"int4/32_from_float32", with(record(kF32, kF32, Quantization::kInt4Weights), [](Policy& p) { p.block = 32; })},
      {"gptq/4/128_from_float32", fit(kF32, kF32, WeightFit::kGptq, 4, 128)},
      {"gptq/3/-1_from_mixed_bfloat16", fit(kF32, kBf16, WeightFit::kGptq, 3, 0)},
      {"gptq/2/7_from_float16", fit(kF16, kF16, WeightFit::kGptq, 2, 7)},
      {"gptq/8/64_from_float64", fit(kF64, kF64, WeightFit::kGptq, 8, 64)},
      {"gptq/8/-1_from_float32", fit(kF32, kF32, WeightFit::kGptq, 8, 0)},
      {"awq/4/32_from_mixed_float16", fit(kF32, kF16, WeightFit::kAwq, 4, 32)},
      {"awq/4/-1_from_float32", fit(kF32, kF32, WeightFit::kAwq, 4, 0)},
      {"gptq/4/32_from_float32;activation_order=1",
       with(fit(kF32, kF32, WeightFit::kGptq, 4, 32), [](Policy& p) { p.activation_order = 1; })},
      {"float8_from_float32", float8(kF32, kF32, 1024)},
      {"float8/16_from_mixed_bfloat16", float8(kF32, kBf16, 16)},
      // Keras's own float8 rounds after each operation, Nacre's float8/H after the last.
      {"float8_from_mixed_float16", with(float8(kF32, kF16, 1024), each)},
      {"float8/1024_from_mixed_float16", float8(kF32, kF16, 1024)},
      {"float8/16_from_mixed_bfloat16;rounding=each", with(float8(kF32, kBf16, 16), each)},
      {"mixed_bfloat16;rounding=each", with(record(kF32, kBf16), each)},
      {"int8/static_from_float32;rounding=single",
       with(record(kF32, kF32, Quantization::kInt8Static), [](Policy& p) { p.rounding = uint8_t(Rounding::kSingle); })},
      {"int4/32_from_float32;group_range=keras", with(record(kF32, kF32, Quantization::kInt4Weights),
                                                      [](Policy& p) {
                                                        p.block = 32;
                                                        p.group_range = GroupRange::kKeras;
                                                      })},
      {"float8/65535_from_float32", float8(kF32, kF32, 65535)},
      {"float8/current_from_float16", record(kF16, kF16, Quantization::kFloat8Current)},
      {"params=float32,compute=bfloat16,output=float32", with(record(kF32, kBf16), [](Policy& p) { p.output = kF32; })},
      {"mixed_float16;loss_scale=none", record(kF32, kF16)},
      {"mixed_float16;loss_scale=128", with(record(kF32, kF16),
                                            [](Policy& p) {
                                              p.loss_scale = LossScale::kFixed;
                                              p.loss_scale_value = 128;
                                            })},
      {"float16;loss_scale=dynamic", with(record(kF16, kF16), dynamic)},
      {"float8_from_float32;margin=-1;update_order=transformer_engine;amax_rule=most_recent",
       with(float8(kF32, kF32, 1024),
            [](Policy& p) {
              p.margin = -1;
              p.update_order = UpdateOrder::kTransformerEngine;
              p.amax_rule = AmaxRule::kMostRecent;
            })},
      {"int8_from_float32;scale_form=step;activation_zero=1",
       with(record(kF32, kF32, Quantization::kInt8Dynamic), [](Policy& p) { p.activation_zero = 1; })},
      {"int4_from_mixed_bfloat16;output=float32", with(record(kF32, kBf16, Quantization::kInt4Weights),
                                                       [](Policy& p) {
                                                         p.scale_form = ScaleForm::kReciprocal;
                                                         p.output = kF32;
                                                       })},
  };
}

TEST(policy_language, every_form_of_a_name_is_its_record) {
  for (const Row& row : rows()) EXPECT_TRUE(equal(parse_policy(row.text).policy, row.policy)) << row.text;
}

TEST(policy_language, canonical_names_read_back_as_they_were) {
  for (const Row& row : rows()) EXPECT_EQ(policy_text(row.policy), row.text);
}

TEST(policy_language, other_spellings_have_the_canonical_name) {
  const std::pair<const char*, const char*> spellings[] = {
      {"half", "float16"},
      {"full", "float32"},
      {"int4_from_float32;block=32", "int4/32_from_float32"},
      {"float32;quantization=int8", "int8_from_float32"},
      {"float32;quantization=int4", "int4_from_float32"},
      {"gptq/4/-1_from_float32;weight_fit=nearest", "int4_from_float32"},
      {"float32;quantization=int8;scale_form=step", "int8_from_float32;scale_form=step"},
      {"f32", "float32"},
      {"bf16", "bfloat16"},
      {"f64", "float64"},
      {"int4/-1_from_float32", "int4_from_float32"},
      {"int4/None_from_float32", "int4_from_float32"},
      {"float8/1024_from_float32", "float8_from_float32"},
      {"int4/64_from_float32;weight_fit=gptq", "gptq/4/64_from_float32"},
      {"int4/64_from_float32;weight_fit=gptq;weight_bits=3", "gptq/3/64_from_float32"},
      {"int4/64_from_float32;weight_bits=2;weight_fit=gptq", "gptq/2/64_from_float32"},
      {"int4_from_bfloat16;weight_fit=awq", "awq/4/-1_from_bfloat16"},
      {"int8/weights_from_float32;weight_fit=gptq", "gptq/8/-1_from_float32"},
      {"int8/weights_from_float32;weight_fit=gptq;block=32", "gptq/8/32_from_float32"},
      {"gptq/4/128_from_float32;weight_fit=nearest", "int4/128_from_float32"},
      {"p=f32,c=bf16,o=bf16", "mixed_bfloat16"},
      {"mixed_float16;loss_scale=auto", "mixed_float16"},
      {"mixed_float16;loss_scale=1.5e2", "mixed_float16;loss_scale=150"},
      {"float16;loss_scale=auto", "float16"},
      {"mixed_float16;loss_scale=8;loss_scale=none", "mixed_float16;loss_scale=none"}};
  for (const auto& [spelling, name] : spellings)
    EXPECT_EQ(policy_text(parse_policy(spelling).policy), name) << spelling;
}

// In jmp params defaults to float32, compute to params, output to compute. The last of a repeated key counts.
TEST(policy_language, jmp_defaults_are_jmps) {
  const auto types = [](const char* text) {
    const Policy p = parse_policy(text).policy;
    return std::vector<ElementType>{p.variable, p.compute, p.output};
  };
  using Types = std::vector<ElementType>;
  EXPECT_EQ(types("c=f16"), (Types{kF32, kF16, kF16}));
  EXPECT_EQ(types("p=f16"), (Types{kF16, kF16, kF16}));
  EXPECT_EQ(types("p=f16,c=bf16"), (Types{kF16, kBf16, kBf16}));
  EXPECT_EQ(types("o=half"), (Types{kF32, kF32, kF16}));
  EXPECT_EQ(types("params=float32,compute=bfloat16,output=float32"), (Types{kF32, kBf16, kF32}));
  EXPECT_EQ(types("c=f16,c=f64"), (Types{kF32, kF64, kF64}));
  EXPECT_EQ(types("half"), (Types{kF16, kF16, kF16}));
  // jmp's policies carry no loss scale; mixed_float16 does.
  EXPECT_EQ(parse_policy("c=f16").policy.loss_scale, LossScale::kNone);
}

// In Axon every option that is not given is float32. The bare form is jmp's, with a warning if Axon's would differ.
TEST(policy_language, axons_defaults_are_axons) {
  const auto types = [](const std::string& text) {
    const Policy p = parse_policy(text).policy;
    return std::vector<ElementType>{p.variable, p.compute, p.output};
  };
  using Types = std::vector<ElementType>;
  EXPECT_EQ(types("axon(params=float16,output=float16)"), (Types{kF16, kF32, kF16}));
  EXPECT_EQ(types("axon(compute=bfloat16)"), (Types{kF32, kBf16, kF32}));
  EXPECT_EQ(types("axon(params=f16)"), (Types{kF16, kF32, kF32}));
  EXPECT_EQ(types("axon(params=float32,compute=bfloat16,output=float32)"), (Types{kF32, kBf16, kF32}));
  EXPECT_EQ(types("jmp(params=float16,output=float16)"), (Types{kF16, kF16, kF16}));
  EXPECT_EQ(types("jmp(compute=bfloat16)"), (Types{kF32, kBf16, kBf16}));
  EXPECT_EQ(types("jmp(half)"), (Types{kF16, kF16, kF16}));
  EXPECT_EQ(types("axon(compute=float16);loss_scale=128"), (Types{kF32, kF16, kF32}));
  const std::vector<std::string> warnings = parse_policy("compute=bfloat16", {"--policy X"}).warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(
      warnings[0],
      "--policy X: is read as jmp does, mixed_bfloat16; Axon reads params=float32,compute=bfloat16,output=float32: "
      "write jmp(compute=bfloat16) or axon(compute=bfloat16)");
  for (const char* alike : {"params=float32,compute=bfloat16,output=float32", "params=float32", "p=f16,c=f16,o=f16",
                            "jmp(compute=bfloat16)", "axon(compute=bfloat16)", "half"})
    EXPECT_TRUE(parse_policy(alike).warnings.empty()) << alike;
  // These are Elixir's options, with its tuples and atoms. Without an option every type is float32.
  EXPECT_EQ(types("axon()"), (Types{kF32, kF32, kF32}));
  EXPECT_EQ(types("jmp()"), (Types{kF32, kF32, kF32}));
  EXPECT_EQ(types("axon(params={:f, 32}, compute={:f, 16}, output={:f, 16})"), (Types{kF32, kF16, kF16}));
  EXPECT_EQ(types("axon(params: {:bf, 16}, compute: {:f, 64})"), (Types{kBf16, kF64, kF32}));
  EXPECT_EQ(types("axon(compute=:f16, output: :bf16)"), (Types{kF32, kF16, kBf16}));
  EXPECT_EQ(types("params={:f, 32},compute={:f, 16}"), (Types{kF32, kF16, kF32}));
  EXPECT_TRUE(parse_policy("compute={:f, 16}").warnings.empty());
  for (const char* bad : {"axon(compute={:f, 8})", "axon(compute={:s, 16})", "axon(compute={:f)", "axon(compute={:f})",
                          "axon(compute={f, 16})", "axon(compute={:f, 16, 2})", "axon({:f, 16})", "axon(,)",
                          "axon(compute=)", "jmp(c={:f, 16})", "jmp(,)", "axon(weights: {:f, 32})", "axon(}{)"})
    EXPECT_THROW(parse_policy(bad), PolicyError) << bad;
  for (const char* bad : {"axon(", "axon(half)", "axon(params=int8)", "axon(weights=float32)", "axon(params=f16",
                          "jmp(half", "axon(params=f16)x", "torch(params=f16)"})
    EXPECT_THROW(parse_policy(bad), PolicyError) << bad;
}

TEST(policy_language, commas_of_a_list_do_not_cut_brackets) {
  EXPECT_EQ(whole_policies({"float32", "axon(params=f32", "compute=bf16", "output=f32)", "half"}),
            (std::vector<std::string>{"float32", "axon(params=f32,compute=bf16,output=f32)", "half"}));
  EXPECT_EQ(whole_policies({"jmp()", "jmp(half"}), (std::vector<std::string>{"jmp()", "jmp(half"}));
}

TEST(policy_language, refusals_say_what_was_wrong_and_what_works) {
  const struct {
    const char *text, *label, *says;
  } refusals[] = {
      {"p=f32,x=f16", "UnknownKey", "keys are params, compute and output"},
      {"p=int8", "UnknownType", "'int8' is no type for 'p'"},
      {"p=f32, c=f16", "UnknownKey", "' c'"},
      {"p=f32,", "NotKeyValue", "'' of 'p=f32,' is not KEY=TYPE"},
      {"p=f32=f16", "NotKeyValue", "KEY=TYPE"},
      {"float8/0_from_float32", "BadHistoryLength", "write 1 to 65535"},
      {"float8/65536_from_float32", "BadHistoryLength", "float8/current_from_float32"},
      {"float8/-1_from_float32", "BadHistoryLength", "write 1 to 65535"},
      {"float8/curent_from_float32", "BadHistoryLength", "float8/current_from_float32"},
      {"int8/statc_from_float32", "InvalidMode", "did you mean int8/static_from_float32"},
      {"int8/static", "NotAPair", "int8/static_from_float32"},
      {"int8/static_from_int8_from_float32", "CannotConvert", "'int8_from_float32'"},
      {"int32", "NotConvertible", "computes in int32, which no layer here does"},
      {"int8_from_int32", "NotConvertible", "take float32"},
      {"int8/weights_from_bool", "NotConvertible", "computes in bool"},
      {"ternary_from_float32", "NotConvertible", "no Keras release up to 3.15.1 has this policy"},
      {"int16x8", "NotConvertible", "take int8/static_from_float32 instead"},
      {"int16x8_from_float32", "NotConvertible", "TensorFlow Lite files with int16 activations have"},
      {"float32;weight_fit=gptq", "Contradiction", "weight_fit belongs to int4 or int8/weights"},
      {"int8_from_float32;weight_fit=awq", "Contradiction", "the quantization is int8"},
      {"int4/32_from_float32;weight_bits=3", "Contradiction", "weight_bits belongs to a weight_fit"},
      {"int4/32_from_float32;activation_order=1", "Contradiction", "activation_order belongs to weight_fit=gptq"},
      {"awq/4/32_from_float32;activation_order=1", "Contradiction", "activation_order belongs to weight_fit=gptq"},
      {"awq/4/32_from_float32;weight_bits=3", "Contradiction", "awq has 4 bits, not 3"},
      {"int8/weights_from_float32;weight_fit=awq", "Contradiction", "awq has 4 bits, not 8"},
      {"gptq/4/32_from_float32;weight_bits=8", "Contradiction", "weight_bits=8 does not go with int4"},
      {"gptq/8/32_from_float32;weight_bits=4", "Contradiction", "weight_bits=4 does not go with int8/weights"},
      {"gptq/4/32_from_float32;weight_bits=5", "BadField", "0, 2, 3, 4 or 8"},
      {"gptq/4/32_from_float32;weight_bits=0", "Contradiction", "weight_bits=0 does not go with int4"},
      {"gptq/4/32_from_float32;weight_fit=gtpq", "BadField", "nearest, gptq or awq"},
      {"gptq/4/32_from_float32;group_range=keras", "Contradiction", "group_range=keras does not go with"},
      {"gptq/4/32_from_float32;scale_form=reciprocal", "Contradiction", "scale_form=reciprocal does not go with"},
      {"int8/weights_from_float32;block=32", "Contradiction", "block belongs to int4"},
      {"mixed_float16;loss_scale=0.5", "BadField", "a finite number of at least 1"},
      {"mixed_float16;loss_scale=inf", "BadField", "a finite number of at least 1"},
      {"mixed_float16;loss_scale=nan", "BadField", "a finite number of at least 1"},
      {"mixed_float16;loss_scale=1e39", "BadField", "a finite number of at least 1"},
      {"mixed_float16;loss_scale=dynamc", "BadField", "none, dynamic, auto"},
      {"mixed_float16;loss_scal=1", "UnknownField", "did you mean loss_scale?"},
      {"mixed_float16;", "BadField", "'' is not FIELD=VALUE"},
      {"float32;margin=1", "Contradiction", "margin belongs to float8"},
      {"float8/current_from_float32;margin=1", "Contradiction", "margin belongs to float8 with a history"},
      {"int8_from_float32;activation_zero=1", "Contradiction", "scale_form=step;activation_zero=1"},
      {"int8/static_from_float32;scale_form=reciprocal", "Contradiction", "whose scales are stored as step"},
      {"int8/weights_from_float32;scale_form=reciprocal", "Contradiction", "stored as step"},
      {"float8_from_float32;scale_form=reciprocal", "Contradiction", "stored as step"},
      {"int4_from_float32;scale_form=step", "Contradiction", "int4, whose scales are stored as reciprocal"},
      {"int4/32_from_float32;scale_form=reciprocal", "Contradiction", "in blocks, whose scales"},
      {"float8_from_float32;margin=200", "BadField", "-128 to 127"},
      {"float32;output=int8", "BadField", "float32, float16, bfloat16 or float64"},
      {"int8_from_float32;compute=float16", "Int8WithFloat16", "int8/weights"},
      {"source;margin=1", "Contradiction", "takes no fields"},
      {"int8/static_from_float32;rounding=each", "Contradiction", "rounding=each belongs to layers of floats"},
      {"float8/current_from_bfloat16;rounding=each", "Contradiction", "belongs to layers of floats"},
      {"bfloat16;rounding=single", "Contradiction", "belongs to int8/static"},
      {"int8/static_from_float32;rounding=half_even", "Contradiction", "no rounding of a requantization"},
      {"bfloat16;rounding=first", "BadField", "last, each, none, double, single or float_even"},
      {"int4_from_float32;group_range=keras", "Contradiction", "group_range belongs to int4 in blocks"},
      {"int4/8_from_float32;group_range=zero", "BadField", "with_zero or keras"},
  };
  for (const auto& row : refusals) {
    const Refusal r = refusal([&] { parse_policy(row.text); });
    EXPECT_EQ(r.label, row.label) << row.text << ": " << r.text;
    EXPECT_NE(r.text.find(row.says), std::string::npos) << row.text << ": " << r.text;
    EXPECT_EQ(r.code, r.label == "NotConvertible" ? kUnsupported : kUsage) << row.text;
  }
}

TEST(policy_language, a_loss_scale_without_float16_is_a_warning_only) {
  const ParsedPolicy parsed = parse_policy("mixed_bfloat16;loss_scale=8", {"--policy X", kUsage});
  EXPECT_EQ(parsed.policy.loss_scale_value, 8);
  ASSERT_EQ(parsed.warnings.size(), 1u);
  EXPECT_EQ(parsed.warnings[0], "--policy X: a loss scale serves float16 only, and this policy computes in bfloat16");
  EXPECT_TRUE(parse_policy("mixed_float16;loss_scale=8").warnings.empty());
  EXPECT_TRUE(parse_policy("mixed_bfloat16;loss_scale=none").warnings.empty());
}

TEST(policy_language, every_record_that_is_accepted_has_a_name_that_reads_back) {
  std::mt19937 random(7);
  const auto draw = [&](int count) { return int(random() % unsigned(count)); };
  int accepted = 0, fitted = 0;
  for (int i = 0; i < 40000; ++i) {
    Policy p;
    const ElementType types[] = {kF32, kF16, kBf16, kF64};
    p.variable = types[draw(4)];
    p.compute = types[draw(4)];
    p.output = types[draw(4)];
    p.quantization = Quantization(draw(int(Quantization::kCount)));
    if (draw(2)) p.block = uint32_t(draw(200));
    if (draw(2)) p.amax_history_length = uint16_t(draw(65536));
    if (draw(4) == 0) p.margin = int8_t(draw(256) - 128);
    if (draw(2)) p.update_order = UpdateOrder(draw(2));
    if (draw(4) == 0) p.amax_rule = AmaxRule(draw(2));
    p.scale_form = ScaleForm(draw(2));
    p.activation_zero = uint8_t(draw(4) == 0);
    p.rounding = uint8_t(draw(4) == 0 ? draw(int(Rounding::kCount)) : 0);
    p.operation_rounding = OperationRounding(draw(4) == 0);
    if (draw(3) == 0) p.group_range = GroupRange(draw(2));
    if (draw(3) == 0) {
      constexpr uint8_t kBits[] = {0, 2, 3, 4, 8};
      p.weight_fit = WeightFit(draw(int(WeightFit::kCount)));
      p.weight_bits = kBits[draw(5)];
      p.activation_order = uint8_t(draw(2));
    }
    p.loss_scale = LossScale(draw(3));
    if (p.loss_scale == LossScale::kFixed)
      p.loss_scale_value = std::ldexp(1 + float(draw(1 << 23)) / (1 << 23), draw(128));
    if (!refusal([&] { check_policy(p, {}); }).label.empty()) continue;
    ++accepted;
    fitted += p.weight_fit != WeightFit::kNearest;
    const std::string text = policy_text(p);
    ASSERT_TRUE(equal(parse_policy(text).policy, p)) << text;
  }
  EXPECT_GT(accepted, 500);
  EXPECT_GT(fitted, 20);
}

TEST(policy_language, a_layer_of_a_converted_model_has_a_text_too) {
  Policy p;
  p.variable = p.output = ElementType::kInt8;
  p.compute = ElementType::kInt32;
  p.quantization = Quantization::kInt8Static;
  EXPECT_EQ(policy_text(p), "params=int8,compute=int32,output=int8;quantization=int8/static");
}

TEST(policy_language, all_names_and_examples_that_are_listed_are_policies) {
  EXPECT_GT(policy_names().size(), 60u);
  for (const std::string& name : policy_names()) EXPECT_NO_THROW(parse_policy(name)) << name;
  for (const PolicyForm& form : policy_forms()) {
    if (*form.example == '\0') continue;
    EXPECT_NO_THROW(parse_policy(form.example)) << form.example;
  }
}

TEST(policy_language, nearest_names_are_at_most_three_and_the_nearest) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "Sitting"), 3u);
  EXPECT_EQ(edit_distance("Float32", "float32"), 0u);
  EXPECT_EQ(nearest_names("mixed_bflot16", policy_names())[0], "mixed_bfloat16");
  EXPECT_EQ(nearest_names("int8_form_float32", policy_names())[0], "int8_from_float32");
  EXPECT_LE(nearest_names("float", policy_names()).size(), 3u);
  EXPECT_TRUE(nearest_names("transformer", policy_names()).empty());
  EXPECT_TRUE(nearest_names(std::string(100000, 'a'), policy_names()).empty());
}

// Takes 1.3 s of processor time at -O1. If a text hangs, the time limit of tests/run.sh ends this test, which fails.
TEST(policy_language, hostile_texts_end_in_bounded_time_and_one_error) {
  std::mt19937 random(11);
  const std::string pieces[] = {
      "int8",       "int4",  "/",     "float8", "_from_", "float32", "mixed_",  "128",    "-1",   "=",
      ";",          "p",     "c=f16", ",",      "gptq",   "awq",     "current", "static", "\xff", "\n",
      "loss_scale", "1e999", "\xc3",  "\xa9",   "None",   "_",       "margin",  "source", "0",    std::string(1, '\0')};
  int accepted = 0;
  for (int i = 0; i < nacre::test::generated(20000); ++i) {
    std::string text;
    for (auto n = random() % 9; n > 0; --n) text += pieces[random() % std::size(pieces)];
    const Refusal r = refusal([&] { parse_policy(text); });
    accepted += r.label.empty();
    EXPECT_NE(r.label, "Error") << r.text;
    EXPECT_EQ(r.text.find('\xff'), std::string::npos);
  }
  EXPECT_GT(accepted, nacre::test::generated(10));
  for (const std::string piece : {"int4/", "a", "p=f32,", ";margin=1", "_from_", "\xff"}) {
    std::string text;
    while (text.size() < size_t(nacre::test::generated(1'000'000))) text += piece;
    const Refusal r = refusal([&] { parse_policy(text); });
    EXPECT_FALSE(r.label.empty());
    EXPECT_LT(r.text.size(), 1000u);
  }
}

}  // namespace
}  // namespace nacre::tools
