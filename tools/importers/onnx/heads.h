// com.microsoft's operators of attention: ops/heads.cc. Private to tools/importers.
#pragma once

#include "tools/importers/onnx/operators.h"

namespace nacre::tools::onnx_import {

std::span<const OperatorImporter> microsoft_head_importers();

}  // namespace nacre::tools::onnx_import
