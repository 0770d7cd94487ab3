// Summary that a network's file gives of itself, whether or not it can be converted: who wrote it, its inputs and
// outputs, how many of which operators, how many numbers. Nothing in it is computed.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace nacre::tools {

struct NetworkTensor {
  std::string name, type, shape;  // "float32", "[batch, 3, ?]"; "": the file does not say
};

struct NetworkSummary {
  std::string format;    // "ONNX", "TensorFlow Lite", "Keras"
  std::string producer;  // "pytorch 2.15.0"; "": the file does not say
  std::string version;   // of the format: "opset 17, com.microsoft 1"
  std::vector<NetworkTensor> inputs, outputs;
  std::map<std::string, uint64_t> operators;  // by their names in the file, those of graphs and models inside too
  uint64_t parameters = 0;                    // elements of what it stores

  void count(uint64_t elements);  // more parameters; a file may lie about their number
};

// Summarizes the file's bytes. Throws as the importer does for a file that cannot be read at all.
NetworkSummary summarize_network(std::span<const uint8_t> bytes, const std::string& path);

NetworkSummary summarize_onnx(std::span<const uint8_t> bytes, const std::string& path);
NetworkSummary summarize_tflite(std::span<const uint8_t> bytes, const std::string& path);
NetworkSummary summarize_keras(std::span<const uint8_t> bytes, const std::string& path);  // in each of its forms

// Elements of dims; at most 2^62, and 0 where one is negative.
uint64_t declared_elements(std::span<const int64_t> dims);

}  // namespace nacre::tools
