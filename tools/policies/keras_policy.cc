#include "tools/policies/keras_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <vector>

#include "tools/base/nearest.h"
#include "tools/policies/policy_names.h"

namespace nacre::tools {
namespace {

const std::array<std::string, 6> kKerasModes = {"int8", "float8", "int4", "ternary", "gptq", "awq"};
const std::array<std::string, 6> kClasses = {"QuantizedDTypePolicy", "QuantizedFloat8DTypePolicy",
                                             "Int4DTypePolicy",      "TernaryDTypePolicy",
                                             "GPTQDTypePolicy",      "AWQDTypePolicy"};
const std::array<std::string, 18> kTypes = {
    "float16", "float32", "float64",  "uint8", "uint16", "uint32",        "uint64",      "int8",      "int16",
    "int32",   "int64",   "bfloat16", "bool",  "string", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128"};

struct Types {
  std::string compute, variable;
};

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t at = 0;
  for (size_t end; (end = text.find(separator, at)) != std::string::npos; at = end + separator.size())
    parts.push_back(text.substr(at, end - at));
  parts.push_back(text.substr(at));
  return parts;
}

enum class Read { kInteger, kNoInteger, kTooLarge };

// Reads an integer like Python's int(text): [spaces] [+-] digits [spaces], one '_' allowed between two digits.
Read read_integer(std::string_view text, int* value) {
  const auto space = [](char c) { return (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= ' '); };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  const bool negative = !text.empty() && text.front() == '-';
  if (!text.empty() && (negative || text.front() == '+')) text.remove_prefix(1);
  int64_t sum = 0;
  bool digit = false, fits = true;  // digit: whether the character before is a digit
  for (const char c : text) {
    if (c == '_' && digit) {
      digit = false;
      continue;
    }
    if (c < '0' || c > '9') return Read::kNoInteger;
    digit = true;
    sum = std::min<int64_t>(10 * sum + (c - '0'), int64_t{1} << 32);
  }
  if (!digit) return Read::kNoInteger;
  fits = sum < int64_t{1} << 31;
  *value = int(negative ? -(fits ? sum : 0) : (fits ? sum : 0));
  return fits ? Read::kInteger : Read::kTooLarge;
}

Types types_of(const std::string& name, const Place& place) {
  if (name == "mixed_float16") return {"float16", "float32"};
  if (name == "mixed_bfloat16") return {"bfloat16", "float32"};
  if (name == "int") return {"int32", "int32"};
  if (std::ranges::find(kTypes, name) != kTypes.end()) return {name, name};
  place.refuse("CannotConvert", fmt::format("cannot convert {} to a policy", in_quotes(name)), nearest_policies(name));
}

// Holds the text of a mode, such as "int4/128", and the place where it was written, for errors.
struct Mode {
  const std::string& text;
  const Place& place;

  [[noreturn]] void refuse(const std::string& label, const std::string& what, const std::string& expected) const {
    place.refuse(label, fmt::format("mode {}: {}", in_quotes(text), what), expected);
  }

