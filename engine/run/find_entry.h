// Finds the kernel that takes a step by types, roles, shapes, attributes, and operands that share bytes. Used by
// bind, and by code that looks for the kernel of one step.
#pragma once

#include <cstdint>
#include <span>

#include "engine/base/layout.h"
#include "engine/kernels/kernel.h"
#include "engine/model/model.h"

namespace nacre {

inline constexpr int kMaxOperands = 24;  // most operands of a step, whose Tensors stand on the stack during checks
inline constexpr int kMaxOutputs = 3;

// Returns the entries for one op, in the order in which bind tries them. Takes O(log n), because a set is sorted by
// op.
std::span<const KernelEntry* const> entries_of(const KernelSet& set, Op op);

// Returns the entry's type of operand i of `count`, a count that the entry takes. A variadic first operand stands for
// any number of operands.
inline const OperandType& operand_type(const KernelEntry& entry, int i, int count) {
  const int slot = i - (count - int(entry.operand_count));
  return entry.operands[slot < 0 ? 0 : slot];
}

// Returns the index of the first output among `count` operands. Outputs come last.
int first_output(const KernelEntry& entry, int count);

// Checks that the declared shapes of the outputs are the shapes that the entry's rule computes from the inputs. If
// operands.rows is not 0, batched tensors have so many rows.
Code check_shapes(const KernelEntry& entry, const Words& words, const Operands& operands);

// A step of a model with its operands as a shape rule sees them: without data.
struct LoadedStep {
  const Model& model;
  const StepRecord& record;
  Words words = {};
  Operands operands = {};
  Tensor tensors[kMaxOperands];  // the tensors of `operands`

  LoadedStep(const Model& m, uint32_t index) : model(m), record(m.steps()[index]) {}
  Code load();  // fills the members after `record`; returns kOperandCount if there are too many operands
  uint32_t tensor_count() const { return uint32_t{record.operand_count} + (record.guard != kNoIndex); }  // of a call
  uint32_t tensor_id(uint32_t i) const {
    return i < record.operand_count ? model.operands(record)[i] & kOperandIdMask : record.guard;
  }
};

// Position of a tensor: block (Block, program.h) and offset in the block. An alias lies in its target. Weights have
// no position.
struct Location {
  uint32_t block;
  size_t offset;
};
Location locate(const Model& model, uint32_t tensor);

// Finds the first entry that takes the step. Else returns why the first entry whose types fit does not take it, or
// why the types of none fit.
Code find_entry(const LoadedStep& step, std::span<const KernelSet* const> kernels, const KernelEntry** found);

// Finds an entry like find_entry, and also accepts an entry for which bind can pack weights.
Code find_packing_entry(const LoadedStep& step, std::span<const KernelSet* const> kernels, const KernelEntry** found);

// Returns whether the types fit, for a node of a graph that is being compiled. A node has no roles and no memory, and
// its operands have no data. There are as many operands as the entry has; an absent one has no record. types_fit does
// not look at words and shapes; takes() checks these too.
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
// Returns whether bind copies this tensor into the layout that the kernel wants: only weights are copied.
inline bool packs(const TensorRecord& r, const OperandType& type) {
  return r.region == Region::kWeights && can_pack(r, type);
}

}  // namespace nacre
