#include "tests/one_step.h"

#include <algorithm>
#include <cstring>

#include "engine/numeric/small_float.h"
#include "tools/graph/bound_step.h"

namespace nacre::test {
namespace {

constexpr size_t kGuard = 64;
constexpr uint8_t kGuardByte = 0xA5, kPoison = 0xCD;

template <class T>
T load(const std::vector<uint8_t>& bytes, int64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + size_t(i) * sizeof(T), sizeof(T));
  return value;
}

// Calls f(T()) for the C++ type of `element`. int4 is not supported, because two codes share a byte.
template <class F>
auto with_type(ElementType element, F f) {
  switch (element) {
    case ElementType::kFloat32: return f(float());
    case ElementType::kFloat64: return f(double());
    case ElementType::kFloat16: return f(Float16());
    case ElementType::kBfloat16: return f(Bfloat16());
    case ElementType::kFloat8E4M3: return f(Float8E4M3());
    case ElementType::kFloat8E5M2: return f(Float8E5M2());
    case ElementType::kInt8: return f(int8_t());
    case ElementType::kInt16: return f(int16_t());
    case ElementType::kInt32: return f(int32_t());
    case ElementType::kUint32: return f(uint32_t());
    case ElementType::kInt64: return f(int64_t());
    default: return f(uint8_t());  // uint8, bool
  }
}

int nibble(const std::vector<uint8_t>& bytes, int64_t i) {
  const int code = bytes[size_t(i / 2)] / (i % 2 == 0 ? 1 : 16) % 16;
  return code < 8 ? code : code - 16;
}

// Operands as bind makes them.
struct Bound {
  std::vector<TensorRecord> records;
  std::vector<Tensor> tensors;

  explicit Bound(size_t operands) { records.reserve(operands); }

  void add(const Array& array, void* data) {
    if (!array.present()) {
      tensors.push_back({nullptr, nullptr});
      return;
    }
    records.push_back(record_of(array));
    tensors.push_back({data, &records.back()});
  }
};

Execution execute(const KernelEntry& entry, const std::vector<uint32_t>& words, const std::vector<Array>& inputs,
                  int over) {
  const Words view = {words.data(), int(words.size())};
  const auto written = [&](size_t i) {  // an updated operand
    return !variadic(entry) && (entry.operands[i].role & 3) == uint8_t(Role::kUpdate) && inputs[i].present();
  };
  const auto guarded = [](const Array& array) {
    std::vector<uint8_t> block(array.bytes.size() + 2 * kGuard, kGuardByte);
    std::copy(array.bytes.begin(), array.bytes.end(), block.begin() + kGuard);
    return block;
  };
  std::vector<std::vector<uint8_t>> blocks;  // outputs last; written blocks lie between guards
  for (size_t i = 0; i < inputs.size(); ++i) blocks.push_back(written(i) ? guarded(inputs[i]) : inputs[i].bytes);
  Bound bound(inputs.size() + 4);
  for (size_t i = 0; i < inputs.size(); ++i) bound.add(inputs[i], blocks[i].data() + (written(i) ? kGuard : 0));

  Execution result;
  Dims dims[4] = {};
  result.code = entry.shapes(view, {bound.tensors.data(), int(bound.tensors.size()), 0}, dims);
  if (result.code != Code::kOk) return result;
  const int outputs = int(entry.operand_count) - (variadic(entry) ? 1 : input_count(entry));
  for (int i = 0; i < outputs; ++i) {
    int64_t elements = 1;  // open() refuses a tensor with more elements than an int counts
    for (int axis = 0; axis < dims[i].rank; ++axis)
      if ((elements *= dims[i].size[axis]) > INT32_MAX) {
        result.code = Code::kOverflow;
        return result;
      }
    const ElementType element = entry.operands[entry.operand_count - outputs + i].element;
    result.outputs.push_back(make_array(element, {dims[i].size, dims[i].size + dims[i].rank}));
    const size_t bytes = result.outputs.back().bytes.size();
    blocks.emplace_back(bytes + 2 * kGuard, kGuardByte);
    if (over < 0) std::memset(blocks.back().data() + kGuard, kPoison, bytes);
  }
  for (int i = 0; i < outputs; ++i)
    bound.add(result.outputs[size_t(i)],
              over < 0 || i > 0 ? blocks[inputs.size() + size_t(i)].data() + kGuard : blocks[size_t(over)].data());
  tools::BoundStep step(entry, view, bound.tensors);
  result.code = step.prepare();
  if (result.code == Code::kOk) result.code = step.run();
  const auto take = [&](size_t i, Array& array) {
    if (!array.bytes.empty()) std::memcpy(array.bytes.data(), bound.tensors[i].data, array.bytes.size());
    const std::vector<uint8_t>& block = blocks[i];
    const auto intact = [](uint8_t byte) { return byte == kGuardByte; };
    result.overrun |= !std::all_of(block.begin(), block.begin() + kGuard, intact) ||
                      !std::all_of(block.end() - kGuard, block.end(), intact);
  };
  for (int i = 0; i < outputs; ++i) take(inputs.size() + size_t(i), result.outputs[size_t(i)]);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (written(i)) {
      result.updated.push_back(inputs[i]);
      take(i, result.updated.back());
    } else {
      result.impure |= int(i) != over && blocks[i] != inputs[i].bytes;
    }
  }
  result.overrun |= step.overran();
  return result;
}

}  // namespace

