// Parses policy names like Keras (keras/src/dtype_policies, 3.15, and the ternary mode that came after it).
//
//   policy    := plain | mixed | quantized
//   plain     := dtype                                     compute = variable = that type
//   mixed     := "mixed_float16" | "mixed_bfloat16"        compute = float16 | bfloat16, variable = float32
//   quantized := mode "_from_" (plain | mixed)             compute and variable are those of the source
//   mode      := "int8" | "float8" | "ternary" | "int4" | "int4/" B | "gptq/" W "/" G | "awq/4/" G
//   B, G      := -1 | positive integer | (B only) "None", read as -1        W := 2 | 3 | 4 | 8
//   dtype     := float16 float32 float64 bfloat16 uint8..64 int8..64 bool string float8_e4m3fn float8_e5m2
//                complex64 complex128 | "int", which is int32
//
// Integers are those that Python's int() reads: with spaces around, a sign, and '_' between digits. There are two
// departures: digits are ASCII, and no integer's magnitude exceeds 2^31 - 1. This file parses Keras's grammar alone;
// policy_language.h adds Nacre's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tools/policies/policy_error.h"

namespace nacre::tools {

struct KerasPolicy {
  std::string class_name;               // "DTypePolicy", "QuantizedDTypePolicy", ...
  std::string name;                     // canonical: "int4/-1_from_float32" for "int4/None_from_float32"
  std::string compute, variable;        // types as Keras names them
  std::string mode;                     // "int8", "float8", "int4", "ternary", "gptq" or "awq"; "" if not quantized
  std::string source;                   // name of the policy that was quantized; equal to `name` if none was
  int block_size = 0;                   // of Int4DTypePolicy: -1 is per channel; 0 in other classes
  int weight_bits = 0, group_size = 0;  // of GPTQDTypePolicy and AWQDTypePolicy
  int64_t amax_history_length = 0;      // of QuantizedFloat8DTypePolicy
  std::string loss_scale;               // of Policy and PolicyV1: "none", "auto", "dynamic", a number; "" if not given
  std::string loss_scale_numbers;       // TfLossScale::numbers
  bool operator==(const KerasPolicy&) const = default;
};

inline constexpr int64_t kKerasAmaxHistoryLength = 1024;

// Returns keras.dtype_policies.get(name), which set_dtype_policy and every layer's dtype= use too. A name that STARTS
// with a mode's word is taken as quantized, so "int8" and "float8_e4m3fn" are refused here. Throws PolicyError with a
// label:
//
//   CannotConvert    no such plain policy or source           NotAPair         not exactly one "_from_"
//   InvalidMode      no such mode                             BadModeFormat    wrong parts between '/'
//   BlockSizeNotInt, BitsOrGroupNotInt: a part is no integer  BadBlockSize, BadWeightBits, BadGroupSize: out of range
//   Int8WithFloat16  int8 from a policy that computes in float16
KerasPolicy parse_keras_policy(const std::string& name, const Place& place = {});

// Returns keras.DTypePolicy(name). It takes a mixed policy or any type's name, "int8" too, but no quantized policy.
KerasPolicy construct_keras_policy(const std::string& name, const Place& place = {});

// Makes the policy of a quantized class that is called with (mode, source). Checks no more than Keras does:
// QuantizedFloat8DTypePolicy takes mode "int8", QuantizedDTypePolicy takes "gptq".
KerasPolicy construct_keras_quantized(const std::string& class_name, const std::string& mode, const std::string& source,
                                      const Place& place = {});

std::span<const std::string> keras_modes();           // the modes of quantization: "int8", "float8", ..
std::span<const std::string> keras_policy_classes();  // the classes of quantized policies

}  // namespace nacre::tools
