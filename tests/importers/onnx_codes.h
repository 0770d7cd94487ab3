// Builders of ONNX graphs on codes (quantized integers). The quantizers' scales and zero points are stored constants.
#pragma once

#include <string>

#include "tests/importers/onnx_graphs.h"

namespace nacre::tools::onnx_codes {

inline void add_quantizer(OnnxBuilder& b, const std::string& name, float scale, int zero, int type) {
  b.floats(name + "_scale", {}, {scale});
  b.codes(name + "_zero", {}, {zero}, type);
}

struct Codes {
  float scale;
  int zero;
};

// Returns a builder with an input of codes x that stand for 0.5 (code - 128), an output y, and the scale and zero
// point of both.
inline OnnxBuilder on_codes(const Dims& dims, Codes y) {
  OnnxBuilder b;
  use_microsoft_domain(b);
  b.input("x", dims, {}, TensorProto::UINT8);
  add_quantizer(b, "x", 0.5f, 128, TensorProto::UINT8);
  add_quantizer(b, "y", y.scale, y.zero, TensorProto::UINT8);
  b.output("y");
  return b;
}

}  // namespace nacre::tools::onnx_codes
