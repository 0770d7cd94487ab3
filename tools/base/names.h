// Names of the engine's enumerators, for the text form of graphs, for reports and for options.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "engine/numeric/policy.h"
#include "engine/ops/op.h"

namespace nacre::tools {

// Returns the names in the order of the enumerators. Defined for ElementType, Region, Rounding, Quantization,
// UpdateOrder, AmaxRule, ScaleForm, GroupRange, OperationRounding, WeightFit and LossScale.
template <class E>
std::span<const char* const> names();

template <class E>
const char* name_of(E e) {
  return size_t(e) < names<E>().size() ? names<E>()[size_t(e)] : "unknown";
}

template <class E>
std::optional<E> find_name(std::string_view name) {
  for (size_t i = 0; i < names<E>().size(); ++i)
    if (names<E>()[i] == name) return E(i);
  return std::nullopt;
}

template <>
std::span<const char* const> names<ElementType>();
template <>
std::span<const char* const> names<Region>();
template <>
std::span<const char* const> names<Rounding>();
template <>
std::span<const char* const> names<Quantization>();
template <>
std::span<const char* const> names<UpdateOrder>();
template <>
std::span<const char* const> names<AmaxRule>();
template <>
std::span<const char* const> names<ScaleForm>();
template <>
std::span<const char* const> names<GroupRange>();
template <>
std::span<const char* const> names<OperationRounding>();
template <>
std::span<const char* const> names<WeightFit>();
template <>
std::span<const char* const> names<LossScale>();

}  // namespace nacre::tools
