// Reads a labelled data set for training: arrays from files, fitted to the inputs of a program, checked before
// anything runs.
//
// array_files.h lists the formats. Arrays are matched to inputs by name, then, if that leaves one choice, by shape.
// The first axis counts rows. In .npy and .npz the other axes must be exactly the input's shape. IDX and CSV cannot
// state the shape: they need as many elements, in the same order. If the network has its rows on another axis, an
// array in the network's layout, [time, rows, width], is accepted too, and a note says so. The type must be the
// input's, except:
//
//   float32 and decimal numbers   are rounded to the input's float type, or quantized by an int8 or int16 input's scale
//   cast                          converts number for number, if no number changes
//   scale                         x = scale * number, from any type: 0.00392156862745098 or "1/255" for bytes of images
//
// Labels are an array or column of that file, a file of their own, or an input of the network. A loss over classes
// takes whole numbers in [0, classes), or one-hot rows. A loss over targets takes numbers of the targets' shape, or
// classes, which become one-hot rows.
#pragma once

#include <cstdint>
#include <cstring>
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
  std::optional<Scales> scales = {};  // for an input of codes, such as int8
  // For a network of a fixed batch: the dims of its tensor, and where its rows lie in the tensor
  // (tools/graph/row_places.h). Empty: the rows lie one after another, along axis 0.
  std::vector<int64_t> whole = {};
  int64_t outer = 1, count = 1;

  int64_t elements() const;
};

struct LabelSpec {
  SampleSpec sample;
  int64_t classes = 0;                  // > 0: labels are integers in [0, classes)
  std::optional<int64_t> ignored = {};  // a label that the loss leaves out
};

// Moves the rows of `array` to axis 0, if they lie as in the network's own tensor. `more`: the array may have one
// more axis at its end (one-hot labels).
void put_rows_first(const SampleSpec& spec, NpyArray& array, std::vector<std::string>& notes, bool more = false);

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

// Writes row n of a tensor of `count` rows. In a Dataset a row is contiguous; in the tensor it lies in `outer` parts.
inline void put_row(std::span<std::byte> tensor, std::span<const uint8_t> row, int64_t outer, size_t n, size_t count) {
  const size_t part = row.size() / size_t(outer);
  for (size_t o = 0; o < size_t(outer); ++o)
    std::memcpy(tensor.data() + (o * count + n) * part, row.data() + o * part, part);
}

// Returns the rows of a Dataset's array, as far as they fill whole inputs of these dims, as [samples, dims...].
NpyArray as_samples(const SampleSpec& spec, const NpyArray& rows, const std::vector<int64_t>& dims);

Dataset read_dataset(const std::vector<SampleSpec>& inputs, const LabelSpec& labels, const DataOptions& options,
                     std::vector<std::string>& notes);

// Reads "0.5" or "1/255". Throws unless the number is normal in float32: neither 0 nor subnormal, and finite.
double parse_scale(const std::string& text, const std::string& place);

}  // namespace nacre::tools
