#include "tools/policies/policy_fields.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/numeric/rounding.h"
#include "tools/base/names.h"
#include "tools/base/nearest.h"
#include "tools/policies/policy_text.h"

namespace nacre::tools {
namespace {

template <class E>
bool set_name(const Json& value, E* field) {
  if (!value.is_string()) return false;
  const auto found = find_name<E>(value.text());
  if (found) *field = *found;
  return found.has_value();
}

template <class Integer>
bool set_number(const Json& value, int64_t low, int64_t high, Integer* field) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max())) return false;
  const int64_t number = value.get<int64_t>();
  if (number < low || number > high) return false;
  *field = Integer(number);
  return true;
}

template <ElementType Policy::*kField>
bool set_type(Policy& p, const Json& value) {
  ElementType type{};
  if (!set_name(value, &type) || !floating(type)) return false;
  p.*kField = type;
  return true;
}

Json get_loss_scale(const Policy& p) {
  return p.loss_scale == LossScale::kFixed ? Json(p.loss_scale_value) : Json(name_of(p.loss_scale));
}

// Sets the loss scale in the sense of TensorFlow's experimental Policy. "auto" is dynamic for mixed_float16 and none
// for all else. A number is a fixed scale of at least 1 (FixedLossScale). A dynamic scale starts at the trainer's
// value.
bool set_loss_scale(Policy& p, const Json& value) {
  p.loss_scale_value = 0;
  if (value.is_number()) {
    const double number = value.get<double>();
    if (!(number >= 1 && number <= double(std::numeric_limits<float>::max()))) return false;
    p.loss_scale = LossScale::kFixed;
    p.loss_scale_value = float(number);
    return true;
  }
  if (!value.is_string()) return false;
  const std::string& word = value.text();
  if (word == "auto") p.loss_scale = is_mixed_float16(p) ? LossScale::kDynamic : LossScale::kNone;
  else if (word == "dynamic") p.loss_scale = LossScale::kDynamic;
  else if (word == "none") p.loss_scale = LossScale::kNone;
  else return false;
  return true;
}

// Returns one word for two fields of the record: how int8/static and int8/full round a requantization, or, if that
// field is 0, whether a layer rounds after each of its operations or after the last.
Json get_rounding(const Policy& p) {
  return p.rounding == 0 ? Json(name_of(p.operation_rounding)) : Json(name_of(Rounding(p.rounding)));
}

bool set_rounding(Policy& p, const Json& value) {
  Rounding rounding{};
  OperationRounding operations{};
  if (!set_name(value, &operations) && !set_name(value, &rounding)) return false;
  p.operation_rounding = operations;
  p.rounding = uint8_t(rounding);
  return true;
}

// Returns the form of the weights' scales, step or reciprocal, by quantization. int8 codes of a file may have either.
ScaleForm scale_form_of(const Policy& p) {
  const bool channels = p.quantization == Quantization::kInt4Weights && p.block == 0;
  const bool nearest = p.weight_fit == WeightFit::kNearest;
  return p.quantization == Quantization::kInt8Dynamic || (channels && nearest) ? ScaleForm::kReciprocal
                                                                               : ScaleForm::kStep;
}

std::string mode_of(const Policy& p) {
  return p.block > 0 ? fmt::format("{} in blocks", name_of(p.quantization)) : name_of(p.quantization);
}

// Sets the quantization, and the form of the scales that it implies. A scale_form that follows may change that again.
bool set_quantization(Policy& p, const Json& value) {
  if (!set_name(value, &p.quantization)) return false;
  p.scale_form = scale_form_of(p);
  return true;
}
bool set_block(Policy& p, const Json& value) {
  if (!set_number(value, 0, 2147483647, &p.block)) return false;
  if (p.quantization == Quantization::kInt4Weights) p.scale_form = scale_form_of(p);
  return true;
}

