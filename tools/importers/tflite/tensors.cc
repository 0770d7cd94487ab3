// Tensors of a TensorFlow Lite file become values: element types, quantizers, constants.
#include <bit>
#include <cstring>

#include "engine/model/model.h"
#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {
namespace {

struct TypeRow {
  TensorType type;
  ElementType element;
};

// What the graph can hold. float16 only as a constant, and int4, whose codes are kept in bytes.
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

// Types whose quantization parameters kernels read. Of int32 QUANTIZE alone does: indices and shapes are themselves,
// and a bias is in units of its layer's other operands.
bool has_codes(ElementType type) {
  return type == ElementType::kInt8 || type == ElementType::kUint8 || type == ElementType::kInt16;
}

// As many as are given; one stands for all, and none for zeros. Copied as bytes: the Verifier of FlatBuffers 2.0.8 does
// not see that 8-byte elements stand at a multiple of 4.
std::vector<int64_t> zero_points(const QuantizationParameters& q, size_t scales) {
  const size_t given = q.zero_point() == nullptr ? 0 : q.zero_point()->size();
  if (given == 0) return std::vector<int64_t>(scales, 0);
  // behind the count
  const auto* bytes = reinterpret_cast<const uint8_t*>(q.zero_point()) + sizeof(flatbuffers::uoffset_t);
  std::vector<int64_t> zeros(given == 1 ? scales : given);
  for (size_t i = 0; i < zeros.size(); ++i)
    std::memcpy(&zeros[i], bytes + (given == 1 ? 0 : i) * sizeof(int64_t), sizeof(int64_t));
  return zeros;
}

}  // namespace

