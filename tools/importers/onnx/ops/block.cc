// Imports weights with one scale per block. They are decoded at import, because the graph's quantizers are per tensor
// or per channel. A dense layer that computes in float32 and is not trained also keeps codes of 4 bits if their blocks
// lie along its inputs. Its policy is int4/B.
//
//   DequantizeLinear, block_size B (opset 21):   y = (x - z_j) s_j,   j = i / B along `axis`
//   com.microsoft.MatMulNBits:                   y = x w^T, w [N, K] of 2, 4 or 8 bits in blocks of B along K
//   com.microsoft.GatherBlockQuantized:          y = rows of (w - z_j) s_j, w of 4 or 8 bits
//
// See onnx/defs/quantization, and onnxruntime docs/ContribOperators.md.
#include <algorithm>
#include <cmath>

#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/import.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

void check_scales(const Source& source, const std::vector<float>& scales) {
  for (const float s : scales)
    if (!std::isfinite(s)) source.malformed("a scale is not finite");
}

struct Blocks {  // the blocks of one row of w
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

// Returns one zero point per block. Omitted zero points are 2^(bits - 1). The file stores them as reals, or as codes
// packed as the weights are.
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

bool are_codes(const std::vector<float>& numbers) {
  return std::ranges::all_of(numbers, [](float x) { return x >= -8 && x <= 7 && x == std::nearbyint(x); });
}

// Codes with a scale and a zero point per block of `block` along `axis`. They stand for (x - z_j) s_j.
struct BlockCodes {
  std::vector<int64_t> dims;
  std::vector<float> codes;
  int axis;
  int64_t block;
  std::vector<float> scales, zeros;

  int64_t count() const { return (dims[size_t(axis)] + block - 1) / block; }

  std::vector<float> decoded() const {
    int64_t inner = 1;
    for (size_t i = size_t(axis) + 1; i < dims.size(); ++i) inner *= dims[i];
    const int64_t size = dims[size_t(axis)];
    std::vector<float> numbers(codes.size());
    for (size_t i = 0; i < numbers.size(); ++i) {
      const int64_t at = int64_t(i), outer = at / inner / size;
      const auto j = size_t((outer * count() + at / inner % size / block) * inner + at % inner);
      numbers[i] = (codes[i] - zeros[j]) * scales[j];
    }
    return numbers;
  }

