// The packed copies of weights that bind makes for kernels that read another layout than the file's. Private to
// places.h, places.cc and weight_packing.cc.
//
// The copies lie in the block kDerived, behind the model's own bytes: a table of entries, then the copies, each at a
// multiple of `alignment`. Which weights are packed depends on every program for the target, not only on the one that
// is being bound. So all programs of a target find, and make, the same copies at the same offsets.
#pragma once

#include <cstring>
#include <span>

#include "engine/ops/pack.h"
#include "engine/run/bound_step.h"
#include "engine/run/find_entry.h"

namespace nacre {

struct PackedWeights {
  struct Copy {
    uint32_t tensor;
    Layout layout;
    uint64_t offset;  // offset in the block kDerived
  };

  uint32_t count = 0;
  uint64_t table = 0;  // offset of the entries in the block
  uint64_t end = 0;    // bytes of the block: the model's own, the table and the copies

  // Returns whether a kernel of the set reads another layout than row-major.
  static bool reads_layouts(const KernelSet& set) {
    for (const KernelEntry* entry : set.entries)
      for (uint32_t i = 0; i < entry->operand_count; ++i)
        if (entry->operands[i].layout != Layout::kRowMajor && entry->operands[i].layout != Layout::kAny) return true;
    return false;
  }

  // `find(step)` returns the entry that takes a step, or null.
  template <class Find>
  void measure(const Model& model, uint32_t program, uint32_t alignment, const Find& find) {
    *this = {};
    end = model.region_bytes(Region::kDerived);
    uint64_t copies = 0;
    each(model, program, find, [&](uint32_t tensor, Layout layout) {
      ++count;
      copies += round_up(bytes_of(model.tensors()[tensor], layout), alignment);
    });
    if (count == 0) return;
    table = round_up(end, alignment);
    end = table + round_up(count * sizeof(Copy), alignment) + copies;
  }

  template <class Find>
  void pack(const Model& model, uint32_t program, uint32_t alignment, const Find& find, std::byte* derived) const {
    auto* entry = reinterpret_cast<Copy*>(derived + table);
    uint64_t offset = table + round_up(count * sizeof(Copy), alignment);
    each(model, program, find, [&](uint32_t tensor, Layout layout) {
      const TensorRecord& r = model.tensors()[tensor];
      *entry++ = {tensor, layout, offset};
      copy_as(r, layout, model.weights(tensor), derived + offset);
      offset += round_up(bytes_of(r, layout), alignment);
    });
  }

  // Points each weight operand of the call that the entry reads in a packed layout at its packed copy in kDerived.
  void take(const LoadedStep& step, const KernelEntry& entry, std::byte* derived, Call* call) const {
    for (uint32_t i = 0; count != 0 && i < step.record.operand_count; ++i) {
      Tensor& tensor = call->operands()[i];
      const OperandType& type = operand_type(entry, int(i), step.record.operand_count);
      if (tensor.record != nullptr && packs(*tensor.record, type))
        tensor.data = find_copy(derived, step.tensor_id(i), type.layout);
    }
  }

  static uint64_t bytes_of(const TensorRecord& r, Layout layout) {
    return storage_bytes(r.element, stored_elements(layout, {r.rank, r.dims, 0}));
  }

 private:
  std::byte* find_copy(std::byte* derived, uint32_t tensor, Layout layout) const {
    const auto* copies = static_cast<const Copy*>(static_cast<const void*>(derived + table));
    for (uint32_t i = 0; i < count; ++i)
      if (copies[i].tensor == tensor && copies[i].layout == layout) return derived + copies[i].offset;
    return nullptr;
  }

  // Calls f(tensor, layout) once for each weight and each layout that a step of a program for this target wants.
  template <class Find, class F>
  static void each(const Model& model, uint32_t program, const Find& find, const F& f) {
    const uint32_t first_arena = model.program(0).first_tensor;
    for (uint32_t id = 0; id < first_arena; ++id) {
      if (model.tensors()[id].region != Region::kWeights) continue;
      uint32_t seen[8] = {};  // bit by layout
      for (uint32_t entry = 0; entry < uint32_t(Entry::kCount); ++entry) {
        uint32_t index = 0;
        if (!model.find_beside(program, Entry(entry), &index).ok()) continue;
        const ProgramView view = model.program(index);
        for (uint32_t i = view.first_step; i < view.first_step + view.step_count; ++i)
          each_layout(model, i, id, find, [&](Layout layout) {
            uint32_t& word = seen[uint8_t(layout) / 32];
            const uint32_t bit = 1u << uint8_t(layout) % 32;
            if ((word & bit) == 0) f(id, layout);
            word |= bit;
          });
      }
    }
  }

  // Calls f(layout) for each operand of the step that is the weight `id` and has to be packed.
  template <class Find, class F>
  static void each_layout(const Model& model, uint32_t index, uint32_t id, const Find& find, const F& f) {
    const StepRecord& record = model.steps()[index];
    const uint32_t* ids = model.operands(record);
    bool names = false;
    for (int i = 0; i < record.operand_count; ++i) names |= (ids[i] & kOperandIdMask) == id;
    if (!names) return;
    LoadedStep step(model, index);
    const KernelEntry* const entry = step.load() == Code::kOk ? find(step) : nullptr;
    if (entry == nullptr) return;
    for (int i = 0; i < record.operand_count; ++i) {
      const OperandType& type = operand_type(*entry, i, record.operand_count);
      if ((ids[i] & kOperandIdMask) == id && packs(model.tensors()[id], type)) f(type.layout);
    }
  }

  static void copy_as(const TensorRecord& r, Layout layout, const void* from, void* to) {
    const Pack pack = Pack::from(layout, {r.rank, r.dims, 0});
    const auto as = [&](auto unit) {
      using T = decltype(unit);
      pack.forward(static_cast<const T*>(from), Packed<T, Layout::kAny>{static_cast<T*>(to)});
    };
    switch (element_bits(r.element)) {
      case 8: return as(uint8_t());
      case 16: return as(uint16_t());
      case 32: return as(uint32_t());
      default: return as(uint64_t());
    }
  }
};

}  // namespace nacre