  int integer(const std::string& part, const std::string& label_not_int, const std::string& label_range,
              const std::string& what, const std::string& expected) const {
    int value = 0;
    switch (read_integer(part, &value)) {
      case Read::kNoInteger: refuse(label_not_int, fmt::format("{} {} is no integer", what, in_quotes(part)), expected);
      case Read::kTooLarge:
        refuse(label_range, fmt::format("{} {} is beyond 2147483647", what, in_quotes(part)), expected);
      default: return value;
    }
  }
};

constexpr const char* kInt4Format =
    "write int4/BLOCK, where BLOCK is the number of weights that share a scale, for example int4/128_from_float32, or "
    "-1 for one per channel";

KerasPolicy int4_block(const std::string& mode, const Place& place) {
  const Mode m = {mode, place};
  const std::vector<std::string> parts = split(mode, "/");
  if (parts.size() != 2 || parts[0] != "int4") m.refuse("BadModeFormat", "is not int4/BLOCK", kInt4Format);
  const int block =
      parts[1] == "None" ? -1 : m.integer(parts[1], "BlockSizeNotInt", "BadBlockSize", "block", kInt4Format);
  if (block < -1 || block == 0)
    m.refuse("BadBlockSize", fmt::format("block {} is neither -1 nor positive", block), kInt4Format);
  KerasPolicy policy;
  policy.class_name = "Int4DTypePolicy";
  policy.block_size = block;
  return policy;
}

// Makes the policy of "gptq/W/G" or "awq/4/G": W bits a weight, G weights a group. `word` is "gptq" or "awq".
KerasPolicy grouped(const std::string& word, const std::string& mode, const Place& place) {
  const bool gptq = word == "gptq";
  const std::string expected =
      gptq ? "write gptq/BITS/GROUP with 2, 3, 4 or 8 bits, for example gptq/4/128_from_float32; a GROUP of -1 is the "
             "whole tensor"
           : "write awq/4/GROUP, for example awq/4/128_from_float32; a GROUP of -1 is per channel";
  const Mode m = {mode, place};
  const std::vector<std::string> parts = split(mode, "/");
  if (parts.size() != 3 || parts[0] != word)
    m.refuse("BadModeFormat", fmt::format("is not {}/BITS/GROUP", word), expected);
  KerasPolicy policy;
  policy.class_name = gptq ? "GPTQDTypePolicy" : "AWQDTypePolicy";
  int too_large = 0;  // unused value: Keras reads both integers, bits and group, before it checks either
  if (read_integer(parts[2], &too_large) == Read::kNoInteger)
    m.refuse("BitsOrGroupNotInt", fmt::format("group {} is no integer", in_quotes(parts[2])), expected);
  policy.weight_bits = m.integer(parts[1], "BitsOrGroupNotInt", "BadWeightBits", "bits", expected);
  const int bits = policy.weight_bits;
  if (gptq ? bits != 2 && bits != 3 && bits != 4 && bits != 8 : bits != 4)
    m.refuse("BadWeightBits", fmt::format("{} bits are not supported", bits), expected);
  policy.group_size = m.integer(parts[2], "BitsOrGroupNotInt", "BadGroupSize", "group", expected);
  if (policy.group_size < -1 || policy.group_size == 0)
    m.refuse("BadGroupSize", fmt::format("group {} is neither -1 nor positive", policy.group_size), expected);
  return policy;
}

void check_mode(const std::string& mode, const std::string& source, const Types& types, const Place& place) {
  if (std::ranges::find(kKerasModes, mode) == kKerasModes.end())
    place.refuse("InvalidMode", fmt::format("{} is no quantization mode", in_quotes(mode)),
                 nearest_policies(mode + "_from_" + source));
  if (mode == "int8" && types.compute == "float16")
    place.refuse("Int8WithFloat16",
                 fmt::format("int8 does not go with compute type float16, which {} has: its scales, 127 / max|x|, and "
                             "its sums leave the range of float16",
                             in_quotes(source)),
                 fmt::format("take int8_from_mixed_bfloat16 or int8_from_float32, or quantize the weights only: "
                             "int8/weights_from_{}",
                             source));
}

bool starts_with_mode(const std::string& name) {
  return std::ranges::any_of(kKerasModes, [&](const std::string& mode) { return name.starts_with(mode); });
}

}  // namespace

std::span<const std::string> keras_modes() { return kKerasModes; }
std::span<const std::string> keras_policy_classes() { return kClasses; }

KerasPolicy construct_keras_policy(const std::string& name, const Place& place) {
  const Types types = types_of(name, place);
  KerasPolicy policy;
  policy.class_name = "DTypePolicy";
  policy.name = policy.source = name;
  policy.compute = types.compute;
  policy.variable = types.variable;
  return policy;
}

KerasPolicy construct_keras_quantized(const std::string& class_name, const std::string& mode, const std::string& source,
                                      const Place& place) {
  KerasPolicy policy;
  std::string word = mode, canonical = mode;
  if (class_name == "Int4DTypePolicy") {
    policy = int4_block(mode, place);
    word = "int4";
    canonical = fmt::format("int4/{}", policy.block_size);
  } else if (class_name == "GPTQDTypePolicy" || class_name == "AWQDTypePolicy") {
    word = class_name == "GPTQDTypePolicy" ? "gptq" : "awq";
    policy = grouped(word, mode, place);
    canonical = fmt::format("{}/{}/{}", word, policy.weight_bits, policy.group_size);
  }
  const Types types = types_of(source, place);
  check_mode(word, source, types, place);
  if (class_name == "QuantizedFloat8DTypePolicy") policy.amax_history_length = kKerasAmaxHistoryLength;
  policy.class_name = class_name;
  policy.name = canonical + "_from_" + source;
  policy.compute = types.compute;
  policy.variable = types.variable;
  policy.mode = word;
  policy.source = source;
  return policy;
}

KerasPolicy parse_keras_policy(const std::string& name, const Place& place) {
  if (!starts_with_mode(name)) return construct_keras_policy(name, place);
  const std::vector<std::string> pair = split(name, "_from_");
  if (pair.size() == 1 && (name.starts_with("gptq") || name.starts_with("awq")))
    place.refuse("NotAPair", fmt::format("{} says neither bits and group nor what it quantizes", in_quotes(name)),
                 fmt::format("write {}/4/128_from_float32: 4 bits, a scale for each 128 weights, of float32",
                             name.starts_with("gptq") ? "gptq" : "awq"));
  if (pair.size() != 2)
    place.refuse("NotAPair",
                 pair.size() == 1 ? fmt::format("{} names no policy to quantize from", in_quotes(name))
                                  : fmt::format("{} has more than one '_from_'", in_quotes(name)),
                 nearest_policies(name));
  const std::string& mode = pair[0];
  const auto word = [&](const char* w) { return name.starts_with(w); };
  const std::string class_name = word("int8")                                          ? "QuantizedDTypePolicy"
                                 : word("int4") && mode.find('/') != std::string::npos ? "Int4DTypePolicy"
                                 : word("int4")                                        ? "QuantizedDTypePolicy"
                                 : word("gptq")                                        ? "GPTQDTypePolicy"
                                 : word("awq")                                         ? "AWQDTypePolicy"
                                 : word("ternary")                                     ? "TernaryDTypePolicy"
                                                                                       : "QuantizedFloat8DTypePolicy";
  return construct_keras_quantized(class_name, mode, pair[1], place);
}

}  // namespace nacre::tools
