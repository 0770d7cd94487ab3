#include "tools/policies/policy_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/base/nearest.h"

namespace nacre::tools {
namespace {

constexpr const char* kSources[] = {"float32", "mixed_bfloat16", "mixed_float16", "bfloat16", "float16", "float64"};
constexpr const char* kModes[] = {"int8",       "int8/static", "int8/full", "int8/weights", "int4",
                                  "int4/32",    "int4/64",     "int4/128",  "gptq/4/32",    "gptq/4/128",
                                  "gptq/8/128", "awq/4/128",   "float8",    "float8/16",    "float8/current"};
constexpr const char* kShort[] = {"half", "full", "f16", "bf16", "f32", "f64", "source"};

std::vector<std::string> make_names() {
  std::vector<std::string> names(std::begin(kSources), std::end(kSources));
  for (const std::string mode : kModes)
    for (const std::string source : kSources)
      if (mode != "int8" || !source.ends_with("_float16"))
        if (mode != "int8" || source != "float16") names.push_back(mode + "_from_" + source);
  names.insert(names.end(), std::begin(kShort), std::end(kShort));
  return names;
}

// Returns names whose mode is near `wrong`: "int8/statc" is far from every whole name, but near some modes.
std::vector<std::string> nearest_modes(const std::string& wrong) {
  const std::vector<std::string> modes(std::begin(kModes), std::end(kModes));
  std::vector<std::string> names = nearest_names(wrong, modes, 2);
  for (std::string& name : names) name += "_from_float32";
  return names;
}

constexpr PolicyForm kForms[] = {
    {"Keras", "float32 | float16 | bfloat16 | float64", "variables, arithmetic and output in this type", "bfloat16"},
    {"Keras", "mixed_float16 | mixed_bfloat16",
     "variables in float32, arithmetic and output in the 16-bit type; mixed_float16 trains with a dynamic loss scale",
     "mixed_bfloat16"},
    {"Keras", "int8_from_S",
     "weights in int8 per channel, activations quantized at run time, one scale per row (127 / max|x|); integer sums",
     "int8_from_float32"},
    {"Keras", "int4_from_S", "weights in int4, one scale per channel; arithmetic as in S", "int4_from_mixed_bfloat16"},
    {"Keras", "int4/B_from_S", "weights in int4, a scale and a zero point per B weights; B = -1 is int4_from_S",
     "int4/32_from_float32"},
    {"Keras", "float8_from_S",
     "weights and activations in float8 E4M3, gradients in E5M2; scales follow the last 1024 largest magnitudes; from "
     "16 bits every operation rounds, as in Keras",
     "float8_from_mixed_bfloat16"},
    {"Keras", "gptq/W/G_from_S",
     "weights in W bits (2, 3, 4: int4; 8: int8), a scale and a zero point per G weights (-1: per channel), codes "
     "fitted to samples: each weight makes up for the rounding of those before it",
     "gptq/4/128_from_float32"},
    {"Keras", "awq/4/G_from_S",
     "weights in int4, a scale and a zero point per G; a factor per input, found with samples, makes the "
     "codes of weights with large inputs finer",
     "awq/4/128_from_float32"},
    {"Keras", "ternary_from_S", "understood and refused: no Keras release up to 3.15.1 has it, and no layer here", ""},
    {"extension", "int8/static_from_S",
     "all in int8, scales of activations from calibration; TFLite's full-integer scheme", "int8/static_from_float32"},
    {"extension", "int8/full_from_S",
     "int8/static that trains in integers too (sgd, softmax cross-entropy, dense layers, convolutions): errors int8, "
     "masters int32, "
     "no "
     "float instruction",
     "int8/full_from_float32"},
    {"extension", "int8/weights_from_S", "weights in int8 per channel, arithmetic as in S",
     "int8/weights_from_float32"},
    {"TensorFlow", "int16x8",
     "of files alone: int16 activations, int8 weights, sums of 64 bits, to the bit as TensorFlow Lite", ""},
    {"extension", "float8/H_from_S", "float8 with a history of H largest magnitudes, 1 to 65535; rounds once a layer",
     "float8/16_from_mixed_bfloat16"},
    {"extension", "float8/current_from_S", "float8 with the scale of each tensor as it is",
     "float8/current_from_float32"},
    {"extension", "source", "as the network's file has it: undoes a wider rule", "source"},
    {"Axon", "axon(params=T,compute=T,output=T)", "the three types one by one; what is not given is float32",
     "axon(params=float32,compute=bfloat16)"},
    {"jmp", "jmp(params=T,compute=T,output=T)",
     "the same, also p= c= o=; params defaults to float32, compute to params, output to compute", "jmp(c=bfloat16)"},
    {"jmp", "params=T,compute=T,output=T", "as jmp(..); warns where axon(..) would be something else",
     "params=float32,compute=bfloat16,output=float32"},
    {"jmp", "half | full | f16 | bf16 | f32 | f64", "jmp's names of types: half is float16, full is float32", "half"},
    {"TensorFlow", "POLICY;loss_scale=L",
     "L: none, dynamic, auto (dynamic for mixed_float16, else none), or a fixed number of at least 1",
     "mixed_float16;loss_scale=128"},
    {"extension", "POLICY;FIELD=VALUE",
     "any other field of the record: variable, output, update_order, amax_rule, margin, scale_form, activation_zero, "
     "group_range (with_zero, keras), rounding (last; each: every operation rounds, as in Keras), weight_fit, "
     "weight_bits, activation_order",
     "float8_from_float32;update_order=transformer_engine;margin=1"},
};

}  // namespace

const std::vector<std::string>& policy_names() {
  static const std::vector<std::string> names = make_names();
  return names;
}

std::string nearest_policies(const std::string& wrong) {
  std::vector<std::string> near = nearest_names(wrong, policy_names());
  for (const std::string& name : nearest_modes(wrong))
    if (near.size() < 3 && std::ranges::find(near, name) == near.end()) near.push_back(name);
  if (near.empty())
    return "write one like float32, mixed_bfloat16 or int8_from_float32: `nacre policies` explains them all";
  return fmt::format("did you mean {}? `nacre policies` explains them all", alternatives(near));
}

std::span<const PolicyForm> policy_forms() { return kForms; }

}  // namespace nacre::tools
