// Claim: under Keras's int8 and float8 policies a dense layer gives Keras's numbers.
//
//   int8     Dense under int8_from_float32 and int8_from_mixed_bfloat16, 100 random layers each, by the converter and
//            the engine: kernel codes, activation codes, accumulators and both scales equal, outputs within 1 ulp of
//            the compute type
//   float8   Dense 16x8 and EinsumDense abc,cd->abd under float8_from_float32, histories of 4, 16 and 1024, 50 training
//            steps each: scales and amax histories of x and kernel equal to the bit, x and kernel as quantized too, y
//            within 4 eps sqrt(K) of the sum of magnitudes
//
//   rounding plain, mixed, float8 from 16 bits, int8 from float64, int4 per channel and in groups of both rules, with
//            rounding=each: 44 layers each on JAX and on torch; no bit differs where sums are exact in any order, where
//            they are not, 1 ulp in 16 bits, in float32 what another order of K terms may do
//
//   names    policy names, JSON objects and map lookups inside the common grammar: the same result, or the same refusal
//
// The numbers are Keras's own: keras_int8.json, keras_float8.json, keras_rounding.json and keras_language.json in
// tests/peers, written by the scripts beside them. The claim also makes changes that must each be seen: a changed
// element, another update order, another rounding of the bias, and arithmetic that is not Keras's.
#include <cstdio>
#include <filesystem>
#include <string>

#include "tests/claims/claims.h"
#include "tests/claims/executor.h"
#include "tests/claims/keras_parity.h"
#include "tests/policies/keras_language_check.h"
#include "tests/project_path.h"
#include "tools/base/error.h"

