// Finds the numbers that a network's file stores and overwrites them, so that learned numbers go back into the file.
// store() changes only these bytes, and seal() only the checksums of a Keras archive.
//
//   std::vector<uint8_t> bytes = read_network(path);
//   for (const StoredNumbers& tensor : stored_numbers(bytes, path)) store(bytes, tensor, 0, numbers);
//   seal(bytes, path);
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/base/tensor.h"

namespace nacre::tools {

struct StoredNumbers {
  std::string name;                       // name of the tensor in the file
  ElementType type = ElementType::kNone;  // float16, bfloat16, float32 or float64
  int64_t elements = 0;
  uint64_t offset = 0;  // where the elements begin, little-endian and contiguous; 0 if they are stored otherwise
};

// Returns the tensors of real numbers that can be read in a Keras or ONNX file. Throws if the file has another
// format, or if it is a Keras configuration.
std::vector<StoredNumbers> stored_numbers(std::span<const uint8_t> bytes, const std::string& name);

// read_stored reads all elements as float32. store writes elements from `first` on, rounded to the tensor's type.
// rounded_to returns the number that store would write: the nearest one of the type, half to even.
std::vector<float> read_stored(std::span<const uint8_t> bytes, const StoredNumbers& tensor);
void store(std::span<uint8_t> bytes, const StoredNumbers& tensor, int64_t first, std::span<const float> numbers);
float rounded_to(ElementType type, float number);

// Renews the checksums of a Keras archive, and leaves other files as they are. Call it after the last store().
void seal(std::span<uint8_t> bytes, const std::string& name);

// Returns an ONNX file with its external data inside, so that one file is written. A file without external data stays
// as it is.
std::vector<uint8_t> with_data_inside(std::span<const uint8_t> onnx, const std::string& name);

// These functions do the work of stored_numbers and seal for one format each.
std::vector<StoredNumbers> stored_numbers_of_keras_archive(std::span<const uint8_t> bytes, const std::string& name);
std::vector<StoredNumbers> stored_numbers_of_keras_hdf5(std::span<const uint8_t> bytes, const std::string& name);
std::vector<StoredNumbers> stored_numbers_of_onnx(std::span<const uint8_t> bytes, const std::string& name);
void seal_keras_archive(std::span<uint8_t> bytes, const std::string& name);

}  // namespace nacre::tools
