// Reads a file without trusting it. The FlatBuffers Verifier runs first, and indices and sizes are checked before use.
#include "tools/importers/tflite/file.h"

#include <algorithm>

namespace nacre::tools::tflite {

const Model& verified_model(std::span<const uint8_t> bytes, const std::string& name) {
  // A file of 2 GiB or more has data after the FlatBuffer, whose own offsets are signed 32-bit.
  const size_t verified = std::min(bytes.size(), size_t{FLATBUFFERS_MAX_BUFFER_SIZE} - 1);
  flatbuffers::Verifier verifier(bytes.data(), verified);
  if (bytes.size() < 8 || !VerifyModelBuffer(verifier))
    throw Error(kBadInput, name, "is damaged: its FlatBuffer does not verify");
  return *GetModel(bytes.data());
}

std::string dims_text(const std::vector<int64_t>& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

File::File(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options)
    : bytes_(bytes), name_(name), options_(options) {
  if (reinterpret_cast<uintptr_t>(bytes.data()) % 16 != 0) {
    aligned_.assign(bytes.begin(), bytes.end());
    bytes_ = aligned_;
  }
  model_ = &verified_model(bytes_, name_);
  if (model_->version() != 3)
    throw Error(kUnsupported, name_, "is of schema version " + std::to_string(model_->version()) + ", only 3 is known");
  if (size_of(model_->subgraphs()) == 0) throw Error(kBadInput, name_, "has no graph");
}

void File::bad(const std::string& place, const std::string& fact) const {
  throw Error(kBadInput, name_, place + ": " + fact);
}
void File::unsupported(const std::string& place, const std::string& reason) const {
  throw Error(kUnsupported, name_, place + ": " + reason + kNotSupported);
}

void File::check_limits(const std::vector<int64_t>& dims, const std::string& place) const {
  int64_t elements = 1;
  for (const int64_t dim : dims) {
    if (dim == 0) bad(place, "has no elements");
    if (dim > kMaxSize || (elements *= dim) >= int64_t{1} << 31) unsupported(place, "has shape " + dims_text(dims));
  }
}

// Returns an operator's code. Old files have only the byte. New files repeat it in the int, or have 127 in the byte if
// the code does not fit.
BuiltinOperator File::code_of(const Operator& record) const {
  const OperatorCode& code = *model_->operator_codes()->Get(record.opcode_index());
  return std::max(code.builtin_code(), BuiltinOperator(code.deprecated_builtin_code()));
}

const SubGraph& File::called_graph(const Operation& op, int index) const {
  if (index < 1 || size_t(index) >= model_->subgraphs()->size()) bad(op.place(), "calls a graph that does not exist");
  return *model_->subgraphs()->Get(flatbuffers::uoffset_t(index));
}

// Returns a buffer's data, which its tensors share. Buffers of a valid file do not overlap. In a hostile file a
// thousand buffers may be the same bytes, so the bytes copied are bounded by the file's size.
File::Data File::data_of(uint32_t id, const std::string& place) {
  if (const auto found = buffers_.find(id); found != buffers_.end()) return found->second;
  const Buffer& buffer = *model_->buffers()->Get(id);
  std::span<const uint8_t> data;
  if (buffer.offset() > 1) {
    if (buffer.offset() > bytes_.size() || buffer.size() > bytes_.size() - buffer.offset())
      bad(place, "its data lie outside the file");
    data = bytes_.subspan(size_t(buffer.offset()), size_t(buffer.size()));
  } else {
    data = {buffer.data()->data(), buffer.data()->size()};
  }
  copied_bytes_ += data.size();
  if (copied_bytes_ > bytes_.size()) bad(place, "its data overlap those of another tensor");
  auto copy = std::make_shared<const std::vector<uint8_t>>(data.begin(), data.end());
  buffers_.emplace(id, copy);
  return copy;
}

// Unpacks signed 4-bit codes, two in a byte with the lower half first, to bytes, as LiteRT's kernels do.
File::Data File::unpacked(uint32_t id, const std::string& place, uint64_t codes) {
  Data& made = unpacked_[{id, codes}];
  if (made != nullptr) return made;
  const Data pairs = data_of(id, place);
  std::vector<uint8_t> bytes;
  bytes.reserve(size_t(codes));
  for (size_t i = 0; i < codes; ++i)
    bytes.push_back(uint8_t(int8_t(uint8_t((*pairs)[i / 2] << (i % 2 == 0 ? 4 : 0))) >> 4));
  return made = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
}

}  // namespace nacre::tools::tflite
