#include "tests/importers/tflite_builder.h"

#include <cstring>

namespace nacre::tools::tflite {
namespace {

template <class T>
std::vector<uint8_t> bytes_of(const std::vector<T>& items) {
  std::vector<uint8_t> bytes(items.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), items.data(), bytes.size());
  return bytes;
}

}  // namespace

int TfliteBuilder::tensor(const TensorSpec& spec) {
  flatbuffers::Offset<QuantizationParameters> quantization;
  if (!spec.codes.scale.empty())
    quantization =
        CreateQuantizationParameters(fbb_, 0, 0, fbb_.CreateVector(spec.codes.scale),
                                     fbb_.CreateVector(spec.codes.zero), QuantizationDetails::NONE, 0, spec.codes.axis);
  uint32_t buffer = spec.buffer;
  if (!spec.data.empty()) {
    buffer = uint32_t(buffers_.size());
    buffers_.push_back(spec.data);
  }
  const auto shape = fbb_.CreateVector(spec.shape);
  const auto name = fbb_.CreateString(spec.name);
  const auto signature = spec.signature.empty() ? 0 : fbb_.CreateVector(spec.signature);
  tensors_.push_back(CreateTensor(fbb_, shape, spec.type, buffer, name, quantization, spec.variable, 0, signature));
  return int(tensors_.size()) - 1;
}

int TfliteBuilder::activation(const std::string& name, const std::vector<int32_t>& shape) {
  return tensor({.name = name, .shape = shape, .data = {}, .codes = {}, .signature = {}});
}
int TfliteBuilder::activation(const std::string& name, const std::vector<int32_t>& shape, float scale, int64_t zero) {
  return tensor({.name = name,
                 .type = TensorType::INT8,
                 .shape = shape,
                 .data = {},
                 .codes = {{scale}, {zero}},
                 .signature = {}});
}
int TfliteBuilder::floats(const std::string& name, const std::vector<int32_t>& shape, const std::vector<float>& data) {
  return tensor({.name = name, .shape = shape, .data = bytes_of(data), .codes = {}, .signature = {}});
}
int TfliteBuilder::codes(const std::string& name, const std::vector<int32_t>& shape, const std::vector<int8_t>& data,
                         const Codes& codes) {
  return tensor({.name = name,
                 .type = TensorType::INT8,
                 .shape = shape,
                 .data = bytes_of(data),
                 .codes = codes,
                 .signature = {}});
}
int TfliteBuilder::int32s(const std::string& name, const std::vector<int32_t>& shape, const std::vector<int32_t>& data,
                          const Codes& codes) {
  return tensor({.name = name,
                 .type = TensorType::INT32,
                 .shape = shape,
                 .data = bytes_of(data),
                 .codes = codes,
                 .signature = {}});
}

uint32_t TfliteBuilder::operator_code(BuiltinOperator code, const std::string& custom) {
  codes_.push_back({code, custom});
  return uint32_t(codes_.size()) - 1;  // one per operator: files may repeat them
}

void TfliteBuilder::add(uint32_t code, const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs,
                        BuiltinOptions type, flatbuffers::Offset<void> options) {
  operators_.push_back(
      CreateOperator(fbb_, code, fbb_.CreateVector(inputs), fbb_.CreateVector(outputs), type, options));
}

void TfliteBuilder::op(BuiltinOperator code, const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs) {
  add(operator_code(code), inputs, outputs, BuiltinOptions::NONE, 0);
}

void TfliteBuilder::custom(const std::string& name, const std::vector<int32_t>& inputs,
                           const std::vector<int32_t>& outputs, const std::vector<uint8_t>& options) {
  operators_.push_back(CreateOperator(fbb_, operator_code(BuiltinOperator::CUSTOM, name), fbb_.CreateVector(inputs),
                                      fbb_.CreateVector(outputs), BuiltinOptions::NONE, 0,
                                      options.empty() ? 0 : fbb_.CreateVector(options)));
}

int TfliteBuilder::variable(const std::string& name) {
  const int handle =
      tensor({.name = name, .type = TensorType::RESOURCE, .shape = {}, .data = {}, .codes = {}, .signature = {}});
  op(BuiltinOperator::VAR_HANDLE, {}, {handle}, CreateVarHandleOptions(fbb_, 0, fbb_.CreateString(name)));
  return handle;
}

