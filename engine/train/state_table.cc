#include "engine/train/state_table.h"

#include "engine/model/flatbuffer.h"

namespace nacre {
namespace {

// FNV-1a, 64 bits: h = (h xor byte) 1099511628211, from 14695981039346656037 (Fowler, Noll and Vo).
constexpr uint64_t kFnvStart = 14695981039346656037u;
uint64_t fnv1a(std::span<const std::byte> bytes, uint64_t hash = kFnvStart) {
  for (const std::byte byte : bytes) hash = (hash ^ uint64_t(byte)) * 1099511628211u;
  return hash;
}

uint64_t name_hash(const Model& model, uint32_t id) {
  const auto* names = model.root()->tensor_names();
  if (names == nullptr || names->size() == 0 || names->Get(id)->size() == 0) return 0;
  const auto* name = names->Get(id);
  return fnv1a(std::as_bytes(std::span(name->c_str(), name->size())));
}

uint32_t elements_of(const TensorRecord& r) { return uint32_t(Shape{r.rank, r.dims, 0}.elements()); }

const Model& model_of(const void* context) { return *static_cast<const Model*>(context); }

bool row_of(const void* context, uint32_t id, StateRow* row) {
  const Model& model = model_of(context);
  const TensorRecord& r = model.tensors()[id];
  if (r.region != Region::kState || r.alias_of != kNoIndex) return false;
  *row = {name_hash(model, id), r.offset, r.bytes, elements_of(r), r.element, {}};
  return true;
}

// Returns whether a program other than `update` reads a tensor of the state, or a part of it.
bool read_by_others(const Model& model, uint32_t id) {
  for (uint32_t p = 0; p < model.program_count(); ++p) {
    const ProgramView view = model.program(p);
    if (view.entry == Entry::kUpdate) continue;
    for (const StepRecord& step : model.steps().subspan(view.first_step, view.step_count))
      for (uint32_t i = 0; i < step.operand_count; ++i) {
        const uint32_t operand = model.operands(step)[i] & kOperandIdMask;
        if (operand == id || (operand < model.tensors().size() && model.tensors()[operand].alias_of == id)) return true;
      }
  }
  return false;
}

uint8_t use_of(const void* context, uint32_t id) {
  const Model& model = model_of(context);
  if ((model.tensors()[id].flags & kTrainable) != 0) return kOwn | kParameter;
  return read_by_others(model, id) ? kOwn : 0;
}

}  // namespace

StateTable state_table(const Model& model) {
  return {model.header().hash,
          model.region_bytes(Region::kState),
          uint32_t(model.tensors().size()),
          &model,
          row_of,
          use_of};
}

uint32_t state_records(const StateTable& state) {
  uint32_t count = 0;
  StateRow row;
  for (uint32_t i = 0; i < state.count; ++i) count += state.row(state.context, i, &row);
  return count;
}

uint64_t empty_layout(uint64_t state_bytes) { return fnv1a(bytes_of(state_bytes)); }
uint64_t add_row(uint64_t layout, const StateRow& row) { return fnv1a(bytes_of(row), layout); }

uint64_t state_layout(const StateTable& state) {
  uint64_t layout = empty_layout(state.bytes);
  StateRow row;
  for (uint32_t i = 0; i < state.count; ++i)
    if (state.row(state.context, i, &row)) layout = add_row(layout, row);
  return layout;
}

bool find_in_state(const StateTable& state, const StateRow& row, uint32_t* index, StateRow* found) {
  for (*index = 0; *index < state.count; ++*index)
    if (state.row(state.context, *index, found) && found->element == row.element && found->bytes == row.bytes &&
        found->elements == row.elements && found->name == row.name)
      return true;
  return false;
}

}  // namespace nacre