namespace nacre::tools {
namespace {

using std::to_string;

std::string text(const Count& count) { return to_string(count.equal) + "/" + to_string(count.total); }

void print_row(const std::string& name, const std::vector<std::string>& cells, const std::string& last) {
  std::printf("%-24s", name.c_str());
  for (const std::string& cell : cells) std::printf(" %11s", cell.c_str());
  std::printf("   %s\n", last.c_str());
}

void print(const std::string& policy, const Int8Parity& p) {
  print_row(policy,
            {to_string(p.layers), text(p.kernel), text(p.kernel_scale), text(p.x), text(p.x_scale), text(p.sums)},
            to_string(p.exact) + " of " + to_string(p.outputs) + " exact, " + to_string(p.within) + " within 1 ulp");
}

void print(const Float8Parity& p) {
  print_row("", {"layers", "steps", "states", "quantized"}, "y");
  print_row("float8_from_float32", {to_string(p.layers), to_string(p.steps), text(p.states), text(p.quantized)},
            to_string(p.within) + " of " + to_string(p.outputs) + " within 4 eps sqrt(K)");
  std::printf("  with the guards that Keras lacks, %d of %d scales would be others\n", p.guarded, p.scales);
}

// Returns whether each change is seen, and in the expected place.
bool changes_are_seen(const Json& int8, const Json& float8, std::string& report) {
  const Int8Parity kernel = compare_int8(int8, "int8_from_float32", {.kernel = 0.75f});
  const Int8Parity x = compare_int8(int8, "int8_from_mixed_bfloat16", {.x = 0.75f});
  const Float8Parity order = compare_float8(float8, {.transformer_engine = true});
  const Float8Parity bias = compare_float8(float8, {.plain_bias = true});
  report = "a kernel element (codes of " + to_string(kernel.kernel.total - kernel.kernel.equal) +
           " layers), an x element (" + to_string(x.x.total - x.x.equal) + "), the update order (" +
           to_string(order.states.total - order.states.equal) + " states), the bias's rounding (" +
           to_string(bias.outputs - bias.within) + " y)";
  return !kernel.kernel.all() && kernel.x.all() && !x.x.all() && x.kernel.all() && !order.states.all() &&
         bias.states.all() && bias.within < bias.outputs;
}

std::string text(const Json& versions) {
  const std::string keras = versions.at("keras"), backend = versions.at("backend"), numpy = versions.at("numpy");
  return "Keras " + keras + " (" + backend + ", numpy " + numpy + ", eager)";
}

struct Int8Total {
  int layers = 0;
  int64_t outputs = 0, exact = 0;
  bool shown = true;
};

Int8Total compare_policies(const Json& table) {
  Int8Total total;
  print_row("", {"layers", "kernel", "its scale", "x", "its scale", "sums"}, "y");
  for (const std::string policy : {"int8_from_float32", "int8_from_mixed_bfloat16"}) {
    const Int8Parity parity = compare_int8(table, policy);
    print(policy, parity);
    total.shown = total.shown && parity.shown() && parity.layers >= 100;
    total.layers += parity.layers;
    total.outputs += parity.outputs;
    total.exact += parity.exact;
  }
  return total;
}

struct RoundingTotal {
  int policies = 0;
  int64_t exact = 0, other = 0;
  bool shown = true;
};

RoundingTotal compare_roundings(const Json& table) {
  RoundingTotal total;
  std::printf("%-40s %13s %13s %11s %11s   %s\n", "", "sums exact", "of them other", "JAX alone", "torch alone",
              "the other sums");
  for (const auto& [keras, records] : table.at("policies").items()) {
    const RoundingParity p = compare_rounding(table, keras, nacre_policy(keras));
    std::printf("%-40s %13lld %13lld %11lld %11lld   %lld of %lld other, at most %.2g of the bound\n", keras.c_str(),
                static_cast<long long>(p.exact), static_cast<long long>(p.exact_different),
                static_cast<long long>(p.jax_alone), static_cast<long long>(p.torch_alone),
                static_cast<long long>(p.other_different), static_cast<long long>(p.other), p.worst);
    total.shown = total.shown && p.shown();
    total.exact += p.exact;
    total.other += p.other;
    ++total.policies;
  }
  return total;
}

// Returns whether numbers differ under each arithmetic that is not Keras's: rounding after the last operation, the
// other range of groups, the scales of float8 in float32.
bool roundings_are_seen(const Json& table, std::string& report) {
  const std::pair<const char*, const char*> others[] = {
      {"mixed_bfloat16", "mixed_bfloat16"},
      {"mixed_float16", "mixed_float16"},
      {"int4_from_mixed_bfloat16", "int4_from_mixed_bfloat16"},
      {"int4/8_from_mixed_bfloat16+keras", "int4/8_from_mixed_bfloat16;group_range=keras"},
      {"int4/8_from_float32+keras", "int4/8_from_float32"},
      {"int4/8_from_float32+with_zero", "int4/8_from_float32;group_range=keras"},
      {"float8_from_mixed_bfloat16", "float8/1024_from_mixed_bfloat16"}};
  bool seen = true;
  for (const auto& [keras, policy] : others) {
    const RoundingParity p = compare_rounding(table, keras, policy);
    const int64_t different = p.exact_different + p.other_different;
    report += (report.empty() ? "" : ", ") + std::string(policy) + " (" + to_string(different) + " numbers)";
    seen = seen && different > 0;
  }
  return seen;
}

void print(const LanguageCheck& names) {
  std::printf("names, objects, lookups: %d of %d as %s takes or refuses them%s%s\n", names.agreed, names.cases,
              names.versions.c_str(),
              names.first_difference.empty() ? "" : "; first difference: ", names.first_difference.c_str());
}

int claim(const std::filesystem::path& peers) {
  const Json int8 = read_table(peers / "keras_int8.json"), float8 = read_table(peers / "keras_float8.json");
  const Int8Total layers = compare_policies(int8);
  const Float8Parity trained = compare_float8(float8);
  print(trained);
  const Json rounding = read_table(peers / "keras_rounding.json");
  const RoundingTotal roundings = compare_roundings(rounding);
  const LanguageCheck names = check_keras_language((peers / "keras_language.json").string());
  print(names);
  std::string changes;
  std::string others;
  const bool seen = changes_are_seen(int8, float8, changes) && roundings_are_seen(rounding, others);
  std::printf("changed and seen: %s\nnot Keras's, and seen: %s\n", changes.c_str(), others.c_str());
  if (!layers.shown || !trained.shown() || !roundings.shown || trained.steps != 50 * trained.layers ||
      names.cases < 200 || names.agreed != names.cases || !seen || int8.at("versions") != float8.at("versions")) {
    std::printf("CLAIM keras_parity NOT SHOWN: a count of the table above is short, or a change was not seen\n");
    return kFailed;
  }
  std::printf(
      "CLAIM keras_parity shown: %s: %d int8 layers, codes, scales and accumulators equal, %lld of %lld outputs exact, "
      "all within 1 ulp; %d float8 layers of 50 steps, %s states equal to the bit, y at most %.2f of 4 eps sqrt(K); %d "
      "policies that round each operation, on JAX and torch %s: 0 of %lld numbers with exact sums differ, %lld others "
      "at "
      "most 1 ulp, of float32 what the order of terms makes; %d of %d names and lookups agree; by the %s\n",
      text(int8.at("versions")).c_str(), layers.layers, static_cast<long long>(layers.exact),
      static_cast<long long>(layers.outputs), trained.layers, text(trained.states).c_str(), trained.worst,
      roundings.policies, rounding.at("versions").at("torch").get<std::string>().c_str(),
      static_cast<long long>(roundings.exact), static_cast<long long>(roundings.other), names.agreed, names.cases,
      executor_name());
  return kSuccess;
}

}  // namespace
}  // namespace nacre::tools

NACRE_CLAIM(keras_parity) {
  try {
    return nacre::tools::claim(nacre::tools::project_path("tests/peers"));
  } catch (const std::exception& error) {
    std::printf("CLAIM keras_parity NOT SHOWN: %s\n", error.what());
    return 1;
  }
}
