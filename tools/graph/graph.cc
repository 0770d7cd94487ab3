#include "tools/graph/graph.h"

#include <bit>
#include <cstring>
#include <string_view>

#include "engine/numeric/small_float.h"
#include "tools/base/error.h"

namespace nacre::tools {
namespace {

template <class T>
ValueId add_constant(Graph& graph, const std::string& name, std::vector<int64_t> dims, const std::vector<T>& data,
                     ElementType type) {
  Value value;
  value.name = name;
  value.type = value.stored = type;
  value.dims = std::move(dims);
  value.region = Region::kWeights;
  std::vector<uint8_t> bytes(data.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), data.data(), bytes.size());
  if (value.elements() != int64_t(data.size()))
    throw Error(
        kFailed, name,
        "constant of " + std::to_string(data.size()) + " elements given dims of " + std::to_string(value.elements()));
  value.data = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  return graph.add(std::move(value));
}

struct Found {
  int word;
  Coding coding;
};

Found find_attribute(const Node& node, const char* name, int index) {
  const OpRule* rule = find_rule(node.op);
  if (rule == nullptr) throw Error(kFailed, node.name, "no rule for op " + std::to_string(int(node.op)));
  int word = 0;
  for (const Attribute& attribute : rule->attributes) {
    if (std::string_view(attribute.name) == name && index >= 0 && index < attribute.count)
      return {word + index, attribute.coding};
    word += attribute.count;
  }
  throw Error(kFailed, node.name,
              std::string(rule->name) + " has no attribute " + name + "[" + std::to_string(index) + "]");
}

uint32_t word_of(const Node& node, int word) { return size_t(word) < node.words.size() ? node.words[size_t(word)] : 0; }

void set_word(Node& node, int word, uint32_t bits) {
  if (size_t(word) >= node.words.size()) {
    if (bits == 0) return;  // a trailing word that is missing reads as 0
    node.words.resize(size_t(word) + 1);
  }
  node.words[size_t(word)] = bits;
}

template <class T>
T load(const uint8_t* bytes, size_t index) {
  T element;
  std::memcpy(&element, bytes + index * sizeof(T), sizeof(T));
  return element;
}

int64_t load_integer(const Value& value, size_t i) {
  const uint8_t* bytes = value.data->data();
  switch (value.stored) {
    case ElementType::kInt8: return load<int8_t>(bytes, i);
    case ElementType::kUint8:
    case ElementType::kBool: return bytes[i];
    case ElementType::kInt16: return load<int16_t>(bytes, i);
    case ElementType::kInt32: return load<int32_t>(bytes, i);
    case ElementType::kInt64: return load<int64_t>(bytes, i);
    case ElementType::kUint32: return load<uint32_t>(bytes, i);
    case ElementType::kUint4: return (bytes[i / 2] >> (i % 2 * 4)) & 15;
    case ElementType::kInt4: return (((bytes[i / 2] >> (i % 2 * 4)) & 15) ^ 8) - 8;
    default: throw Error(kUnsupported, value.name, "not an integer constant");
  }
}

size_t checked_elements(const Value& value) {
  if (!value.constant()) throw Error(kUnsupported, value.name, "must be a constant");
  const auto elements = uint64_t(value.elements());
  if (value.layout != Layout::kRowMajor) throw Error(kFailed, value.name, "is packed for a kernel");
  if (value.elements() < 0 || storage_bytes(value.stored, elements) != value.data->size())
    throw Error(kBadInput, value.name, "constant has another number of bytes than its shape says");
  return size_t(elements);
}

float load_real(const Value& value, size_t i);

// Decodes element i: real = scale * (code - zero), computed in float64 and rounded once to float32. The code of a
// float8 element is its number. `inner` is the product of the dims behind the quantizer's axis.
float decode(const Value& value, size_t i, size_t inner) {
  const Quantizer& q = *value.quantizer;
  const size_t channel = q.scale.size() > 1 ? i / inner % q.scale.size() : 0;
  const int64_t zero = q.zero.empty() ? 0 : q.zero[q.zero.size() > 1 ? channel : 0];
  const bool float8 = value.stored == ElementType::kFloat8E4M3 || value.stored == ElementType::kFloat8E5M2;
  const double code = float8 ? double(load_real(value, i)) : double(load_integer(value, i));
  return float(double(q.scale[channel]) * (code - double(zero)));
}

float load_real(const Value& value, size_t i) {
  const uint8_t* bytes = value.data->data();
  switch (value.stored) {
    case ElementType::kFloat32: return load<float>(bytes, i);
    case ElementType::kFloat64: return float(load<double>(bytes, i));
    case ElementType::kFloat16: return float(Float16::of_bits(load<uint16_t>(bytes, i)));
    case ElementType::kBfloat16: return float(Bfloat16::of_bits(load<uint16_t>(bytes, i)));
    case ElementType::kFloat8E4M3: return float(Float8E4M3::of_bits(bytes[i]));
    case ElementType::kFloat8E5M2: return float(Float8E5M2::of_bits(bytes[i]));
    default: return float(load_integer(value, i));
  }
}

}  // namespace

