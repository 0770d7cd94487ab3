// Arguments of functions of keras.ops, and their converters. Private to tools/importers/keras/functions.
#pragma once

#include <vector>

#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {

// Argument i of the call, or of that name, as the file has it; null where it is not there.
const Json* argument(const Call& call, size_t i, const char* name);
std::vector<ValueId> tensors_at(const Call& call, size_t i, const char* name);  // those in it
ValueId operand(const Call& call, size_t i, const char* name);                  // a tensor, array or number
inline ValueId real(const Call& call, size_t i, const char* name) { return call.cast(operand(call, i, name)); }
inline ValueId only(const Call& call) { return operand(call, 0, "x"); }
std::vector<int> axes_or_all(const Call& call, int rank);  // of configuration "axis"

std::span<const Converter> formula_functions();  // formula.cc
std::span<const Converter> move_functions();     // those that compute nothing: move.cc
std::span<const Converter> place_functions();    // those that say where elements come from: place.cc
std::span<const Converter> sum_functions();      // products and sums: sums.cc

}  // namespace nacre::tools::keras