// Sets how weights are fitted to their codes. Another fit than before resets scale_form. `nearest` sets weight_bits to
// 0, and another fit sets unset bits to 8 (int8/weights) or 4. Fields that follow may change them again.
bool set_weight_fit(Policy& p, const Json& value) {
  const WeightFit before = p.weight_fit;
  if (!set_name(value, &p.weight_fit)) return false;
  if (p.weight_fit != before) p.scale_form = scale_form_of(p);
  if (p.weight_fit == WeightFit::kNearest) p.weight_bits = 0;
  else if (p.weight_bits == 0) p.weight_bits = p.quantization == Quantization::kInt8Weights ? 8 : 4;
  return true;
}

bool set_weight_bits(Policy& p, const Json& value) {
  uint8_t bits = 0;
  if (!set_number(value, 0, 8, &bits) || (bits != 0 && !fit_bits(bits))) return false;
  p.weight_bits = bits;
  return true;
}

// Returns the names of an enum as "a, b or c".
template <class E>
std::string words_of() {
  std::string words;
  const std::span<const char* const> all = names<E>();
  for (size_t i = 0; i < all.size(); ++i)
    words += (i == 0 ? "" : i + 1 == all.size() ? " or " : ", ") + std::string(all[i]);
  return words;
}

const std::string kQuantizationWords = words_of<Quantization>();
constexpr const char* kTypeWords = "float32, float16, bfloat16 or float64";

// loss_scale is last, because "auto" reads other fields.
const PolicyField kFields[] = {
    {"variable", kTypeWords, [](const Policy& p) { return Json(name_of(p.variable)); }, set_type<&Policy::variable>},
    {"compute", kTypeWords, [](const Policy& p) { return Json(name_of(p.compute)); }, set_type<&Policy::compute>},
    {"output", kTypeWords, [](const Policy& p) { return Json(name_of(p.output)); }, set_type<&Policy::output>},
    {"quantization", kQuantizationWords.c_str(), [](const Policy& p) { return Json(name_of(p.quantization)); },
     set_quantization},
    {"block", "0 to 2147483647", [](const Policy& p) { return Json(p.block); }, set_block},
    {"amax_history_length", "0 to 65535", [](const Policy& p) { return Json(p.amax_history_length); },
     [](Policy& p, const Json& v) { return set_number(v, 0, 65535, &p.amax_history_length); }},
    {"margin", "-128 to 127", [](const Policy& p) { return Json(p.margin); },
     [](Policy& p, const Json& v) { return set_number(v, -128, 127, &p.margin); }},
    {"update_order", "keras or transformer_engine", [](const Policy& p) { return Json(name_of(p.update_order)); },
     [](Policy& p, const Json& v) { return set_name(v, &p.update_order); }},
    {"amax_rule", "max or most_recent", [](const Policy& p) { return Json(name_of(p.amax_rule)); },
     [](Policy& p, const Json& v) { return set_name(v, &p.amax_rule); }},
    {"scale_form", "step or reciprocal", [](const Policy& p) { return Json(name_of(p.scale_form)); },
     [](Policy& p, const Json& v) { return set_name(v, &p.scale_form); }},
    {"activation_zero", "0 or 1", [](const Policy& p) { return Json(p.activation_zero); },
     [](Policy& p, const Json& v) { return set_number(v, 0, 1, &p.activation_zero); }},
    {"group_range", "with_zero or keras", [](const Policy& p) { return Json(name_of(p.group_range)); },
     [](Policy& p, const Json& v) { return set_name(v, &p.group_range); }},
    {"weight_fit", "nearest, gptq or awq", [](const Policy& p) { return Json(name_of(p.weight_fit)); }, set_weight_fit},
    {"weight_bits", "0, 2, 3, 4 or 8", [](const Policy& p) { return Json(p.weight_bits); }, set_weight_bits},
    {"activation_order", "0 or 1", [](const Policy& p) { return Json(p.activation_order); },
     [](Policy& p, const Json& v) { return set_number(v, 0, 1, &p.activation_order); }},
    {"rounding", "last, each, none, double, single or float_even", get_rounding, set_rounding},
    {"loss_scale", "none, dynamic, auto or a finite number of at least 1", get_loss_scale, set_loss_scale},
};

const PolicyField* find_field(const std::string& key) {
  for (const PolicyField& field : kFields)
    if (key == field.key) return &field;
  return nullptr;
}

std::string shown(const Json& value) { return in_quotes(value.is_string() ? value.get<std::string>() : value.dump()); }