std::string dims_text(const std::vector<int64_t>& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

std::string Importer::tensor_name(int index) const {
  const auto* name = tensor(index).name();
  return name != nullptr && name->size() > 0 ? name->str() : "tensor_" + std::to_string(index);
}

// `name`, or name_2, name_3, ... : one step per tensor, whatever the file's names are.
std::string Importer::unique(const std::string& name) {
  int& count = names_[name];
  if (++count == 1) return name;
  for (;; ++count) {
    const std::string candidate = name + "_" + std::to_string(count);
    if (names_.try_emplace(candidate, 1).second) return candidate;
  }
}

std::vector<int64_t> Importer::dims_of(int index) const {
  const auto* shape = tensor(index).shape();
  std::vector<int64_t> dims;
  if (shape == nullptr) return dims;
  if (shape->size() > size_t(kMaxRank))
    unsupported(tensor_name(index), "has " + std::to_string(shape->size()) + " axes, more than 8");
  for (const int32_t dim : *shape) {
    // Files say 1 where a size is open, and keep the -1 in shape_signature; some say -1 here too.
    if (dim < -1) bad(tensor_name(index), "has a dimension of " + std::to_string(dim));
    dims.push_back(dim == -1 ? 1 : dim);
  }
  return dims;
}

void Importer::check_limits(const std::vector<int64_t>& dims, const std::string& place) const {
  int64_t elements = 1;
  for (const int64_t dim : dims) {
    if (dim == 0) bad(place, "has no elements");
    if (dim > kMaxSize || (elements *= dim) >= int64_t{1} << 31) unsupported(place, "has shape " + dims_text(dims));
  }
}

std::optional<Quantizer> Importer::make_quantizer(int index, ElementType stored) const {
  const QuantizationParameters* q = tensor(index).quantization();
  const bool codes = has_codes(stored) || (stored == ElementType::kInt32 && scope_.beside_quantize[size_t(index)]);
  if (q == nullptr || !codes) return std::nullopt;
  if (q->details_type() != QuantizationDetails::NONE)
    unsupported(tensor_name(index), "has block-wise or custom quantization");
  if (q->scale() == nullptr || q->scale()->size() == 0) return std::nullopt;
  const std::string place = tensor_name(index);
  Quantizer quantizer{.codes = stored, .scale = {q->scale()->begin(), q->scale()->end()}, .zero = {}, .axis = 0};
  const size_t count = quantizer.scale.size();
  quantizer.zero = zero_points(*q, count);
  if (quantizer.zero.size() != count)
    bad(place, std::to_string(count) + " scales but " + std::to_string(quantizer.zero.size()) + " zero points");
  for (const float scale : quantizer.scale)
    if (!is_scale(std::bit_cast<uint32_t>(scale))) bad(place, "a scale is not a positive, normal, finite number");
  for (const int64_t zero : quantizer.zero)
    if (zero != int32_t(zero) || !is_zero_point(stored, int32_t(zero)))
      bad(place, "a zero point is outside the range of the codes");
  if (count > 1) {
    const std::vector<int64_t> dims = dims_of(index);
    quantizer.axis = q->quantized_dimension();
    if (quantizer.axis < 0 || size_t(quantizer.axis) >= dims.size() || dims[size_t(quantizer.axis)] != int64_t(count))
      bad(place, std::to_string(count) + " scales along axis " + std::to_string(quantizer.axis) + " of shape " +
                     dims_text(dims));
  }
  return quantizer;
}

// Of what loops over time keep or read beside their input.
Quantizer Importer::loop_codes(const Operation& op, int index) const {
  const Tensor& t = tensor(index);
  const QuantizationParameters* q = t.quantization();
  const bool wide = t.type() == TensorType::INT16;
  if (q == nullptr || q->scale() == nullptr || q->scale()->size() != 1 || (!wide && t.type() != TensorType::INT8))
    unsupported(op, tensor_name(index) + " is not coded in int8 or int16 with one scale");
  const float scale = q->scale()->Get(0);
  const int64_t zero = zero_points(*q, 1)[0];
  if (!is_scale(std::bit_cast<uint32_t>(scale)) || (wide ? zero != 0 : zero < -128 || zero > 127))
    bad(op, tensor_name(index) + " has a scale or a zero point that is none");
  return {.codes = wide ? ElementType::kInt16 : ElementType::kInt8, .scale = {scale}, .zero = {zero}, .axis = 0};
}

Value Importer::make_value(int index) const {
  const Tensor& t = tensor(index);
  const std::string place = tensor_name(index);
  const ElementType element = element_of(t.type());
  if (element == ElementType::kNone) {
    const char* known = EnumNameTensorType(t.type());
    const std::string type = *known != '\0' ? known : std::to_string(int(t.type()));
    unsupported(place, "has element type " + type);
  }
  if (t.type() == TensorType::INT4 && !has_data(index)) unsupported(place, "is computed in 4 bits");
  if (t.is_variable()) unsupported(place, "is a variable that lives between runs");
  if (t.sparsity() != nullptr) unsupported(place, "is stored sparse");
  Value value;
  value.type = value.stored = element;
  value.quantizer = make_quantizer(index, element);
  if (value.quantizer) value.type = ElementType::kFloat32;
  else if (element == ElementType::kInt16 && !scope_.beside_signal[size_t(index)])
    unsupported(place, "has element type INT16 and no scale");
  return value;
}

bool Importer::has_data(int index) const {
  const uint32_t id = tensor(index).buffer();
  const auto* buffers = model_->buffers();
  if (id == 0) return false;  // by definition the empty one
  if (buffers == nullptr || id >= buffers->size())
    bad(tensor_name(index), "names buffer " + std::to_string(id) + ", which does not exist");
  const Buffer& buffer = *buffers->Get(id);
  return (buffer.data() != nullptr && buffer.data()->size() > 0) || buffer.offset() > 1;
}

// Shared between tensors of one buffer. Buffers of a valid file do not overlap; in a hostile one a thousand of them may
// be the same bytes, so what is copied is bounded by what there is.
std::shared_ptr<const std::vector<uint8_t>> Importer::data_of(int index) {
  const uint32_t id = tensor(index).buffer();
  if (const auto found = buffers_.find(id); found != buffers_.end()) return found->second;
  const Buffer& buffer = *model_->buffers()->Get(id);
  std::span<const uint8_t> data;
  if (buffer.offset() > 1) {
    if (buffer.offset() > bytes_.size() || buffer.size() > bytes_.size() - buffer.offset())
      bad(tensor_name(index), "its data lie outside the file");
    data = bytes_.subspan(size_t(buffer.offset()), size_t(buffer.size()));
  } else {
    data = {buffer.data()->data(), buffer.data()->size()};
  }
  copied_bytes_ += data.size();
  if (copied_bytes_ > bytes_.size()) bad(tensor_name(index), "its data overlap those of another tensor");
  auto copy = std::make_shared<const std::vector<uint8_t>>(data.begin(), data.end());
  buffers_.emplace(id, copy);
  return copy;
}

// Codes of 4 bits with a sign, two in a byte, the lower first, as bytes: what LiteRT's kernels make of them.
std::shared_ptr<const std::vector<uint8_t>> Importer::unpacked(int index, uint64_t codes) {
  std::shared_ptr<const std::vector<uint8_t>>& made = unpacked_[{tensor(index).buffer(), codes}];
  if (made != nullptr) return made;
  const std::shared_ptr<const std::vector<uint8_t>> pairs = data_of(index);
  std::vector<uint8_t> bytes;
  bytes.reserve(size_t(codes));
  for (size_t i = 0; i < codes; ++i)
    bytes.push_back(uint8_t(int8_t(uint8_t((*pairs)[i / 2] << (i % 2 == 0 ? 4 : 0))) >> 4));
  return made = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
}

ElementType Importer::declared_type(const Operation& op) const { return element_of(tensor(op.outputs[0]).type()); }

bool Importer::has_scale(int index) const {
  const QuantizationParameters* q = tensor(index).quantization();
  return q != nullptr && q->scale() != nullptr && q->scale()->size() > 0;
}

ValueId Importer::constant(int index) {
  Value value = make_value(index);
  value.dims = dims_of(index);
  value.region = Region::kWeights;
  check_limits(value.dims, tensor_name(index));
  const auto elements = uint64_t(value.elements());
  value.data = data_of(index);
  const bool pairs = tensor(index).type() == TensorType::INT4;
  const uint64_t bytes = pairs ? (elements + 1) / 2 : storage_bytes(value.stored, elements);
  if (value.data->size() != bytes)
    bad(tensor_name(index), "has " + std::to_string(value.data->size()) + " bytes of data, its shape " +
                                dims_text(value.dims) + " needs " + std::to_string(bytes));
  if (pairs) value.data = unpacked(index, elements);
  value.name = unique(tensor_name(index));
  return graph_.add(std::move(value));
}

}  // namespace nacre::tools::tflite