int64_t Array::elements() const {
  int64_t product = 1;
  for (const int32_t dim : dims) product *= dim;
  return product;
}

double Array::real(int64_t i) const {
  if (element == ElementType::kInt4) return nibble(bytes, i);
  return with_type(element, [&](auto type) { return double(load<decltype(type)>(bytes, i)); });
}

int64_t Array::integer(int64_t i) const {
  if (element == ElementType::kInt4) return nibble(bytes, i);
  return with_type(element, [&](auto type) {
    if constexpr (std::is_integral_v<decltype(type)>) return int64_t(load<decltype(type)>(bytes, i));
    else return int64_t(double(load<decltype(type)>(bytes, i)));
  });
}

void Array::set(int64_t i, double value) {
  if (element == ElementType::kInt4) {
    const int code = int(value) & 15, other = bytes[size_t(i / 2)];
    bytes[size_t(i / 2)] = uint8_t(i % 2 == 0 ? (other & 0xF0) | code : (other & 0x0F) | code << 4);
    return;
  }
  with_type(element, [&](auto type) {
    type = decltype(type)(value);
    std::memcpy(bytes.data() + size_t(i) * sizeof type, &type, sizeof type);
    return 0;
  });
}

std::string Array::text() const {
  std::string text = type_name(element) + " [";
  for (size_t i = 0; i < dims.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

TensorRecord record_of(const Array& array) {
  TensorRecord record = {};
  record.element = array.element;
  record.rank = uint8_t(array.dims.size());
  std::copy(array.dims.begin(), array.dims.end(), record.dims);
  record.bytes = array.bytes.size();
  return record;
}

Array make_array(ElementType element, std::vector<int32_t> dims) {
  Array array = {element, std::move(dims), {}};
  array.bytes.resize(size_t(storage_bytes(element, uint64_t(array.elements()))));
  return array;
}

Execution execute(const KernelEntry& entry, const std::vector<uint32_t>& words, const std::vector<Array>& inputs) {
  return execute(entry, words, inputs, -1);
}

Execution execute_in_place(const KernelEntry& entry, const std::vector<uint32_t>& words,
                           const std::vector<Array>& inputs, int slot) {
  return execute(entry, words, inputs, slot);
}

bool variadic(const KernelEntry& entry) { return (entry.operands[0].role & kVariadic) != 0; }

int input_count(const KernelEntry& entry) {
  int count = 0;
  while (count < int(entry.operand_count) && (entry.operands[count].role & 3) != uint8_t(Role::kOut)) ++count;
  return count;
}

std::string type_name(ElementType element) {
  switch (element) {
    case ElementType::kNone: return "none";
    case ElementType::kFloat32: return "float32";
    case ElementType::kFloat16: return "float16";
    case ElementType::kBfloat16: return "bfloat16";
    case ElementType::kFloat64: return "float64";
    case ElementType::kInt4: return "int4";
    case ElementType::kFloat8E4M3: return "float8_e4m3";
    case ElementType::kFloat8E5M2: return "float8_e5m2";
    case ElementType::kInt8: return "int8";
    case ElementType::kUint8: return "uint8";
    case ElementType::kInt16: return "int16";
    case ElementType::kInt32: return "int32";
    case ElementType::kUint32: return "uint32";
    case ElementType::kInt64: return "int64";
    case ElementType::kBool: return "bool";
    default: return "type " + std::to_string(int(element));
  }
}

}  // namespace nacre::test
