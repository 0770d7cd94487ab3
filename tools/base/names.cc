#include "tools/base/names.h"

#include <iterator>

namespace nacre::tools {
namespace {

constexpr const char* kElementTypes[] = {
    "none",        "float32",         "float16",         "bfloat16",    "float64",     "int8",  "uint8",
    "int16",       "int32",           "int64",           "uint32",      "bool",        "int4",  "float8_e4m3",
    "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0", "float4_e2m1", "uint4", "ternary"};
static_assert(std::size(kElementTypes) == size_t(ElementType::kCount));

constexpr const char* kRegions[] = {"weights", "state", "stream", "derived", "step", "arena"};
static_assert(std::size(kRegions) == size_t(Region::kCount));

constexpr const char* kRoundings[] = {"none", "double", "single", "float_even", "half_away", "half_even"};
static_assert(std::size(kRoundings) == size_t(Rounding::kCount));

constexpr const char* kQuantizations[] = {"none", "int8",   "int8/static",    "int8/weights",
                                          "int4", "float8", "float8/current", "int8/full"};
static_assert(std::size(kQuantizations) == size_t(Quantization::kCount));

constexpr const char* kUpdateOrders[] = {"transformer_engine", "keras"};
static_assert(std::size(kUpdateOrders) == size_t(UpdateOrder::kCount));

constexpr const char* kAmaxRules[] = {"max", "most_recent"};
static_assert(std::size(kAmaxRules) == size_t(AmaxRule::kCount));

constexpr const char* kScaleForms[] = {"step", "reciprocal"};
static_assert(std::size(kScaleForms) == size_t(ScaleForm::kCount));

constexpr const char* kGroupRanges[] = {"with_zero", "keras"};
static_assert(std::size(kGroupRanges) == size_t(GroupRange::kCount));

constexpr const char* kOperationRoundings[] = {"last", "each"};
static_assert(std::size(kOperationRoundings) == size_t(OperationRounding::kCount));

constexpr const char* kWeightFits[] = {"nearest", "gptq", "awq"};
static_assert(std::size(kWeightFits) == size_t(WeightFit::kCount));

constexpr const char* kLossScales[] = {"none", "fixed", "dynamic"};
static_assert(std::size(kLossScales) == size_t(LossScale::kCount));

}  // namespace

template <>
std::span<const char* const> names<ElementType>() {
  return kElementTypes;
}
template <>
std::span<const char* const> names<Region>() {
  return kRegions;
}
template <>
std::span<const char* const> names<Rounding>() {
  return kRoundings;
}
template <>
std::span<const char* const> names<Quantization>() {
  return kQuantizations;
}
template <>
std::span<const char* const> names<UpdateOrder>() {
  return kUpdateOrders;
}
template <>
std::span<const char* const> names<AmaxRule>() {
  return kAmaxRules;
}
template <>
std::span<const char* const> names<ScaleForm>() {
  return kScaleForms;
}
template <>
std::span<const char* const> names<GroupRange>() {
  return kGroupRanges;
}
template <>
std::span<const char* const> names<OperationRounding>() {
  return kOperationRoundings;
}
template <>
std::span<const char* const> names<WeightFit>() {
  return kWeightFits;
}
template <>
std::span<const char* const> names<LossScale>() {
  return kLossScales;
}

}  // namespace nacre::tools
