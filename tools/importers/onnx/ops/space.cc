// Imports DepthToSpace and SpaceToDepth. They exchange blocks of b x b pixels and groups of b b channels by a
// reshape, a transpose and a reshape. Pixel (i, j) of a block of the map [n, h b, w b, K], at its channel k, stands in
// [n, h, w, K b b] at
//
//   DCR   channel (i b + j) K + k       CRD   channel k b b + i b + j
#include <algorithm>

#include "tools/importers/onnx/import.h"

namespace nacre::tools::onnx_import {
namespace {

struct SpaceBlocks {
  int64_t n, h, w, c, b;
};

SpaceBlocks read_space(Import& import, const Source& source, const OperandPtr& x) {
  const int64_t b = source.integer("blocksize", 0);
  if (x->rank() != 4) source.malformed("its input has not 4 axes");
  if (std::count(x->dims.begin(), x->dims.end(), 0) > 0) source.refuse("its input is empty: it has no elements");
  if (b < 1 || b > 1 << 14) source.malformed("its blocksize is out of range");
  const std::vector<int64_t> d = import.value(import.channels_last(x)).dims;
  return {.n = d[0], .h = d[1], .w = d[2], .c = d[3], .b = b};
}

bool is_dcr(const Source& source) {
  const std::string mode = source.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") source.malformed("mode '" + mode + "' is unknown");
  return mode == "DCR";
}

void depth_to_space(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  const auto [n, h, w, c, b] = read_space(import, source, x);
  const std::string& name = import.output_name();
  const bool blocks_first = is_dcr(source);
  if (c % (b * b) != 0) source.malformed("its channels are no multiple of its block");
  const int64_t k = c / (b * b);
  ValueId y = import.channels_last(x);
  y = blocks_first ? import.reshaped(y, {n, h, w, b, b, k}, name + "/blocks")
                   : import.reshaped(y, {n, h, w, k, b, b}, name + "/blocks");
  y = import.transposed(y, blocks_first ? std::vector<int>{0, 1, 3, 2, 4, 5} : std::vector<int>{0, 1, 4, 2, 5, 3},
                        name + "/space");
  import.give_channels_last(0, import.reshaped(y, {n, h * b, w * b, k}, name));
}

void space_to_depth(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  const auto [n, h, w, c, b] = read_space(import, source, x);
  const std::string& name = import.output_name();
  if (h % b != 0 || w % b != 0) source.malformed("its input is no multiple of its block");
  ValueId y = import.reshaped(import.channels_last(x), {n, h / b, b, w / b, b, c}, name + "/blocks");
  y = import.transposed(y, is_dcr(source) ? std::vector<int>{0, 1, 3, 2, 4, 5} : std::vector<int>{0, 1, 3, 5, 2, 4},
                        name + "/depth");
  import.give_channels_last(0, import.reshaped(y, {n, h / b, w / b, b * b * c}, name));
}

constexpr OperatorImporter kSpaceImporters[] = {{"DepthToSpace", depth_to_space}, {"SpaceToDepth", space_to_depth}};

}  // namespace

std::span<const OperatorImporter> space_importers() { return kSpaceImporters; }

}  // namespace nacre::tools::onnx_import
