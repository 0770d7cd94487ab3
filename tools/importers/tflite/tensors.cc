// Makes values of the tensors of a TensorFlow Lite file: element types, quantizers, constants.
#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/model/model.h"
#include "tools/importers/tflite/tensors.h"

namespace nacre::tools::tflite {
namespace {

// Most tensors, and most operators, of a graph: far above real networks, but read in a short time.
constexpr size_t kMaxTensors = 20000;

struct TypeRow {
  TensorType type;
  ElementType element;
};

// The types of tensors that are read. The graph holds float16 only as a constant, and int4 as codes in bytes.
constexpr TypeRow kTypes[] = {
    {TensorType::FLOAT32, ElementType::kFloat32}, {TensorType::FLOAT16, ElementType::kFloat16},
    {TensorType::INT8, ElementType::kInt8},       {TensorType::UINT8, ElementType::kUint8},
    {TensorType::INT16, ElementType::kInt16},     {TensorType::INT32, ElementType::kInt32},
    {TensorType::INT64, ElementType::kInt64},     {TensorType::BOOL, ElementType::kBool},
    {TensorType::INT4, ElementType::kInt8},
};

ElementType element_of(TensorType type) {
  for (const TypeRow& row : kTypes)
    if (row.type == type) return row.element;
  return ElementType::kNone;
}

// Returns true for types whose quantization parameters kernels read. For int32 only QUANTIZE reads them: indices and
// shapes are plain integers, and a bias is in units of its layer's other operands.
bool has_codes(ElementType type) {
  return type == ElementType::kInt8 || type == ElementType::kUint8 || type == ElementType::kInt16;
}

// Returns the zero points. A single one stands for all scales, and none means zeros. The bytes are copied, because the
// Verifier of FlatBuffers 2.0.8 does not check that 8-byte elements are aligned to 4.
std::vector<int64_t> zero_points(const QuantizationParameters& q, size_t scales) {
  const size_t given = size_of(q.zero_point());
  if (given == 0) return std::vector<int64_t>(scales, 0);
  // The elements follow their count.
  const auto* bytes = reinterpret_cast<const uint8_t*>(q.zero_point()) + sizeof(flatbuffers::uoffset_t);
  std::vector<int64_t> zeros(given == 1 ? scales : given);
  for (size_t i = 0; i < zeros.size(); ++i)
    std::memcpy(&zeros[i], bytes + (given == 1 ? 0 : i) * sizeof(int64_t), sizeof(int64_t));
  return zeros;
}

}  // namespace

Tensors::Tensors(File& file, const SubGraph& graph)
    : file_(&file), graph_(&graph), beside_quantize_(size_of(graph.tensors())), beside_signal_(size()) {
  const size_t operators = size_of(graph.operators()), most = std::max(size(), operators);
  if (most > kMaxTensors)
    throw Error(kUnsupported, file.name(),
                "has " + std::to_string(most) + " tensors or operators, the limit is " + std::to_string(kMaxTensors),
                "split the network into several");
  const auto mark = [](const Operator& record, std::vector<bool>& marks) {
    for (const auto* ids : {record.inputs(), record.outputs()})
      for (size_t i = 0; i < size_of(ids); ++i)
        if (const auto id = size_t(ids->Get(flatbuffers::uoffset_t(i))); id < marks.size()) marks[id] = true;
  };
  const auto* codes = file.model().operator_codes();
  for (size_t i = 0; i < operators; ++i) {
    const Operator& record = *graph.operators()->Get(flatbuffers::uoffset_t(i));
    if (record.opcode_index() >= size_of(codes)) continue;  // the reader reports the error
    const auto* custom = codes->Get(record.opcode_index())->custom_code();
    if (file.code_of(record) == BuiltinOperator::QUANTIZE) mark(record, beside_quantize_);
    if (custom != nullptr && custom->str().starts_with("Signal")) mark(record, beside_signal_);
  }
}

std::vector<int> Tensors::operands(const flatbuffers::Vector<int32_t>* ids, const std::string& place) const {
  std::vector<int> result;
  if (size_of(ids) > kMaxOperands) file_->unsupported(place, "has " + std::to_string(ids->size()) + " tensors");
  for (size_t i = 0; i < size_of(ids); ++i) {
    const int id = ids->Get(flatbuffers::uoffset_t(i));
    if (id < -1 || id >= int(size()))
      file_->bad(place, "names tensor " + std::to_string(id) + ", which does not exist");
    result.push_back(id);
  }
  return result;
}

std::string Tensors::name(int index) const {
  const auto* name = (*this)[index].name();
  return name != nullptr && name->size() > 0 ? name->str() : "tensor_" + std::to_string(index);
}

std::vector<int64_t> Tensors::dims(int index) const {
  const auto* shape = (*this)[index].shape();
  std::vector<int64_t> dims;
  if (shape == nullptr) return dims;
  if (shape->size() > size_t(kMaxRank))
    file_->unsupported(name(index), "has " + std::to_string(shape->size()) + " axes, more than 8");
  for (const int32_t dim : *shape) {
    // Files have 1 for an open size, and -1 in shape_signature. Some have -1 here too.
    if (dim < -1) file_->bad(name(index), "has a dimension of " + std::to_string(dim));
    dims.push_back(dim == -1 ? 1 : dim);
  }
  return dims;
}

std::optional<Quantizer> Tensors::quantizer(int index, ElementType stored) const {
  const QuantizationParameters* q = (*this)[index].quantization();
  const bool codes = has_codes(stored) || (stored == ElementType::kInt32 && beside_quantize_[size_t(index)]);
  if (q == nullptr || !codes) return std::nullopt;
  if (q->details_type() != QuantizationDetails::NONE)
    file_->unsupported(name(index), "has block-wise or custom quantization");
  if (!has_scale(index)) return std::nullopt;
  const std::string place = name(index);
  Quantizer quantizer{.codes = stored, .scale = {q->scale()->begin(), q->scale()->end()}, .zero = {}, .axis = 0};
  const size_t count = quantizer.scale.size();
  quantizer.zero = zero_points(*q, count);
  if (quantizer.zero.size() != count)
    file_->bad(place, std::to_string(count) + " scales but " + std::to_string(quantizer.zero.size()) + " zero points");
  for (const float scale : quantizer.scale)
    if (!is_scale(std::bit_cast<uint32_t>(scale)))
      file_->bad(place, "a scale is not a positive, normal, finite number");
  for (const int64_t zero : quantizer.zero)
    if (zero != int32_t(zero) || !is_zero_point(stored, int32_t(zero)))
      file_->bad(place, "a zero point is outside the range of the codes");
  if (count > 1) {
    const std::vector<int64_t> dims = this->dims(index);
    quantizer.axis = q->quantized_dimension();
    if (quantizer.axis < 0 || size_t(quantizer.axis) >= dims.size() || dims[size_t(quantizer.axis)] != int64_t(count))
      file_->bad(place, std::to_string(count) + " scales along axis " + std::to_string(quantizer.axis) + " of shape " +
                            dims_text(dims));
  }
  return quantizer;
}

// Returns the quantizer of a state or of the time weights of a loop over time: int8 or int16 codes with one scale.
Quantizer Tensors::loop_codes(const Operation& op, int index) const {
  const Tensor& t = (*this)[index];
  const QuantizationParameters* q = t.quantization();
  const bool wide = t.type() == TensorType::INT16;
  if (q == nullptr || q->scale() == nullptr || q->scale()->size() != 1 || (!wide && t.type() != TensorType::INT8))
    file_->unsupported(op.name, name(index) + " is not coded in int8 or int16 with one scale");
  const float scale = q->scale()->Get(0);
  const int64_t zero = zero_points(*q, 1)[0];
  if (!is_scale(std::bit_cast<uint32_t>(scale)) || (wide ? zero != 0 : zero < -128 || zero > 127))
    file_->bad(op.place(), name(index) + " has a scale or a zero point that is none");
  return {.codes = wide ? ElementType::kInt16 : ElementType::kInt8, .scale = {scale}, .zero = {zero}, .axis = 0};
}

Value Tensors::value(int index) const {
  const Tensor& t = (*this)[index];
  const std::string place = name(index);
  const ElementType element = element_of(t.type());
  if (element == ElementType::kNone) {
    const char* known = EnumNameTensorType(t.type());
    const std::string type = *known != '\0' ? known : std::to_string(int(t.type()));
    file_->unsupported(place, "has element type " + type);
  }
  if (t.type() == TensorType::INT4 && !has_data(index)) file_->unsupported(place, "is computed in 4 bits");
  if (t.is_variable()) file_->unsupported(place, "is a variable that lives between runs");
  if (t.sparsity() != nullptr) file_->unsupported(place, "is stored sparse");
  Value value;
  value.type = value.stored = element;
  value.quantizer = quantizer(index, element);
  if (value.quantizer) value.type = ElementType::kFloat32;
  else if (element == ElementType::kInt16 && !beside_signal_[size_t(index)])
    file_->unsupported(place, "has element type INT16 and no scale");
  return value;
}

bool Tensors::has_data(int index) const {
  const uint32_t id = (*this)[index].buffer();
  const auto* buffers = file_->model().buffers();
  if (id == 0) return false;  // buffer 0 is empty by definition
  if (buffers == nullptr || id >= buffers->size())
    file_->bad(name(index), "names buffer " + std::to_string(id) + ", which does not exist");
  const Buffer& buffer = *buffers->Get(id);
  return (buffer.data() != nullptr && buffer.data()->size() > 0) || buffer.offset() > 1;
}

ElementType Tensors::type(int index) const { return element_of((*this)[index].type()); }

bool Tensors::has_scale(int index) const {
  const QuantizationParameters* q = (*this)[index].quantization();
  return q != nullptr && size_of(q->scale()) > 0;
}

Value Tensors::constant(int index) const {
  Value value = this->value(index);
  value.dims = dims(index);
  value.region = Region::kWeights;
  const std::string place = name(index);
  file_->check_limits(value.dims, place);
  const auto elements = uint64_t(value.elements());
  value.data = file_->data_of((*this)[index].buffer(), place);
  const bool pairs = (*this)[index].type() == TensorType::INT4;
  const uint64_t bytes = pairs ? (elements + 1) / 2 : storage_bytes(value.stored, elements);
  if (value.data->size() != bytes)
    file_->bad(place, "has " + std::to_string(value.data->size()) + " bytes of data, its shape " +
                          dims_text(value.dims) + " needs " + std::to_string(bytes));
  if (pairs) value.data = file_->unpacked((*this)[index].buffer(), place, elements);
  return value;
}

}  // namespace nacre::tools::tflite
