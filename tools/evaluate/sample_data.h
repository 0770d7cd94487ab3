// Fits the samples that --data names to the inputs of a program.
//
// Converts float32 numbers to the input's type, and notes it: quantizes by the input's scale, or rounds to its float
// type. Codes become real numbers by the scale of the program that they were made for. No other type changes unless
// asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/files/npy.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

// Reads the arrays of a .npz by name, or the array of a .npy, without a name.
NpzArrays read_arrays(const std::string& path);

// Returns the arrays in the order of `inputs`. A single array for a single input may have any name. Each array that is
// no input adds a line to `notes`.
std::vector<NpyArray> arrays_for(const std::vector<std::string>& inputs, const NpzArrays& data,
                                 std::vector<std::string>& notes);

// Returns the rows of axis 0 that `rows` names, in that order. Throws Error if a row does not exist.
NpyArray select_rows(const NpyArray& array, std::span<const int64_t> rows, const std::string& place);

// Reads row numbers from a .npy with one axis: integers, at most `rows`, or a bool for each row: true for those meant.
std::vector<int64_t> read_rows(const std::string& path, int64_t rows = INT64_MAX);

// Both throw Error for a type other than integers and floats. integers_of() also throws for a float that is not whole.
void require_integers(const NpyArray& header);
std::vector<int64_t> integers_of(const NpyArray& array);

struct InputFit {
  bool cast = false;                 // converts number for number; refuses a number that would change
  std::optional<Scales> codes = {};  // scales of int8 or int16 data, for an input that takes no codes
};

// Converts `array` to the type of an input of `model`. `tensor` is the input's id.
NpyArray fit_input(const LoadedModel& model, uint32_t tensor, const std::string& name, NpyArray array,
                   const InputFit& fit, std::vector<std::string>& notes);

}  // namespace nacre::tools
