// Finds the numbers that an ONNX file stores: the bytes of raw_data, float_data and double_data of its tensors, in
// the messages as they are written (protobuf.dev/programming-guides/encoding). Field numbers: onnx.proto of v1.22.0.
//
//   ModelProto 7 graph, 25 functions      GraphProto 1 node, 5 initializer      FunctionProto 7 node
//   NodeProto 2 output, 5 attribute       AttributeProto 5 t, 6 g, 10 tensors, 11 graphs
//   TensorProto 1 dims, 2 data_type, 4 float_data, 8 name, 9 raw_data, 10 double_data
#include "tools/base/error.h"
#include "tools/importers/importer.h"
#include "tools/importers/onnx/tensor.h"
#include "tools/importers/shared/stored_numbers.h"
#include "tools/importers/shared/varint.h"

namespace nacre::tools {
namespace onnx_import {
namespace {

constexpr int kMostNested = 32;
enum Kind : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
  uint32_t number, kind;
  uint64_t value;      // the number, if the field is a varint
  size_t begin, size;  // the range of the field's bytes, if it is no varint
};

class Walk {
 public:
  Walk(std::span<const uint8_t> bytes, const std::string& place) : bytes_(bytes), place_(place) {}

  std::vector<StoredNumbers> run() {
    each(0, bytes_.size(), [&](const Field& f) {
      if (f.number == 7) graph(f, 0);
      if (f.number == 25) nodes(f, 7, 0);
    });
    return std::move(found_);
  }

 private:
  [[noreturn]] void damaged() const {
    throw Error(kBadInput, place_, "is damaged: its messages do not end as they say");
  }

  template <class F>
  void each(size_t at, size_t end, F visit) const {
    const std::span<const uint8_t> bytes = bytes_.first(end);
    while (at < end) {
      uint64_t tag = 0;
      Field f = {};
      if (!read_varint(bytes, at, tag) || tag >> 3 > UINT32_MAX) damaged();
      f.number = uint32_t(tag >> 3);
      f.kind = uint32_t(tag & 7);
      if (f.kind == kVarint || f.kind == kBytes) {
        if (!read_varint(bytes, at, f.value)) damaged();
      } else if (f.kind != kFixed32 && f.kind != kFixed64) {
        damaged();
      }
      const uint64_t size = f.kind == kBytes ? f.value : f.kind == kFixed64 ? 8 : f.kind == kFixed32 ? 4 : 0;
      if (size > end - at) damaged();
      f.begin = at;
      f.size = size_t(size);
      at += f.size;
      visit(f);
    }
  }
  template <class F>
  void each(const Field& message, F visit) const {
    if (message.kind == kBytes) each(message.begin, message.begin + message.size, visit);
  }

  void graph(const Field& message, int depth) {
    nodes(message, 1, depth);
    each(message, [&](const Field& f) {
      if (f.number == 5) tensor(f, "");
    });
  }

  void nodes(const Field& message, uint32_t number, int depth) {
    if (depth > kMostNested) throw Error(kUnsupported, place_, "nests graphs deeper than 32");
    each(message, [&](const Field& f) {
      if (f.number == number) node(f, depth);
    });
  }

  // Reads the constants in the attributes of a node. They have the name of the node's first output.
  void node(const Field& message, int depth) {
    std::string output;
    each(message, [&](const Field& f) {
      if (f.number == 2 && output.empty()) output = text(f);
    });
    each(message, [&](const Field& attribute) {
      if (attribute.number != 5) return;
      each(attribute, [&](const Field& f) {
        if (f.number == 5 || f.number == 10) tensor(f, output);
        if (f.number == 6 || f.number == 11) graph(f, depth + 1);
      });
    });
  }

  void tensor(const Field& message, const std::string& name) {
    StoredNumbers made{.name = name, .type = ElementType::kNone, .elements = 1, .offset = 0};
    size_t raw[2] = {}, typed[2] = {};  // begin and size of raw_data, and of float_data or double_data
    each(message, [&](const Field& f) {
      if (f.number == 1) dims(f, made.elements);
      if (f.number == 2) made.type = element_type(int(f.value));
      if (f.number == 8 && name.empty()) made.name = text(f);
      if (f.number == 9) raw[0] = f.begin, raw[1] = f.size;
      const bool is_typed = f.number == (made.type == ElementType::kFloat64 ? 10u : 4u);
      if (is_typed && f.kind == kBytes) typed[0] = f.begin, typed[1] = f.size;
    });
    if (made.type != ElementType::kFloat32 && !is_other_real(made.type)) return;
    const bool has_field = made.type == ElementType::kFloat32 || made.type == ElementType::kFloat64;
    const size_t* const at = raw[1] > 0 || !has_field ? raw : typed;
    const uint64_t bytes = uint64_t(made.elements) * (element_bits(made.type) / 8);
    if (at[1] == bytes) made.offset = at[0];
    found_.push_back(std::move(made));
  }

  // Multiplies `product` by one dim, or by several dims that are packed into bytes. A dim or product above INT32_MAX
  // becomes INT32_MAX, which is more numbers than a file holds.
  void dims(const Field& f, int64_t& product) const {
    const auto multiply = [&](uint64_t dim) {
      if (dim > uint64_t(INT32_MAX) || __builtin_mul_overflow(product, int64_t(dim), &product) || product > INT32_MAX)
        product = INT32_MAX;
    };
    if (f.kind == kVarint) return multiply(f.value);
    for (size_t at = f.begin; at < f.begin + f.size;) {
      uint64_t dim = 0;
      if (!read_varint(bytes_.first(f.begin + f.size), at, dim)) damaged();
      multiply(dim);
    }
  }

  std::string text(const Field& f) const { return {reinterpret_cast<const char*>(bytes_.data()) + f.begin, f.size}; }

  std::span<const uint8_t> bytes_;
  const std::string& place_;
  std::vector<StoredNumbers> found_;
};

}  // namespace
}  // namespace onnx_import

std::vector<StoredNumbers> stored_numbers_of_onnx(std::span<const uint8_t> bytes, const std::string& name) {
  return onnx_import::Walk(bytes, name).run();
}

}  // namespace nacre::tools
