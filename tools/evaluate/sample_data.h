// The samples that --data names, fitted to the inputs of a program.
//
// float32 numbers take the type of the input, and a note says so: codes by its scale, rounding to its float type. Codes
// become real numbers by the scale of the program they were made for. Nothing else changes type unless asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/files/npy.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

// .npz: arrays by name. .npy: one, without a name.
NpzArrays read_arrays(const std::string& path);

// Returns the arrays in the order of `inputs`. A single array for a single input may have any name. Each array that is
// no input adds a line to `notes`.
std::vector<NpyArray> arrays_for(const std::vector<std::string>& inputs, const NpzArrays& data,
                                 std::vector<std::string>& notes);

// Rows of axis 0, in the order of `rows`. Throws Error where there is no such row.
NpyArray select_rows(const NpyArray& array, std::span<const int64_t> rows, const std::string& place);

// A list of row numbers: a .npy of integers with one axis, at most as many as there are rows to name.
std::vector<int64_t> read_rows(const std::string& path, int64_t rows = INT64_MAX);

// Integers of any type; throws Error for others.
void require_integers(const NpyArray& header);
std::vector<int64_t> integers_of(const NpyArray& array);

struct InputFit {
  bool cast = false;                 // number for number; refused where that loses one
  std::optional<Scales> codes = {};  // what int8 data means, for inputs that are float32
};

// `array` in the type of an input of `model`. `tensor` is the input's id.
NpyArray fit_input(const LoadedModel& model, uint32_t tensor, const std::string& name, NpyArray array,
                   const InputFit& fit, std::vector<std::string>& notes);

}  // namespace nacre::tools
