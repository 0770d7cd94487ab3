// Returns the contents of a model to C (nacre_c.h). It is separate from c_api.cc, so an image that does not call it
// links none of it.
#include "engine/c_api.h"
#include "engine/model/tensor_info.h"

namespace {

using nacre::arguments;
using nacre::give;
using nacre::of;
using nacre::Status;
using nacre::TensorInfo;
using nacre::to_c;
using nacre::usable;

static_assert(uint32_t(nacre::Entry::kInfer) == NACRE_INFER && uint32_t(nacre::Entry::kGradients) == NACRE_GRADIENTS);
static_assert(uint32_t(nacre::Entry::kUpdate) == NACRE_UPDATE && uint32_t(nacre::Entry::kDerive) == NACRE_DERIVE);
static_assert(uint32_t(nacre::ElementType::kFloat32) == NACRE_FLOAT32);
static_assert(uint32_t(nacre::ElementType::kInt4) == NACRE_INT4);
static_assert(nacre::kMaxRank == 8);
static_assert(uint32_t(nacre::Role::kIn) == NACRE_READ && uint32_t(nacre::Role::kOut) == NACRE_WRITTEN);
static_assert(uint32_t(nacre::Role::kUpdate) == NACRE_READ_AND_WRITTEN);

nacre_status told(const Status& status, const TensorInfo& info, nacre_tensor_info* to) {
  nacre_tensor_info c = {};
  c.tensor = info.tensor;
  c.program = info.program;
  c.index = info.index;
  c.name = info.name;
  c.axes = info.axes;
  if (status.ok()) {
    c.element = uint8_t(info.element());
    c.rank = info.record->rank;
    c.batched = info.batched();
    c.survives = info.survives;
    for (int i = 0; i < nacre::kMaxRank; ++i) c.dims[i] = info.record->dims[i];
    c.bytes = info.bytes();
    c.scale = info.scale;
    c.zero = info.zero;
    c.axis = info.axis;
    c.scales = info.scales.data();
    c.zeros = info.zeros.data();
    c.scale_count = uint32_t(info.scales.size());
  }
  give(c, to);
  return to_c(status);
}

}  // namespace

extern "C" {

nacre_status nacre_model_input(const nacre_model* model, const char* name, nacre_tensor_info* info) {
  if (const Status s = arguments(model != nullptr, name != nullptr, usable(info)); !s.ok()) return to_c(s);
  TensorInfo found;
  const Status status = of(model).input(name, &found);
  return told(status, found, info);
}
nacre_status nacre_model_output(const nacre_model* model, const char* name, nacre_tensor_info* info) {
  if (const Status s = arguments(model != nullptr, name != nullptr, usable(info)); !s.ok()) return to_c(s);
  TensorInfo found;
  const Status status = of(model).output(name, &found);
  return told(status, found, info);
}
nacre_status nacre_model_input_at(const nacre_model* model, uint32_t program, uint32_t index, nacre_tensor_info* info) {
  if (const Status s = arguments(model != nullptr, true, true, usable(info)); !s.ok()) return to_c(s);
  TensorInfo found;
  const Status status = of(model).input(program, index, &found);
  return told(status, found, info);
}
nacre_status nacre_model_output_at(const nacre_model* model, uint32_t program, uint32_t index,
                                   nacre_tensor_info* info) {
  if (const Status s = arguments(model != nullptr, true, true, usable(info)); !s.ok()) return to_c(s);
  TensorInfo found;
  const Status status = of(model).output(program, index, &found);
  return told(status, found, info);
}

uint32_t nacre_model_tensor_count(const nacre_model* model) {
  return model == nullptr ? 0 : uint32_t(of(model).tensors().size());
}
nacre_status nacre_model_tensor(const nacre_model* model, uint32_t tensor, nacre_tensor_info* info) {
  if (const Status s = arguments(model != nullptr, true, usable(info)); !s.ok()) return to_c(s);
  TensorInfo found;
  const Status status = of(model).tensor(tensor, &found);
  return told(status, found, info);
}

nacre_status nacre_model_find(const nacre_model* model, uint32_t entry, const char* target, uint32_t* program) {
  if (const Status s = arguments(model != nullptr, true, true, program != nullptr); !s.ok()) return to_c(s);
  if (entry > 0xFF) return to_c({nacre::Code::kNoEntry, nacre::Table::kProgram, entry});
  return to_c(of(model).find(nacre::Entry(entry), target, program));
}

nacre_status nacre_model_program(const nacre_model* model, uint32_t program, nacre_program_info* info) {
  if (const Status s = arguments(model != nullptr, true, usable(info)); !s.ok()) return to_c(s);
  if (program >= of(model).program_count()) return to_c({nacre::Code::kNoName, nacre::Table::kProgram, program});
  const nacre::ProgramView view = of(model).program(program);
  give(nacre_program_info{0, uint32_t(view.entry), uint32_t(view.inputs.size()), uint32_t(view.outputs.size()),
                          view.step_count, view.batch, view.first_tensor, view.tensor_count, of(model).target(program)},
       info);
  return {};
}

nacre_status nacre_model_step(const nacre_model* model, uint32_t program, uint32_t step, nacre_step_info* info) {
  if (const Status s = arguments(model != nullptr, true, true, usable(info)); !s.ok()) return to_c(s);
  const nacre::ProgramView view = of(model).program(program);
  if (step >= view.step_count) return to_c({nacre::Code::kNoName, nacre::Table::kStep, step});
  give(nacre::step_info(of(model), view, step), info);
  return {};
}

nacre_status nacre_model_operand(const nacre_model* model, uint32_t program, uint32_t step, uint32_t operand,
                                 nacre_operand_info* info) {
  if (const Status s = arguments(model != nullptr, true, true, true, usable(info)); !s.ok()) return to_c(s);
  const nacre::ProgramView view = of(model).program(program);
  if (step >= view.step_count) return to_c({nacre::Code::kNoName, nacre::Table::kStep, step});
  const nacre::StepRecord& record = of(model).steps()[view.first_step + step];
  if (operand >= record.operand_count) return to_c({nacre::Code::kNoName, nacre::Table::kStep, operand});
  const uint32_t word = of(model).operands(record)[operand], tensor = word & nacre::kOperandIdMask;
  give(nacre_operand_info{0, tensor == nacre::kNoOperand ? nacre::kNoIndex : tensor, word >> 30, 0}, info);
  return {};
}

uint32_t nacre_model_metadata_count(const nacre_model* model) {
  return model == nullptr ? 0 : of(model).metadata_count();
}
nacre_status nacre_model_metadata_at(const nacre_model* model, uint32_t index, const char** key, const char** value) {
  const Status s = arguments(model != nullptr, true, key != nullptr, value != nullptr);
  if (!s.ok()) return to_c(s);
  *key = of(model).metadata_key(index);
  *value = of(model).metadata_value(index);
  return to_c(*key == nullptr ? Status{nacre::Code::kNoName, nacre::Table::kMetadata, index} : Status{});
}
const char* nacre_model_metadata(const nacre_model* model, const char* key) {
  return model == nullptr || key == nullptr ? nullptr : of(model).metadata(key);
}
const char* nacre_model_label(const nacre_model* model, uint32_t index, size_t* length) {
  const std::span<const char> label = model == nullptr ? std::span<const char>() : of(model).label(index);
  if (length != nullptr) *length = label.size();
  return label.data();
}

}  // extern "C"