std::string nearest_fields(const std::string& key) {
  std::vector<std::string> keys;
  for (const PolicyField& field : kFields) keys.emplace_back(field.key);
  const std::string near = alternatives(nearest_names(key, keys));
  return near.empty() ? "fields are " + listed(keys, keys.size()) : "did you mean " + near + "?";
}

// Throws unless weight_fit, weight_bits, activation_order, scale_form and the quantization fit together.
void check_fit(const Policy& p, const Place& place) {
  const bool int4 = p.quantization == Quantization::kInt4Weights, int8 = p.quantization == Quantization::kInt8Weights;
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    place.refuse("Contradiction", what, remedy);
  };
  if (p.activation_order != 0 && p.weight_fit != WeightFit::kGptq)
    refuse("activation_order belongs to weight_fit=gptq", "for example gptq/4/128_from_float32;activation_order=1");
  if (p.weight_fit == WeightFit::kNearest) {
    if (p.weight_bits != 0)
      refuse("weight_bits belongs to a weight_fit",
             "for example gptq/3/128_from_float32; codes nearest to the weights "
             "have 4 bits (int4) or 8 (int8/weights)");
    return;
  }
  const char* fit = name_of(p.weight_fit);
  if (!int4 && !int8)
    refuse(
        fmt::format("weight_fit belongs to int4 or int8/weights, and the quantization is {}", name_of(p.quantization)),
        fmt::format("for example {}/4/128_from_float32", fit));
  if (int4 && (p.weight_bits < 2 || p.weight_bits > 4))
    refuse(fmt::format("weight_bits={} does not go with int4, whose codes have 2, 3 or 4 bits", p.weight_bits),
           "8 bits are gptq/8/128_from_float32");
  if (int8 && p.weight_bits != 8)
    refuse(fmt::format("weight_bits={} does not go with int8/weights, whose codes have 8 bits", p.weight_bits),
           "fewer bits are gptq/4/128_from_float32");
  if (p.weight_fit == WeightFit::kAwq && p.weight_bits != 4)
    refuse(fmt::format("awq has 4 bits, not {}", p.weight_bits),
           "other numbers of bits have gptq: gptq/3/128_from_float32");
  if (p.scale_form != ScaleForm::kStep)
    refuse("scale_form=reciprocal does not go with a weight_fit", "its groups have steps and zero points");
}

}  // namespace

std::span<const PolicyField> policy_fields() { return kFields; }

bool floating(ElementType type) {
  return type == ElementType::kFloat32 || type == ElementType::kFloat16 || type == ElementType::kBfloat16 ||
         type == ElementType::kFloat64;
}

bool fit_bits(int bits) { return bits == 2 || bits == 3 || bits == 4 || bits == 8; }

bool narrow(ElementType type) { return type == ElementType::kFloat16 || type == ElementType::kBfloat16; }

void set_policy_field(Policy& policy, const std::string& key, const Json& value, const Place& place) {
  const PolicyField* field = find_field(key);
  if (field == nullptr)
    place.refuse("UnknownField", fmt::format("{} is no field of a policy", in_quotes(key)), nearest_fields(key));
  if (!field->set(policy, value))
    place.refuse("BadField", fmt::format("{} cannot be {}, expected {}", key, shown(value), field->expected));
}

void set_policy_field(Policy& policy, const std::string& assignment, const Place& place) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos)
    place.refuse("BadField", fmt::format("{} is not FIELD=VALUE", in_quotes(assignment)),
                 "for example ;loss_scale=dynamic");
  const std::string key = assignment.substr(0, equals), text = assignment.substr(equals + 1);
  const char* end = text.data() + text.size();
  Json value = text;
  int64_t integer = 0;
  double real = 0;
  if (const auto [rest, error] = std::from_chars(text.data(), end, integer); error == std::errc() && rest == end)
    value = integer;
  else if (const auto [r, e] = std::from_chars(text.data(), end, real);
           e == std::errc() && r == end && std::isfinite(real))
    value = real;
  set_policy_field(policy, key, value, place);
}

