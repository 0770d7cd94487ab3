// Converts DEPTH_TO_SPACE, SPACE_TO_DEPTH, SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND. They move blocks of pixels into
// channels or rows of the batch, or back. Each is a reshape, a transpose and a reshape. SPACE_TO_BATCH_ND pads before,
// and BATCH_TO_SPACE_ND crops after.
//
//   [n, h, w, c] as [n, h / b, b, w / b, b, c], block b   to [n, h / b, w / b, b, b, c] or [b, b, n, h / b, w / b, c]
#include <algorithm>

#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {
namespace {

using SpaceDims = std::vector<int64_t>;

ValueId in_blocks(Importer& importer, Operation& op, ValueId x, const SpaceDims& dims) {
  const ValueId y = importer.between(x, "/blocks");
  importer.emit_reshape(op, x, dims, y);
  return y;
}

ValueId moved_blocks(Importer& importer, Operation& op, ValueId x, const std::vector<int>& perm) {
  const ValueId y = importer.between(x, "/moved");
  Node node{.op = Op::kTranspose, .name = "", .words = {}, .inputs = {x}, .outputs = {y}};
  for (size_t i = 0; i < perm.size(); ++i) set_integer(node, "perm", perm[i], int(i));
  importer.emit(op, std::move(node));
  return y;
}

// Returns the dims of the input. Throws unless it has four axes and the block is in [1, 2^14].
SpaceDims image_dims(Importer& importer, const Operation& op, int64_t block) {
  const SpaceDims dims = importer.value(importer.real_input(op, 0)).dims;
  if (dims.size() != 4) importer.bad(op, "its input has " + std::to_string(dims.size()) + " axes, not 4");
  if (block < 1 || block > 1 << 14) importer.bad(op, "a block of " + std::to_string(block));
  return dims;
}

void convert_depth_to_space(Importer& importer, Operation& op) {
  const int64_t b = importer.options<DepthToSpaceOptions>(op).block_size();
  const SpaceDims d = image_dims(importer, op, b);
  if (d[3] % (b * b) != 0) importer.bad(op, "its channels are no multiple of its block");
  const int64_t c = d[3] / (b * b);
  ValueId y = in_blocks(importer, op, importer.real_input(op, 0), {d[0], d[1], d[2], b, b, c});
  y = moved_blocks(importer, op, y, {0, 1, 3, 2, 4, 5});
  importer.emit_reshape(op, y, {d[0], d[1] * b, d[2] * b, c}, importer.output(op));
}

void convert_space_to_depth(Importer& importer, Operation& op) {
  const int64_t b = importer.options<SpaceToDepthOptions>(op).block_size();
  const SpaceDims d = image_dims(importer, op, b);
  if (d[1] % b != 0 || d[2] % b != 0) importer.bad(op, "its input is no multiple of its block");
  ValueId y = in_blocks(importer, op, importer.real_input(op, 0), {d[0], d[1] / b, b, d[2] / b, b, d[3]});
  y = moved_blocks(importer, op, y, {0, 1, 3, 2, 4, 5});
  importer.emit_reshape(op, y, {d[0], d[1] / b, d[2] / b, b * b * d[3]}, importer.output(op));
}

// Operands for x [n, m spatial axes, c], m = 1 or 2. `before` and `after` are padded or cropped at each spatial axis.
struct SpaceBlocks {
  SpaceDims dims, block, before, after;
  int64_t count = 1;  // pixels in a block
};

SpaceBlocks read_blocks(Importer& importer, const Operation& op) {
  const SpaceDims dims = importer.value(importer.real_input(op, 0)).dims, ends = importer.integers(op, 2);
  SpaceBlocks blocks{.dims = dims, .block = importer.integers(op, 1), .before = {}, .after = {}};
  const size_t m = blocks.block.size();
  if (m < 1 || m > 2) importer.unsupported(op, "blocks of " + std::to_string(m) + " axes");
  if (dims.size() != m + 2 || ends.size() != 2 * m) importer.bad(op, "its block does not fit its input");
  for (size_t i = 0; i < m; ++i) {
    const int64_t b = blocks.block[i];
    if (b < 1 || b > 1 << 14) importer.bad(op, "a block of " + std::to_string(b));
    if (ends[2 * i] < 0 || ends[2 * i + 1] < 0) importer.bad(op, "a negative size at its ends");
    blocks.before.push_back(importer.integer(op, ends[2 * i], "a size at its ends"));
    blocks.after.push_back(importer.integer(op, ends[2 * i + 1], "a size at its ends"));
    blocks.count *= b;
  }
  return blocks;
}

void convert_space_to_batch(Importer& importer, Operation& op) {
  const SpaceBlocks blocks = read_blocks(importer, op);
  const size_t m = blocks.block.size();
  ValueId x = importer.real_input(op, 0);
  Node pad{.op = Op::kPad, .name = "", .words = {}, .inputs = {x}, .outputs = {}};
  bool pads = false;
  for (size_t i = 0; i < m; ++i) {
    set_integer(pad, "before", int(blocks.before[i]), int(i) + 1);
    set_integer(pad, "after", int(blocks.after[i]), int(i) + 1);
    pads = pads || blocks.before[i] + blocks.after[i] > 0;
  }
  if (pads) {
    pad.outputs = {importer.between(x, "/padded")};
    x = pad.outputs[0];
    importer.emit(op, std::move(pad));
  }
  const SpaceDims d = importer.value(x).dims;
  SpaceDims split = {d[0]}, joined = {d[0] * blocks.count};
  for (size_t i = 0; i < m; ++i) {
    if (d[i + 1] % blocks.block[i] != 0) importer.bad(op, "its padded input is no multiple of its block");
    split.insert(split.end(), {d[i + 1] / blocks.block[i], blocks.block[i]});
    joined.push_back(d[i + 1] / blocks.block[i]);
  }
  split.push_back(d.back());
  joined.push_back(d.back());
  const std::vector<int> perm = m == 1 ? std::vector<int>{2, 0, 1, 3} : std::vector<int>{2, 4, 0, 1, 3, 5};
  const ValueId y = moved_blocks(importer, op, in_blocks(importer, op, x, split), perm);
  importer.emit_reshape(op, y, joined, importer.output(op));
}

void convert_batch_to_space(Importer& importer, Operation& op) {
  const SpaceBlocks blocks = read_blocks(importer, op);
  const SpaceDims& d = blocks.dims;
  const size_t m = blocks.block.size();
  if (d[0] % blocks.count != 0) importer.bad(op, "its batch is no multiple of its block");
  const int64_t n = d[0] / blocks.count;
  SpaceDims split = blocks.block, joined = {n};
  split.insert(split.end(), {n});
  split.insert(split.end(), d.begin() + 1, d.end());
  for (size_t i = 0; i < m; ++i) joined.push_back(d[i + 1] * blocks.block[i]);
  joined.push_back(d.back());
  const std::vector<int> perm = m == 1 ? std::vector<int>{1, 2, 0, 3} : std::vector<int>{2, 3, 0, 4, 1, 5};
  ValueId y = moved_blocks(importer, op, in_blocks(importer, op, importer.real_input(op, 0), split), perm);
  Node crop{.op = Op::kSlice, .name = "", .words = {}, .inputs = {}, .outputs = {importer.output(op)}};
  for (size_t i = 0; i < joined.size(); ++i) {
    const bool space = i > 0 && i <= m;
    const int64_t before = space ? blocks.before[i - 1] : 0, after = space ? blocks.after[i - 1] : 0;
    if (before + after >= joined[i]) importer.bad(op, "crops all of an axis");
    set_integer(crop, "begin", int(before), int(i));
    set_integer(crop, "size", int(joined[i] - before - after), int(i));
    set_integer(crop, "step", 1, int(i));
  }
  crop.inputs = {in_blocks(importer, op, y, joined)};
  importer.emit(op, std::move(crop));
}

}  // namespace

std::span<const Converter> space_converters() {
  static constexpr Converter kRows[] = {
      {BuiltinOperator::DEPTH_TO_SPACE, &convert_depth_to_space},
      {BuiltinOperator::SPACE_TO_DEPTH, &convert_space_to_depth},
      {BuiltinOperator::SPACE_TO_BATCH_ND, &convert_space_to_batch},
      {BuiltinOperator::BATCH_TO_SPACE_ND, &convert_batch_to_space},
  };
  return kRows;
}

}  // namespace nacre::tools::tflite
