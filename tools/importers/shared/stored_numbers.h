// Finds the numbers that a network's file stores and puts others in their place: it writes back what was learned.
// Every other byte of the file stays as it is, but for the checksums of an archive.
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
  std::string name;                       // of the tensor in the file
  ElementType type = ElementType::kNone;  // float16, bfloat16, float32 or float64
  int64_t elements = 0;
  uint64_t offset = 0;  // where the elements are, little-endian, one behind the other; 0: not so in this file
};

// The tensors of real numbers of a Keras or ONNX file that can be read. Throws where the file is of another format.
std::vector<StoredNumbers> stored_numbers(std::span<const uint8_t> bytes, const std::string& name);

// Elements from `first` on: read as float32, written rounded to the nearest of the tensor's type, half to even.
std::vector<float> read_stored(std::span<const uint8_t> bytes, const StoredNumbers& tensor);
void store(std::span<uint8_t> bytes, const StoredNumbers& tensor, int64_t first, std::span<const float> numbers);
float rounded_to(ElementType type, float number);

// After the last number: the checksums that the file has of itself.
void seal(std::span<uint8_t> bytes, const std::string& name);

// An ONNX file with the data that lie beside it in it, so that there is one file to write; as it is where none do.
std::vector<uint8_t> with_data_inside(std::span<const uint8_t> onnx, const std::string& name);

// The functions above for one format each.
std::vector<StoredNumbers> stored_numbers_of_keras_archive(std::span<const uint8_t> bytes, const std::string& name);
std::vector<StoredNumbers> stored_numbers_of_keras_hdf5(std::span<const uint8_t> bytes, const std::string& name);
std::vector<StoredNumbers> stored_numbers_of_onnx(std::span<const uint8_t> bytes, const std::string& name);
void seal_keras_archive(std::span<uint8_t> bytes, const std::string& name);

}  // namespace nacre::tools