void check_policy(const Policy& p, const Place& place) {
  const auto need = [&](bool holds, const char* key, const char* owner, const char* example) {
    if (!holds)
      place.refuse("Contradiction",
                   fmt::format("{} belongs to {}, and the quantization is {}", key, owner, name_of(p.quantization)),
                   fmt::format("for example {}", example));
  };
  const bool delayed = p.quantization == Quantization::kFloat8;
  const bool int8 = p.quantization == Quantization::kInt8Dynamic;
  const bool fitted = p.weight_fit != WeightFit::kNearest;
  need(p.block == 0 || p.quantization == Quantization::kInt4Weights ||
           (p.quantization == Quantization::kInt8Weights && fitted),
       "block", fitted ? "int4 or int8/weights" : "int4", "int4/32_from_float32");
  need(p.amax_history_length == 0 || delayed, "amax_history_length", "float8 with a history", "float8/16_from_float32");
  need(p.update_order == UpdateOrder::kTransformerEngine || delayed, "update_order", "float8 with a history",
       "float8_from_float32;update_order=keras");
  need(p.amax_rule == AmaxRule::kMax || delayed, "amax_rule", "float8 with a history",
       "float8_from_float32;amax_rule=most_recent");
  need(p.margin == 0 || delayed, "margin", "float8 with a history", "float8_from_float32;margin=1");
  need(p.activation_zero == 0 || int8, "activation_zero", "int8 with dynamic scales",
       "int8_from_float32;scale_form=step;activation_zero=1");
  if (int8 && p.activation_zero != 0 && p.scale_form != ScaleForm::kStep)
    place.refuse("Contradiction", "activation_zero=1 does not go with scale_form=reciprocal, whose rows are symmetric",
                 "codes that a file brings take int8_from_float32;scale_form=step;activation_zero=1");
  need(p.scale_form == ScaleForm::kStep || p.quantization != Quantization::kNone, "scale_form", "a quantization",
       "int8_from_float32;scale_form=step");
  if (!int8 && p.scale_form != scale_form_of(p))
    place.refuse("Contradiction",
                 fmt::format("scale_form={} does not go with {}, whose scales are stored as {}", name_of(p.scale_form),
                             mode_of(p), name_of(scale_form_of(p))),
                 "leave scale_form out");
  need(p.group_range == GroupRange::kWithZero || (p.quantization == Quantization::kInt4Weights && p.block > 0),
       "group_range", "int4 in blocks", "int4/32_from_float32;group_range=keras");
  if (p.group_range != GroupRange::kWithZero && fitted)
    place.refuse("Contradiction", "group_range=keras does not go with a weight_fit", "its groups have a code for 0");
  check_fit(p, place);
  const bool requantizes = p.quantization == Quantization::kInt8Static || p.quantization == Quantization::kInt8Full;
  const Rounding rounding = Rounding(p.rounding);
  need(rounding == Rounding::kNone || requantizes, "rounding=double, single or float_even", "int8/static",
       "int8/static_from_float32;rounding=single");
  if (rounding == Rounding::kHalfAway || rounding == Rounding::kHalfEven)
    place.refuse("Contradiction", fmt::format("rounding={} is no rounding of a requantization", name_of(rounding)),
                 "int8/static rounds double, single or float_even");
  need(p.operation_rounding == OperationRounding::kLast ||
           (!requantizes && p.quantization != Quantization::kFloat8Current),
       "rounding=each", "layers of floats", "mixed_bfloat16;rounding=each");
  if (int8 && p.compute == ElementType::kFloat16)
    place.refuse(
        "Int8WithFloat16", "int8 with dynamic scales does not go with compute type float16",
        "take int8_from_bfloat16 or int8_from_float32, or quantize the weights only: int8/weights_from_float16");
  if (delayed && p.amax_history_length == 0)
    place.refuse("Contradiction", "amax_history_length: float8 with a history needs one of 1 to 65535",
                 "write float8/16_from_float32, or take float8/current_from_float32, whose scale is the tensor's own");
}

bool equal(const Policy& a, const Policy& b) {
  for (const PolicyField& field : kFields)
    if (field.get(a) != field.get(b)) return false;
  return a.loss_scale == b.loss_scale;
}

}  // namespace nacre::tools
