// Returns facts about tensors and texts of a model to callers. It is separate from model.cc, so an image that does
// not call it links none of it.
#include "engine/model/tensor_info.h"

#include <cstring>

#include "engine/model/flatbuffer.h"

namespace nacre {

namespace {

const char* text(const flatbuffers::String* string) { return string == nullptr ? nullptr : string->c_str(); }

using Texts = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;
const char* text_at(const Texts* texts, uint32_t index) {
  return texts == nullptr || index >= texts->size() ? "" : texts->Get(index)->c_str();
}

bool overlaps(const TensorRecord& a, const TensorRecord& b) {
  return a.region == b.region && a.bank == b.bank && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

// Returns whether no step overwrites an input. open() has proven that no step writes the input itself. So any arena
// tensor over the input's bytes, except an alias, is the output of a step.
bool survives(const Model& model, const ProgramView& view, uint32_t input) {
  const TensorRecord& record = model.tensors()[input];
  for (uint32_t i = 0; i < view.tensor_count; ++i) {
    const uint32_t id = view.first_tensor + i;
    const TensorRecord& other = model.tensors()[id];
    if (id != input && other.alias_of == kNoIndex && other.region == Region::kArena && overlaps(record, other))
      return false;
  }
  return true;
}

const void* constant(const Model& model, uint32_t tensor) {
  const bool is_weight = tensor != kNoIndex && model.tensors()[tensor].region == Region::kWeights;
  return is_weight ? model.weights(tensor) : nullptr;
}

void describe_codes(const Model& model, TensorInfo* info) {
  if (info->record->quantizer == kNoIndex) return;
  const schema::QuantizerRecord& q = *model.root()->quantizers()->Get(info->record->quantizer);
  info->zero = q.zero();
  info->scale = q.scale();
  info->axis = q.axis();
  if (q.scales() == kNoIndex) return;
  const void* const scales = constant(model, q.scales());
  const void* const zeros = constant(model, q.zeros());
  if (scales == nullptr || (q.zeros() != kNoIndex && zeros == nullptr)) return;  // training changes them
  const auto count = size_t(model.tensors()[q.scales()].dims[0]);
  info->scales = {static_cast<const float*>(scales), count};
  if (zeros != nullptr) info->zeros = {static_cast<const int32_t*>(zeros), count};
}

constexpr Status kNone = {Code::kNoName};

}  // namespace

Status Model::tensor(uint32_t tensor, TensorInfo* info) const {
  *info = {};
  if (!opened() || tensor >= tensors_.size()) return {Code::kNoName, Table::kTensor, tensor};
  info->name = text_at(root_->tensor_names(), tensor);
  info->record = &tensors_[tensor];
  info->tensor = tensor;
  describe_codes(*this, info);
  return {};
}

Status Model::described(uint32_t program, uint32_t index, bool output, TensorInfo* info) const {
  *info = {};
  const ProgramView view = this->program(program);
  const std::span<const uint32_t> list = output ? view.outputs : view.inputs;
  if (index >= list.size()) return {Code::kNoName, Table::kProgram, program, index, list.size()};
  NACRE_TRY(tensor(list[index], info));
  const schema::Program& p = *root_->programs()->Get(program);
  const char* const name = text_at(output ? p.output_names() : p.input_names(), index);
  if (*name != 0) info->name = name;
  info->axes = text_at(output ? p.output_layouts() : p.input_layouts(), index);
  info->program = program;
  info->index = index;
  info->survives = !output && survives(*this, view, list[index]);
  return {};
}

Status Model::named(const char* name, bool output, TensorInfo* info) const {
  *info = {};
  uint32_t program = 0;
  if (!opened()) return {Code::kNotBound, Table::kFile};
  NACRE_TRY(find(Entry::kInfer, nullptr, &program));
  const ProgramView view = this->program(program);
  const auto count = uint32_t((output ? view.outputs : view.inputs).size());
  const schema::Program& p = *root_->programs()->Get(program);
  const Texts* const names = output ? p.output_names() : p.input_names();
  for (uint32_t i = 0; i < count; ++i)
    if (std::strcmp(text_at(names, i), name) == 0) return described(program, i, output, info);
  return kNone;
}

Status Model::input(uint32_t program, uint32_t index, TensorInfo* info) const {
  return described(program, index, false, info);
}
Status Model::output(uint32_t program, uint32_t index, TensorInfo* info) const {
  return described(program, index, true, info);
}
Status Model::input(const char* name, TensorInfo* info) const { return named(name, false, info); }
Status Model::output(const char* name, TensorInfo* info) const { return named(name, true, info); }

const char* Model::target(uint32_t program) const {
  return program < program_count() ? text(root_->programs()->Get(program)->target()) : nullptr;
}

uint32_t Model::metadata_count() const {
  return opened() && root_->metadata() != nullptr ? root_->metadata()->size() : 0;
}
const char* Model::metadata_key(uint32_t index) const {
  return index < metadata_count() ? text(root_->metadata()->Get(index)->key()) : nullptr;
}
const char* Model::metadata_value(uint32_t index) const {
  return index < metadata_count() ? text(root_->metadata()->Get(index)->value()) : nullptr;
}
const char* Model::metadata(const char* key) const {
  for (uint32_t i = 0; i < metadata_count(); ++i) {
    const char* const name = metadata_key(i);
    if (name != nullptr && std::strcmp(name, key) == 0) return metadata_value(i);
  }
  return nullptr;
}

const char* Model::layer_name(uint32_t step) const {
  if (step >= steps_.size() || steps_[step].layer == kNoIndex) return nullptr;
  return text(root_->layers()->Get(steps_[step].layer)->name());
}

std::span<const char> Model::label(uint32_t index) const {
  const char* line = metadata("labels");
  for (; line != nullptr && *line != 0; --index) {
    size_t length = 0;
    while (line[length] != 0 && line[length] != '\n') ++length;
    if (index == 0) return {line, length};
    line += length + (line[length] == '\n' ? 1 : 0);
  }
  return {};
}

}  // namespace nacre