ValueId Graph::add(Value value) {
  value.name = value_names_.unique(values, value.name.empty() ? "value" : value.name);
  values.push_back(std::move(value));
  return ValueId(values.size()) - 1;
}

void Graph::rename(ValueId id, const std::string& name) {
  if (!value_names_.has(values, name)) value_names_.rename(values, size_t(id), name);
}

ValueId Graph::constant(const std::string& name, std::vector<int64_t> dims, const std::vector<float>& data) {
  return add_constant(*this, name, std::move(dims), data, ElementType::kFloat32);
}

ValueId Graph::constant(const std::string& name, std::vector<int64_t> dims, const std::vector<int32_t>& data) {
  return add_constant(*this, name, std::move(dims), data, ElementType::kInt32);
}

ValueId Graph::constant(const std::string& name, std::vector<int64_t> dims, const std::vector<int16_t>& data) {
  return add_constant(*this, name, std::move(dims), data, ElementType::kInt16);
}

ValueId Graph::constant(const std::string& name, std::vector<int64_t> dims, const std::vector<int8_t>& data) {
  return add_constant(*this, name, std::move(dims), data, ElementType::kInt8);
}

int Graph::add_layer(Layer layer) {
  layer.name = layer_names_.unique(layers, layer.name.empty() ? "layer" : layer.name);
  layers.push_back(std::move(layer));
  return int(layers.size()) - 1;
}

int get_integer(const Node& node, const char* name, int index) {
  const Found found = find_attribute(node, name, index);
  return int(word_of(node, found.word) + (found.coding == Coding::kLessOne ? 1u : 0u));
}

float get_real(const Node& node, const char* name, int index) {
  return std::bit_cast<float>(word_of(node, find_attribute(node, name, index).word));
}

void set_integer(Node& node, const char* name, int value, int index) {
  const Found found = find_attribute(node, name, index);
  set_word(node, found.word, uint32_t(value) - (found.coding == Coding::kLessOne ? 1u : 0u));
}

void set_real(Node& node, const char* name, float value, int index) {
  set_word(node, find_attribute(node, name, index).word, std::bit_cast<uint32_t>(value));
}

Node make_step(Op op, const Node& near, const std::string& name, std::vector<ValueId> inputs,
               std::vector<ValueId> outputs) {
  Node node;
  node.op = op;
  node.name = name;
  node.layer = near.layer;
  node.wide = near.wide;
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  return node;
}

bool is_matmul(Op op) { return op == Op::kDense || op == Op::kConv2d || op == Op::kDepthwiseConv2d; }

size_t channel_axis(Op op) { return op == Op::kDepthwiseConv2d ? 2 : 0; }

bool is_float_type(ElementType type) {
  return type == ElementType::kFloat32 || type == ElementType::kFloat16 || type == ElementType::kBfloat16 ||
         type == ElementType::kFloat64;
}

std::vector<float> reals(const Value& value) {
  const size_t elements = checked_elements(value);
  const bool codes = value.quantizer && !value.quantizer->scale.empty() && value.stored != ElementType::kFloat32;
  size_t inner = 1;
  if (codes)
    for (size_t i = size_t(value.quantizer->axis) + 1; i < value.dims.size(); ++i) inner *= size_t(value.dims[i]);
  std::vector<float> result(elements);
  for (size_t i = 0; i < elements; ++i) result[i] = codes ? decode(value, i, inner) : load_real(value, i);
  return result;
}

std::vector<int64_t> integers(const Value& value) {
  const size_t elements = checked_elements(value);
  std::vector<int64_t> result(elements);
  for (size_t i = 0; i < elements; ++i) result[i] = load_integer(value, i);
  return result;
}

void set_reals(Value& constant, std::span<const float> numbers) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(numbers.data());
  constant.data = std::make_shared<const std::vector<uint8_t>>(bytes, bytes + numbers.size_bytes());
  constant.stored = constant.type = ElementType::kFloat32;
  constant.quantizer.reset();
  constant.amaxes.clear();  // the maxima of the previous numbers
}

}  // namespace nacre::tools
