// Finds the kernel that takes a step by types, roles, shapes, attributes, and operands that share bytes. Bind uses
// it, and so does code that looks for the kernel of one step.
#pragma once

#include <cstdint>
#include <span>

#include "engine/base/layout.h"
#include "engine/kernels/kernel.h"
#include "engine/model/model.h"

namespace nacre {

inline constexpr int kMaxOperands = 24;  // of one step; their Tensors stand on the stack while a step is checked
inline constexpr int kMaxOutputs = 3;

// The entries for one op, in the order in which they are asked. O(log n): a set is sorted by op.
std::span<const KernelEntry* const> entries_of(const KernelSet& set, Op op);

// The entry's type of operand i of `count`, as many as it takes: a variadic first one stands for as many as there are.
inline const OperandType& operand_type(const KernelEntry& entry, int i, int count) {
  const int slot = i - (count - int(entry.operand_count));
  return entry.operands[slot < 0 ? 0 : slot];
}

// Outputs come last: the index of the first of `count` operands that is one.
int first_output(const KernelEntry& entry, int count);

// The declared shapes of the outputs are those that the entry's rule computes from the inputs; of operands.rows rows,
// where not 0.
Code check_shapes(const KernelEntry& entry, const Words& words, const Operands& operands);

// A step of a model with its operands as a shape rule sees them: without data.
struct LoadedStep {
  const Model& model;
  const StepRecord& record;
  Words words = {};
  Operands operands = {};
  Tensor tensors[kMaxOperands];  // those of `operands`

  LoadedStep(const Model& m, uint32_t index) : model(m), record(m.steps()[index]) {}
  Code load();  // fills what follows `record`; kOperandCount where there are too many
  uint32_t tensor_count() const { return uint32_t{record.operand_count} + (record.guard != kNoIndex); }  // of its call
  uint32_t tensor_id(uint32_t i) const {
    return i < record.operand_count ? model.operands(record)[i] & kOperandIdMask : record.guard;
  }
};

// Position of a tensor: block (Block, program.h) and offset in it. Aliases lie in their target. Not for weights.
struct Location {
  uint32_t block;
  size_t offset;
};
Location locate(const Model& model, uint32_t tensor);

// The first entry that takes the step; else why the first whose types fit does not, or why none fits.
Code find_entry(const LoadedStep& step, std::span<const KernelSet* const> kernels, const KernelEntry** found);

// Like find_entry, but it also takes an entry for which weights can be packed when the program is bound.
Code find_packing_entry(const LoadedStep& step, std::span<const KernelSet* const> kernels, const KernelEntry** found);

// Both answer for a node that is compiled, which has no roles and no places: operands without data, as many as the
// entry has, absent ones without a record. types_fit asks nothing about words and shapes.
bool types_fit(const KernelEntry& entry, Rounding rounding, const Operands& operands);
bool takes(const KernelEntry& entry, Rounding rounding, const Words& words, const Operands& operands);

inline bool has_layout(const TensorRecord& r, const OperandType& type) {
  return r.layout == type.layout || type.layout == Layout::kAny;
}

// Returns whether a row-major tensor can be copied into another layout that the kernel wants.
inline bool can_pack(const TensorRecord& r, const OperandType& type) {
  return r.layout == Layout::kRowMajor && type.layout != Layout::kRowMajor && type.layout != Layout::kAny &&
         r.rank >= 2 && has_layouts(r.element) && stored_elements(type.layout, {r.rank, r.dims, 0}) <= INT32_MAX;
}
// Bind makes such copies of weights.
inline bool packs(const TensorRecord& r, const OperandType& type) {
  return r.region == Region::kWeights && can_pack(r, type);
}

}  // namespace nacre
