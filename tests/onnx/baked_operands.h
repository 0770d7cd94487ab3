// Which inputs of a test are constants of a network: what is read as weights, shapes or axes only, and what has a type
// that no step computes with.
#pragma once

#include <string>

#include <onnx/onnx_pb.h>

namespace nacre::tools {

bool is_baked(const ::onnx::GraphProto& graph, const std::string& input);

}  // namespace nacre::tools
