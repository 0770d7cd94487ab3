// Sizes, names and contents of values in other layouts than row-major (engine/base/layout.h).
#pragma once

#include <string>
#include <vector>

#include "engine/base/layout.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Returns the bytes that the value takes in its layout if its elements have this type.
uint64_t bytes_as(ElementType type, const Value& value);

// Returns a name such as "panels16", "panels16x4" (panels of 16 rows, groups of 4 columns), "transposed" or
// "channels16". "+tiles" means that the number of rows is padded to a multiple of 16.
std::string layout_name(Layout layout);

// Returns the bytes of a tensor in row-major order. `data` holds the tensor in the record's layout.
std::vector<uint8_t> row_major_bytes(const TensorRecord& record, const std::byte* data);

}  // namespace nacre::tools
