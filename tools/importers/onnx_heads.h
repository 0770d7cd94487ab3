// com.microsoft's operators of attention: onnx_ops_heads.cc. Private to tools/importers.
#pragma once

#include "tools/importers/onnx_importers.h"

namespace nacre::tools::onnx_import {

std::span<const OperatorImporter> microsoft_head_importers();

}  // namespace nacre::tools::onnx_import
