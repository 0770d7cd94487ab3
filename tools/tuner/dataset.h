// A labelled set for training: arrays from files, fitted to the inputs of a program, checked before anything runs.
//
// Accepted are the files of array_files.h. Arrays are matched to inputs by name, then, where that leaves one choice, by
// shape. The first axis counts rows; the rest is the input's shape: exactly in .npy and .npz; in IDX and CSV, which
// cannot say it, the same number of elements in the same order. The type is the input's too, but
//
//   float32 and decimal numbers   are rounded to the input's float type, or coded by the scale of an int8 input
//   cast                          number for number, where none changes
//   scale                         x = scale * number, from any type: 0.00392156862745098 or "1/255" for images of bytes
//
// Labels are an array or column of that file, or a file of their own. Where classes are wanted: whole numbers in
// [0, classes), or one-hot rows; where targets are: numbers of that shape, or classes, which become one-hot rows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/files/array_files.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

struct SampleSpec {  // what an input of a program takes
  std::string name;
  ElementType type = ElementType::kFloat32;
  std::vector<int64_t> dims;          // of one row
  std::optional<Scales> scales = {};  // of an int8 input

  int64_t elements() const;
};

struct LabelSpec {
  SampleSpec sample;
  int64_t classes = 0;                  // > 0: labels are integers in [0, classes)
  std::optional<int64_t> ignored = {};  // a label that counts for nothing
};

struct DataOptions {
  std::string data, labels = {};  // labels: an array or column of `data`, or a file; "": found by its name
  bool cast = false;
  std::optional<double> scale = {};
};

struct Dataset {
  int64_t rows = 0;
  std::vector<NpyArray> inputs;  // [rows, row...], of the input's type
  NpyArray labels;

  std::span<const uint8_t> row(size_t input, int64_t index) const { return row_of(inputs[input], index); }
  std::span<const uint8_t> label(int64_t index) const { return row_of(labels, index); }

 private:
  static std::span<const uint8_t> row_of(const NpyArray& array, int64_t index) {
    const size_t bytes = array.data.size() / size_t(array.dims[0]);
    array.data.passed(bytes);
    return std::span(array.data).subspan(size_t(index) * bytes, bytes);
  }
};

Dataset read_dataset(const std::vector<SampleSpec>& inputs, const LabelSpec& labels, const DataOptions& options,
                     std::vector<std::string>& notes);

// "0.5", "1/255"; finite and not 0.
double parse_scale(const std::string& text, const std::string& place);

}  // namespace nacre::tools