int TfliteBuilder::graph(const std::function<Ends()>& build) {
  std::vector<flatbuffers::Offset<Tensor>> tensors = std::move(tensors_);
  std::vector<flatbuffers::Offset<Operator>> operators = std::move(operators_);
  tensors_.clear(), operators_.clear();
  const Ends ends = build();
  called_.push_back(CreateSubGraph(fbb_, fbb_.CreateVector(tensors_), fbb_.CreateVector(ends.inputs),
                                   fbb_.CreateVector(ends.outputs), fbb_.CreateVector(operators_)));
  tensors_ = std::move(tensors), operators_ = std::move(operators);
  return int(called_.size());
}

void TfliteBuilder::once(const std::string& name, const std::vector<float>& initial) {
  const int index = graph([&] {
    const int handle = variable(name), numbers = floats("initial", {int32_t(initial.size())}, initial);
    op(BuiltinOperator::ASSIGN_VARIABLE, {handle, numbers}, {});
    return Ends{};
  });
  op(BuiltinOperator::CALL_ONCE, {}, {}, CreateCallOnceOptions(fbb_, index));
}

void TfliteBuilder::signature(const std::vector<std::pair<uint32_t, std::string>>& inputs,
                              const std::vector<std::pair<uint32_t, std::string>>& outputs) {
  const auto maps = [&](const std::vector<std::pair<uint32_t, std::string>>& names) {
    std::vector<flatbuffers::Offset<TensorMap>> offsets;
    for (const auto& [index, name] : names) offsets.push_back(CreateTensorMap(fbb_, fbb_.CreateString(name), index));
    return fbb_.CreateVector(offsets);
  };
  const auto in = maps(inputs), out = maps(outputs);
  signatures_.push_back(CreateSignatureDef(fbb_, in, out, fbb_.CreateString("serving_default"), 0));
}

std::vector<flatbuffers::Offset<Buffer>> TfliteBuilder::make_buffers(uint64_t first_offset) {
  std::vector<flatbuffers::Offset<Buffer>> offsets;
  for (const std::vector<uint8_t>& data : buffers_) {
    if (data.empty()) {
      offsets.push_back(CreateBuffer(fbb_));
    } else if (data_outside) {
      offsets.push_back(CreateBuffer(fbb_, 0, first_offset, data.size()));
      first_offset += data.size();
    } else {
      offsets.push_back(CreateBuffer(fbb_, fbb_.CreateVector(data)));
    }
  }
  return offsets;
}

std::vector<uint8_t> TfliteBuilder::finish(const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs) {
  constexpr uint64_t kOutside = 65536;  // far behind any FlatBuffer built here
  const auto subgraph = CreateSubGraph(fbb_, fbb_.CreateVector(tensors_), fbb_.CreateVector(inputs),
                                       fbb_.CreateVector(outputs), fbb_.CreateVector(operators_));
  std::vector<flatbuffers::Offset<OperatorCode>> codes;
  for (const Code& c : codes_) {
    const auto custom = c.custom.empty() ? 0 : fbb_.CreateString(c.custom);
    const auto byte = int8_t(int(c.code) > 127 ? 127 : int(c.code));
    codes.push_back(CreateOperatorCode(fbb_, byte, custom, 1, old_codes ? BuiltinOperator::ADD : c.code));
  }
  const auto code_vector = fbb_.CreateVector(codes);
  std::vector graphs = {subgraph};
  graphs.insert(graphs.end(), called_.begin(), called_.end());
  const auto subgraphs = fbb_.CreateVector(graphs);
  std::vector<flatbuffers::Offset<Buffer>> all = make_buffers(kOutside);
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<Metadata>>> entries = 0;
  if (!metadata.empty()) {
    entries = fbb_.CreateVector(
        std::vector{CreateMetadata(fbb_, fbb_.CreateString("TFLITE_METADATA"), uint32_t(all.size()))});
    fbb_.ForceVectorAlignment(metadata.size(), 1, 16);
    all.push_back(CreateBuffer(fbb_, fbb_.CreateVector(metadata)));
  }
  const auto buffers = fbb_.CreateVector(all);
  const auto signatures = fbb_.CreateVector(signatures_);
  fbb_.Finish(CreateModel(fbb_, version, code_vector, subgraphs, 0, buffers, 0, entries, signatures),
              ModelIdentifier());
  std::vector<uint8_t> file(fbb_.GetBufferPointer(), fbb_.GetBufferPointer() + fbb_.GetSize());
  if (data_outside) {
    file.resize(kOutside);
    for (const std::vector<uint8_t>& data : buffers_) file.insert(file.end(), data.begin(), data.end());
  }
  return file;
}

}  // namespace nacre::tools::tflite