  // Returns the decoded operand. It also keeps codes and zero points of a matrix if, less `middle`, all of them are
  // integers from -8 to 7.
  OperandPtr operand(const std::string& name, float middle) const {
    const OperandPtr made = constant_operand(make_constant(name, ElementType::kFloat32, dims, decoded()));
    std::vector<float> shifted = codes, zero = zeros;
    for (float& x : shifted) x -= middle;
    for (float& x : zero) x -= middle;
    if (dims.size() != 2 || !are_codes(shifted) || !are_codes(zero)) return made;
    Operand::Blocks of = {axis, block, {shifted.begin(), shifted.end()}, {zero.begin(), zero.end()}, scales};
    made->blocks = std::make_shared<const Operand::Blocks>(std::move(of));
    return made;
  }
};

// Reads the weights of MatMulNBits, stored by rows, as [K, N]. `rows` is N.
BlockCodes read_columns(Import& import, const Source& source, const Blocks& blocks, int64_t rows) {
  const Value &codes = source.constant(1, "its weights"), &scale = source.constant(2, "its scales");
  const std::vector<float> scales = reals(scale);
  import.spend(uint64_t(checked_elements(source.place, {rows, blocks.count, blocks.block})) * 8);
  if (codes.stored != ElementType::kUint8 || codes.elements() != rows * blocks.code_bytes() ||
      int64_t(scales.size()) != rows * blocks.count)
    source.malformed("its weights and scales do not fit N, K, bits and block_size");
  check_scales(source, scales);
  const std::vector<float> zeros = read_zeros(source, blocks, rows);
  BlockCodes w = {{blocks.columns, rows}, {}, 0, blocks.block, {}, {}};
  for (int64_t k = 0; k < blocks.columns; ++k)
    for (int64_t n = 0; n < rows; ++n)
      w.codes.push_back(float(code_at(*codes.data, blocks.code_bytes(), n, k, blocks.bits)));
  for (int64_t j = 0; j < blocks.count; ++j)
    for (int64_t n = 0; n < rows; ++n) {
      w.scales.push_back(scales[size_t(n * blocks.count + j)]);
      w.zeros.push_back(zeros[size_t(n * blocks.count + j)]);
    }
  return w;
}

void say_decoded(Import& import, int64_t bits, int64_t block) {
  import.log().add("weights of " + std::to_string(bits) + " bits with one scale per " + std::to_string(block) +
                   " are decoded to float32");
}

void matmul_n_bits(Import& import, const Source& source) {
  if (source.given(4)) source.refuse("its columns are in another order (g_idx)");
  const int64_t rows = source.integer("N", 0);
  if (rows < 1 || rows > (int64_t{1} << 30)) source.malformed("N is out of range");
  const Blocks blocks = read_blocks(source);
  const OperandPtr w =
      read_columns(import, source, blocks, rows).operand(source.operand(1)->name, float(1 << (blocks.bits - 1)));
  if (blocks.bits != 4) w->blocks = nullptr;
  say_decoded(import, blocks.bits, blocks.block);
  Body body(source);
  const std::string y = body.fresh(import.output_name()), product = source.given(5) ? body.fresh(y + "/product") : y;
  body.node("MatMul", {body.take(source.operand(0)), body.take(w)}, product);
  if (source.given(5)) body.node("Add", {product, body.take(source.operand(5))}, y);
  body.give(y);
  import.expand(source, body);
}

// Reads codes of GatherBlockQuantized: int4 and uint4 tensors, bytes of 8-bit codes, or bytes that pack two 4-bit codes
// along the last axis, low bits first.
std::vector<float> read_packed(const Source& source, int input, int64_t bits, std::vector<int64_t>& dims) {
  const Value& stored = source.constant(input, input == 0 ? "its table" : "its zero points");
  dims = stored.dims;
  if (stored.stored != ElementType::kUint8 || bits == 8) return reals(stored);
  std::vector<float> codes;
  for (const uint8_t byte : *stored.data) codes.push_back(float(byte & 15)), codes.push_back(float(byte >> 4));
  if (!dims.empty()) dims.back() *= 2;
  return codes;
}

// Returns one zero point per block of `dims`. Packed in bytes, a row of odd size ends with half a byte that is
// skipped.
std::vector<float> zeros_of_table(const Source& source, int64_t bits, const std::vector<int64_t>& dims,
                                  float otherwise) {
  const auto count = size_t(checked_elements(source.place, dims));
  if (!source.given(3)) return std::vector<float>(count, otherwise);
  std::vector<int64_t> given;
  const std::vector<float> codes = read_packed(source, 3, bits, given);
  const int64_t row = dims.back(), stride = given.empty() ? 0 : given.back();
  if (stride != row && stride != row + row % 2) source.malformed("has not one zero point per block");
  std::vector<float> zeros;
  for (size_t i = 0; i < codes.size(); ++i)
    if (int64_t(i) % stride < row) zeros.push_back(codes[i]);
  if (zeros.size() != count) source.malformed("has not one zero point per block");
  return zeros;
}

void gather_blocks(Import& import, const Source& source) {
  const int64_t bits = source.integer("bits", 4), block = source.integer("block_size", 128);
  const ElementType type = source.operand(0)->type;
  if (bits != 4 && bits != 8) source.refuse("has a table of " + std::to_string(bits) + " bits");
  if (type != ElementType::kUint8 && type != ElementType::kInt4 && type != ElementType::kUint4)
    source.malformed("its table is of another type than uint8, int4 and uint4");
  if (block < 16 || block > (int64_t{1} << 30)) source.malformed("block_size is out of range");
  spend_elements(import, source.constant(0, "its table"));
  import.spend(uint64_t(source.constant(0, "its table").elements()) * 16);
  BlockCodes w = {{}, {}, 0, block, reals(source.constant(2, "its scales")), {}};
  w.codes = read_packed(source, 0, bits, w.dims);
  if (w.dims.empty() || w.codes.empty()) source.malformed("its table has no axes");
  w.axis = source.axis(source.integer("quantize_axis", 1), int(w.dims.size()));
  std::vector<int64_t> of_blocks = w.dims;
  of_blocks[size_t(w.axis)] = w.count();
  if (source.constant(2, "its scales").dims != of_blocks) source.malformed("has not one scale per block");
  check_scales(source, w.scales);
  const float middle = type == ElementType::kUint8 ? float(1 << (bits - 1)) : 0;
  w.zeros = zeros_of_table(source, bits, of_blocks, middle);
  say_decoded(import, bits, block);
  Body body(source);
  const std::string y = body.fresh(import.output_name());
  const OperandPtr table = w.operand(source.operand(0)->name, middle);
  set_attribute(body.node("Gather", {body.take(table), body.take(source.operand(1))}, y), "axis",
                source.integer("gather_axis", 0));
  body.give(y);
  import.expand(source, body);
}

constexpr OperatorImporter kBlockImporters[] = {{"MatMulNBits", matmul_n_bits, kMicrosoft},
                                                {"GatherBlockQuantized", gather_blocks, kMicrosoft}};

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
  import.spend(uint64_t(codes.elements()) * 12);
  const ElementType stored = source.operand(0)->type;
  const BlockCodes blocks = {codes.dims, reals(codes), axis, block, scales, zeros};
  const OperandPtr made = blocks.operand(codes.name, stored == ElementType::kUint4 ? 8.0f : 0.0f);
  import.log().add("codes with one scale per " + std::to_string(block) + " elements are decoded to float32");
  import.give_constant(0, *made->constant);
  const bool four_bits = stored == ElementType::kInt4 || stored == ElementType::kUint4;
  if (four_bits && source.wants(0)) import.find(import.output_name())->blocks = made->blocks;
}

