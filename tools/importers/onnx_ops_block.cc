// Weights with one scale per block: decoded at import, for the graph's quantizers are per tensor or per channel.
//
//   DequantizeLinear, block_size B (opset 21):   y = (x - z_j) s_j,   j = i / B along `axis`
//   com.microsoft.MatMulNBits:                   y = x w^T, w [N, K] of 2, 4 or 8 bits in blocks of B along K
//
// onnx/defs/quantization, and onnxruntime docs/ContribOperators.md.
#include <algorithm>
#include <cmath>

#include "tools/importers/onnx.h"
#include "tools/importers/onnx_fold.h"
#include "tools/importers/onnx_tensor.h"

namespace nacre::tools::onnx_import {
namespace {

void check_scales(const Source& source, const std::vector<float>& scales) {
  for (const float s : scales)
    if (!std::isfinite(s)) source.malformed("a scale is not finite");
}

struct Blocks {  // of one row of w
  int64_t columns, block, count, bits;
  int64_t code_bytes() const { return count * block * bits / 8; }
  int64_t zero_bytes() const { return (count * bits + 7) / 8; }
};

Blocks read_blocks(const Source& source) {
  const int64_t columns = source.integer("K", 0), block = source.integer("block_size", 0);
  const int64_t bits = source.integer("bits", 4);
  constexpr int64_t kMost = int64_t{1} << 30;
  if (columns < 1 || columns > kMost || block < 16 || block > kMost || (block & (block - 1)) != 0)
    source.malformed("K or block_size is out of range");
  if (bits != 2 && bits != 4 && bits != 8) source.refuse("has weights of " + std::to_string(bits) + " bits");
  return {columns, block, (columns + block - 1) / block, bits};
}

int64_t code_at(const std::vector<uint8_t>& bytes, int64_t row_bytes, int64_t row, int64_t i, int64_t bits) {
  const int64_t bit = i * bits;
  return bytes[size_t(row * row_bytes + bit / 8)] >> (bit % 8) & ((1 << bits) - 1);
}

// Zero points per block: 2^(bits - 1) if omitted, reals, or codes packed as the weights are.
std::vector<float> read_zeros(const Source& source, const Blocks& blocks, int64_t rows) {
  std::vector<float> zeros(size_t(rows * blocks.count), float(1 << (blocks.bits - 1)));
  if (!source.given(3)) return zeros;
  const Value& stored = source.constant(3, "its zero points");
  if (stored.stored != ElementType::kUint8) {
    if (stored.elements() != int64_t(zeros.size())) source.malformed("has not one zero point per block");
    return reals(stored);
  }
  if (stored.elements() != rows * blocks.zero_bytes()) source.malformed("has not one zero point per block");
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t j = 0; j < blocks.count; ++j)
      zeros[size_t(n * blocks.count + j)] = float(code_at(*stored.data, blocks.zero_bytes(), n, j, blocks.bits));
  return zeros;
}

// w^T as float32 [K, N].
Value decoded_columns(Import& import, const Source& source, const Blocks& blocks, int64_t rows) {
  const Value &codes = source.constant(1, "its weights"), &scale = source.constant(2, "its scales");
  const std::vector<float> scales = reals(scale);
  import.spend(uint64_t(checked_elements(source.place, {rows, blocks.count, blocks.block})) * 4);
  if (codes.stored != ElementType::kUint8 || codes.elements() != rows * blocks.code_bytes() ||
      int64_t(scales.size()) != rows * blocks.count)
    source.malformed("its weights and scales do not fit N, K, bits and block_size");
  check_scales(source, scales);
  const std::vector<float> zeros = read_zeros(source, blocks, rows);
  std::vector<float> w(size_t(blocks.columns * rows));
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t k = 0; k < blocks.columns; ++k) {
      const auto j = size_t(n * blocks.count + k / blocks.block);
      const int64_t code = code_at(*codes.data, blocks.code_bytes(), n, k, blocks.bits);
      w[size_t(k * rows + n)] = (float(code) - zeros[j]) * scales[j];
    }
  return make_constant(source.operand(1)->name, ElementType::kFloat32, {blocks.columns, rows}, w);
}

void matmul_n_bits(Import& import, const Source& source) {
  if (source.given(4)) source.refuse("its columns are in another order (g_idx)");
  const int64_t rows = source.integer("N", 0);
  if (rows < 1 || rows > (int64_t{1} << 30)) source.malformed("N is out of range");
  const Blocks blocks = read_blocks(source);
  const Value w = decoded_columns(import, source, blocks, rows);
  import.log("weights of " + std::to_string(blocks.bits) + " bits with one scale per " + std::to_string(blocks.block) +
             " columns are decoded to float32");
  Body body(source);
  const std::string y = body.fresh(import.output_name()), product = source.given(5) ? body.fresh(y + "/product") : y;
  body.node("MatMul", {body.take(source.operand(0)), body.take(constant_operand(w))}, product);
  if (source.given(5)) body.node("Add", {product, body.take(source.operand(5))}, y);
  body.give(y);
  import.expand(source, body);
}

constexpr OperatorImporter kBlockImporters[] = {{"MatMulNBits", matmul_n_bits}};

}  // namespace

void dequantize_blocks(Import& import, const Source& source, const Value& codes, int64_t block) {
  const Value& scale = source.constant(1, "its scales");
  const std::vector<float> scales = reals(scale);
  check_scales(source, scales);
  const int axis = source.axis(source.integer("axis", 1), int(codes.dims.size()));
  std::vector<int64_t> dims = codes.dims;
  if (block < 1 || block > (int64_t{1} << 30)) source.malformed("block_size is out of range");
  dims[size_t(axis)] = (dims[size_t(axis)] + block - 1) / block;
  if (scale.dims != dims) source.malformed("has not one scale per block");
  std::vector<float> zeros(scales.size(), 0);
  if (source.given(2)) {
    const Value& zero = source.constant(2, "its zero points");
    if (zero.dims != dims) source.malformed("has not one zero point per block");
    zeros = reals(zero);
  }
  int64_t inner = 1;
  for (size_t i = size_t(axis) + 1; i < codes.dims.size(); ++i) inner *= codes.dims[i];
  const int64_t size = codes.dims[size_t(axis)], count = dims[size_t(axis)];
  import.spend(uint64_t(codes.elements()) * 4);
  std::vector<float> numbers = reals(codes);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int64_t at = int64_t(i), outer = at / inner / size;
    const auto j = size_t((outer * count + at / inner % size / block) * inner + at % inner);
    numbers[i] = (numbers[i] - zeros[j]) * scales[j];
  }
  import.log("codes with one scale per " + std::to_string(block) + " elements are decoded to float32");
  import.give_constant(0, make_constant(codes.name, ElementType::kFloat32, codes.dims, numbers));
}

std::span<const OperatorImporter> microsoft_block_importers() { return kBlockImporters; }

}  // namespace nacre::tools::onnx_import
