// Values in other layouts than row-major (engine/base/layout.h).
#pragma once

#include <string>
#include <vector>

#include "engine/base/layout.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Bytes that a value of this type takes in its layout.
uint64_t bytes_as(ElementType type, const Value& value);

// "panels16", "panels16x4" (rows x columns of a group), "transposed", "channels16"; "+tiles" where rows are padded too.
std::string layout_name(Layout layout);

// The bytes of a tensor in this layout, as they are in row-major order.
std::vector<uint8_t> row_major_bytes(const TensorRecord& record, const std::byte* data);

}  // namespace nacre::tools