void keep_blocks(Import& import, const Node& node, const Operand& x, bool transposed) {
  const Operand::Blocks& of = *x.blocks;
  Value& w = import.value(node.inputs[1]);
  const int in_axis = transposed ? 1 : 0;
  if (import.options().train || import.current().source->kept() != ElementType::kNone || !w.constant() ||
      of.axis != in_axis || x.dims.size() != 2)
    return;
  const int64_t out = w.dims[0], terms = w.dims[1], count = (terms + of.block - 1) / of.block;
  const auto place = [&](int64_t row, int64_t column, int64_t columns) {
    return size_t(transposed ? row * columns + column : column * out + row);
  };
  auto made = std::make_shared<SourceCodes>();
  made->quantization = Quantization::kInt4Weights;
  made->block = of.block;
  for (int64_t k = 0; k < out; ++k) {
    for (int64_t i = 0; i < terms; ++i) made->codes.push_back(of.codes[place(k, i, terms)]);
    for (int64_t j = 0; j < count; ++j) {
      made->scale.push_back(of.scale[place(k, j, count)]);
      made->zero.push_back(of.zero[place(k, j, count)]);
    }
  }
  made->of = w.data;
  w.source_codes = std::move(made);
  import.graph().layers[size_t(node.layer)].source_policy = "\"int4/" + std::to_string(of.block) + "_from_float32\"";
  import.log().add("its codes of 4 bits stay: its policy is int4/" + std::to_string(of.block));
}

std::span<const OperatorImporter> block_importers() { return kBlockImporters; }

}  // namespace nacre::tools::onnx_import
