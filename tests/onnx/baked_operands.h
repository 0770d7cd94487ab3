// Tells which inputs of a test are constants of a network: those that are read only as weights, shapes or axes, and
// those whose type no step computes with.
#pragma once

#include <string>

#include <onnx/onnx_pb.h>

namespace nacre::tools {

bool is_baked(const ::onnx::GraphProto& graph, const std::string& input);

}  // namespace nacre::tools
