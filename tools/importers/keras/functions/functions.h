// Reads arguments of functions of keras.ops, and lists their converters. Private to tools/importers/keras/functions.
#pragma once

#include <vector>

#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {

// Returns argument i of the call, or the one of that name, as the file has it; null if the call has neither.
const Json* argument(const Call& call, size_t i, const char* name);
std::vector<ValueId> tensors_at(const Call& call, size_t i, const char* name);  // the tensors in that argument
ValueId operand(const Call& call, size_t i, const char* name);                  // a tensor, an array or a number
inline ValueId real(const Call& call, size_t i, const char* name) { return call.cast(operand(call, i, name)); }
inline ValueId only(const Call& call) { return operand(call, 0, "x"); }
std::vector<int> axes_or_all(const Call& call, int rank);  // the axes of the configuration's "axis", or all

std::span<const Converter> formula_functions();  // functions that are a formula: formula.cc
std::span<const Converter> move_functions();     // functions that compute nothing: move.cc
std::span<const Converter> place_functions();    // functions that choose or reorder elements: place.cc
std::span<const Converter> sum_functions();      // products and sums: sums.cc

}  // namespace nacre::tools::keras
