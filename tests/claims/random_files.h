// Networks as files, drawn at random to lie on and beyond every border of what a model can hold: scales and weights
// that are denormal, huge, zero, infinite or no number; names that are empty, long, twice there, or no text; sizes and
// counts without end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/base/split_mix64.h"

namespace nacre::test {

struct RandomFile {
  std::string text;             // what it is, for reports
  std::vector<uint8_t> bytes;   // ONNX or TFLite
  std::vector<int64_t> sample;  // shape of one row of its float32 input; empty: take no samples
  int64_t classes = 0;          // of its output, where it can be trained; 0: it cannot
};

RandomFile random_float_onnx(tools::SplitMix64& random);      // layers of every kind, extreme weights
RandomFile random_quantized_onnx(tools::SplitMix64& random);  // QDQ, extreme scales per tensor and per axis
// int8 and hybrid, extreme scales, biases with any quantization
RandomFile random_tflite(tools::SplitMix64& random);
RandomFile random_sizes(tools::SplitMix64& random);  // of any rank, dims and number of operands

// Networks beyond one limit each, and what must be said of them.
struct BeyondLimit {
  RandomFile file;
  std::string said;
};
std::vector<BeyondLimit> files_beyond_limits();

}  // namespace nacre::test
