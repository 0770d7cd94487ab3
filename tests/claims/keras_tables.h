// Data of claim keras_parity: the tables of tests/peers/keras_numbers.py, and the inputs that follow from their
// seeds.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tools/base/print.h"

namespace nacre::tools {

using Bytes = std::vector<uint8_t>;

Json read_table(const std::filesystem::path& path);

// Numbers in [-1, 1) from a splitmix64 stream: the top 24 bits, exact in float32.
class Uniform {
 public:
  explicit Uniform(uint64_t seed) : state_(seed) {}
  float next();
  std::vector<float> tensor(size_t elements, int exponent);  // u 2^exponent

 private:
  uint64_t state_;
};

// A dense layer in Keras's layout: kernel [in, out], bias [out] or empty, x [rows, in].
struct KerasLayer {
  int64_t rows = 0, in = 0, out = 0;
  std::vector<int64_t> x_dims;
  std::vector<float> kernel, bias, x;
};
KerasLayer int8_layer(const Json& record);

std::vector<float> transposed(const std::vector<float>& matrix, int64_t rows, int64_t columns);

Bytes decode_base64(const std::string& text);
std::string crc32c_text(std::span<const std::byte> bytes);  // 8 hexadecimal digits

template <class T>
std::string crc32c_of(const std::vector<T>& values) {
  return crc32c_text(std::as_bytes(std::span(values)));
}

template <class T>
std::vector<T> elements_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace nacre::tools
