// Random networks as files, on and beyond the borders of what a model can hold. Scales and weights may be denormal,
// huge, zero, infinite or NaN. Names may be empty, long, duplicate or no text. Sizes and counts may be endless.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/base/split_mix64.h"

namespace nacre::test {

struct RandomFile {
  std::string text;             // describes the file, for reports
  std::vector<uint8_t> bytes;   // ONNX or TFLite
  std::vector<int64_t> sample;  // shape of one row of its float32 input; empty: no samples
  int64_t classes = 0;          // classes of its output; 0: it cannot be trained
};

RandomFile random_float_onnx(tools::SplitMix64& random);      // layers of many kinds, extreme weights
RandomFile random_quantized_onnx(tools::SplitMix64& random);  // QDQ, extreme scales per tensor and per axis
// Has int8 and hybrid layers, extreme scales, and biases with any quantization.
RandomFile random_tflite(tools::SplitMix64& random);
RandomFile random_sizes(tools::SplitMix64& random);  // any rank, dims and number of operands

// Makes networks that are beyond one limit each, with the words that must be said about them.
struct BeyondLimit {
  RandomFile file;
  std::string said;
};
std::vector<BeyondLimit> files_beyond_limits();

}  // namespace nacre::test
