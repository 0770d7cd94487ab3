// Summarizes a network's file, whether or not it can be converted: its producer, its inputs and outputs, the count of
// each operator, and the number of stored parameters. The summary only reads and counts; it infers no shapes.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace nacre::tools {

struct NetworkTensor {
  std::string name, type, shape;  // "float32", "[batch, 3, ?]"; "" if the file does not say
};

struct NetworkSummary {
  std::string format;    // "ONNX", "TensorFlow Lite", "Keras"
  std::string producer;  // "pytorch 2.15.0"; "" if the file does not say
  std::string version;   // version of the format: "opset 17, com.microsoft 1"
  std::vector<NetworkTensor> inputs, outputs;
  std::map<std::string, uint64_t> operators;  // by name in the file; inner graphs and models count too
  uint64_t parameters = 0;                    // number of elements that the file stores

  void count(uint64_t elements);  // adds to `parameters`, at most 2^62 in all, because a file may state any size
};

// Summarizes the file's bytes. Throws as the importer does if the file cannot be read at all.
NetworkSummary summarize_network(std::span<const uint8_t> bytes, const std::string& path);

NetworkSummary summarize_onnx(std::span<const uint8_t> bytes, const std::string& path);
NetworkSummary summarize_tflite(std::span<const uint8_t> bytes, const std::string& path);
NetworkSummary summarize_keras(std::span<const uint8_t> bytes, const std::string& path);  // in each of Keras' formats

// Returns the product of dims, at most 2^62. Returns 0 if a dim is negative.
uint64_t declared_elements(std::span<const int64_t> dims);

}  // namespace nacre::tools
