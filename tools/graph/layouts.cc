#include "tools/graph/layouts.h"

#include <cstring>

namespace nacre::tools {

uint64_t bytes_as(ElementType type, const Value& value) {
  if (value.layout == Layout::kRowMajor) return storage_bytes(type, uint64_t(value.elements()));
  int32_t dims[kMaxRank] = {};
  for (size_t i = 0; i < value.dims.size(); ++i) dims[i] = int32_t(value.dims[i]);
  return storage_bytes(type, stored_elements(value.layout, {int(value.dims.size()), dims, 0}));
}

std::string layout_name(Layout layout) {
  const auto bits = uint8_t(layout);
  const unsigned panel = bits & 7, group = bits >> kGroupShift & 7;
  std::string name = of_channels(layout) ? "channels" : panel == kAllRows ? "transposed" : "panels";
  if (of_channels(layout) && panel == kAllRows) name += "_all";
  if (panel != kAllRows) name += std::to_string(1u << panel);
  if (group != 0) name += "x" + std::to_string(1u << group);
  if ((bits & kWholeTiles) != 0) name += "+tiles";
  return name;
}

std::vector<uint8_t> row_major_bytes(const TensorRecord& record, const std::byte* data) {
  const auto* stored = reinterpret_cast<const uint8_t*>(data);
  if (record.layout == Layout::kRowMajor) return {stored, stored + record.bytes};
  const Shape shape = {record.rank, record.dims, 0};
  const size_t unit = element_bits(record.element) / 8;
  std::vector<uint8_t> bytes(size_t(shape.elements()) * unit);
  stored_matrices(record.layout, shape).each(of_channels(record.layout), [&](size_t index, size_t position) {
    std::memcpy(bytes.data() + index * unit, stored + position * unit, unit);
  });
  return bytes;
}

}  // namespace nacre::tools
