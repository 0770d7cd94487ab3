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

}  // namespace

bool in_state(const Model& model, uint32_t id) {
  const TensorRecord& r = model.tensors()[id];
  return r.region == Region::kState && r.alias_of == kNoIndex;
}

StateRow state_row(const Model& model, uint32_t id) {
  const TensorRecord& r = model.tensors()[id];
  return {name_hash(model, id), r.offset, r.bytes, elements_of(r), r.element, {}};
}

uint32_t state_records(const Model& model) {
  uint32_t count = 0;
  for (uint32_t id = 0; id < model.tensors().size(); ++id) count += in_state(model, id);
  return count;
}

uint64_t empty_layout(uint64_t state_bytes) { return fnv1a(bytes_of(state_bytes)); }
uint64_t add_row(uint64_t layout, const StateRow& row) { return fnv1a(bytes_of(row), layout); }

uint64_t state_layout(const Model& model) {
  uint64_t layout = empty_layout(model.region_bytes(Region::kState));
  for (uint32_t id = 0; id < model.tensors().size(); ++id)
    if (in_state(model, id)) layout = add_row(layout, state_row(model, id));
  return layout;
}

bool find_in_state(const Model& model, const StateRow& row, uint32_t* id) {
  for (*id = 0; *id < model.tensors().size(); ++*id) {
    const TensorRecord& r = model.tensors()[*id];
    if (in_state(model, *id) && r.element == row.element && r.bytes == row.bytes && elements_of(r) == row.elements &&
        name_hash(model, *id) == row.name)
      return true;
  }
  return false;
}

bool learned(const Model& model, uint32_t id) {
  if ((model.tensors()[id].flags & kTrainable) != 0) return true;
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

}  // namespace nacre
