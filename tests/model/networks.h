// The trained networks that claims measure. The tool under test converts them from the shared data or the
// repository's sample.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tests/model/builder.h"

namespace nacre::test {

struct Network {
  const char* name;
  const char* file;  // path in the shared data, or in the repository for the sample
  bool sample;
  uint64_t arena_bytes;  // its liveness bound, inputs and outputs included; 0: none stated
};

inline constexpr Network kNetworks[] = {
    {"AD", "models/mlperf_tiny/ad01_int8.tflite", false, 768},
    {"KWS", "models/mlperf_tiny/kws_ref_model.tflite", false, 16000},
    {"IC", "models/mlperf_tiny/pretrainedResnet_quant.tflite", false, 49152},
    {"VWW", "models/mlperf_tiny/vww_96_int8.tflite", false, 55296},
    {"digits", "tools/samples/digits.onnx", true, 0},
};

// Makes a model file by `NACRE_TOOL convert` in a folder of this process. `options` are added to the command line.
// Returns false and the reason if there is no tool or no network, or if the tool refuses.
bool convert(const Network& network, Buffer* model, std::string* why, const std::string& options = "");

bool read_file(const std::string& path, Buffer* file);

}  // namespace nacre::test
