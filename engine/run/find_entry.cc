#include "engine/run/find_entry.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/run/program.h"

namespace nacre {
namespace {

// Says how well a step fits a kernel's entry, from not at all to wholly.
enum Fit : uint8_t { kOtherOp, kOtherCount, kAbsentOperand, kOtherRole, kOtherType, kFits };

// Returns how well the operands fit the kernel's entry. `ids` are the operands with their roles. If `ids` is null, the
// operands are those of a node, whose roles are those of its rule.
template <bool kPacks>
Fit fit_of(const KernelEntry& entry, Rounding rounding, const Operands& operands, const uint32_t* ids) {
  const int count = operands.count;
  const bool variadic = entry.operand_count > 0 && (entry.operands[0].role & kVariadic) != 0;
  if (entry.rounding != rounding) return kOtherOp;
  if (variadic ? count < int(entry.operand_count) : count != int(entry.operand_count)) return kOtherCount;
  Fit fit = kFits;
  for (int i = 0; i < count; ++i) {
    const OperandType& type = operand_type(entry, i, count);
    const TensorRecord* record = operands.tensor[i].record;
    if (record == nullptr && (type.role & kOptional) == 0) fit = std::min(fit, kAbsentOperand);
    else if (ids != nullptr && uint32_t(type.role & 3) != ids[i] >> 30) fit = std::min(fit, kOtherRole);
    else if (record != nullptr &&
             (record->element != type.element || !(has_layout(*record, type) || (kPacks && packs(*record, type)))))
      fit = std::min(fit, kOtherType);
  }
  return fit;
}

bool accepts(const KernelEntry& entry, const Words& words, const Operands& operands) {
  return entry.accepts == nullptr || entry.accepts(words, operands);
}

// Checks that no output shares bytes with another operand, unless the kernel works in place on exactly the same
// bytes.
[[gnu::noinline]] Code check_overlap(const KernelEntry& entry, const LoadedStep& step) {
  const uint32_t* ids = step.model.operands(step.record);
  const int count = step.operands.count, first = first_output(entry, count);
  for (int out = 0; out < count; ++out) {
    if (ids[out] >> 30 == uint32_t(Role::kIn)) continue;
    const Location a = locate(step.model, ids[out] & kOperandIdMask);
    const size_t a_bytes = step.tensors[out].record->bytes;
    for (int i = 0; i < count; ++i) {
      const TensorRecord* other = step.tensors[i].record;
      if (i == out || other == nullptr || other->region == Region::kWeights) continue;
      const Location b = locate(step.model, ids[i] & kOperandIdMask);
      if (a.block != b.block || a.offset >= b.offset + other->bytes || b.offset >= a.offset + a_bytes) continue;
      const bool same = a.offset == b.offset && a_bytes == other->bytes;
      const bool input = ids[i] >> 30 == uint32_t(Role::kIn);
      if (!same || !input || out != first || i >= 8 || (entry.in_place >> i & 1) == 0) return Code::kInPlace;
    }
  }
  return Code::kOk;
}

}  // namespace

std::span<const KernelEntry* const> entries_of(const KernelSet& set, Op op) {
  NACRE_CHECK(std::is_sorted(set.entries.begin(), set.entries.end(), [](auto* a, auto* b) { return a->op < b->op; }));
  size_t first = 0, last = set.entries.size();
  while (first < last) {
    const size_t middle = (first + last) / 2;
    if (set.entries[middle]->op < op) first = middle + 1;
    else last = middle;
  }
  while (last < set.entries.size() && set.entries[last]->op == op) ++last;
  return set.entries.subspan(first, last - first);
}

int first_output(const KernelEntry& entry, int count) {
  int first = count;
  while (first > 0 && (operand_type(entry, first - 1, count).role & 3) == uint8_t(Role::kOut)) --first;
  return first;
}

Code check_shapes(const KernelEntry& entry, const Words& words, const Operands& operands) {
  const int first = first_output(entry, operands.count);
  NACRE_CHECK(operands.count - first <= kMaxOutputs);
  Dims outputs[kMaxOutputs] = {};
  const Code code = entry.shapes(words, {operands.tensor, first, operands.rows}, outputs);
  if (code != Code::kOk) return code;
  for (int i = first; i < operands.count; ++i) {
    const Shape declared = operands[i];
    const Dims& computed = outputs[i - first];
    if (declared.rank != computed.rank) return Code::kShapeOutput;
    for (int axis = 0; axis < computed.rank; ++axis)
      if (declared[axis] != computed.size[axis]) return Code::kShapeOutput;
  }
  return Code::kOk;
}

Code LoadedStep::load() {
  if (record.operand_count > kMaxOperands) return Code::kOperandCount;
  const uint32_t* ids = model.operands(record);
  const TensorRecord* const records = model.tensors().data();
  words = model.words(record);
  operands = {tensors, record.operand_count, 0};
  for (int i = 0; i < operands.count; ++i) {
    const uint32_t id = ids[i] & kOperandIdMask;
    tensors[i] = {nullptr, id == kNoOperand ? nullptr : records + id};
  }
  return Code::kOk;
}

Location locate(const Model& model, uint32_t id) {
  const TensorRecord* r = &model.tensors()[id];
  size_t offset = r->offset;
  if (r->alias_of != kNoIndex) {
    r = &model.tensors()[r->alias_of];
    offset += r->offset;
  }
  const uint32_t block = r->region == Region::kArena
                             ? uint32_t(kArena) + r->bank
                             : uint32_t(kState) + uint32_t(r->region) - uint32_t(Region::kState);
  return {block, offset};
}
static_assert(kStream - kState == uint32_t(Region::kStream) - uint32_t(Region::kState));
static_assert(kDerived - kState == uint32_t(Region::kDerived) - uint32_t(Region::kState));
static_assert(kStepSums - kState == uint32_t(Region::kStep) - uint32_t(Region::kState));

namespace {

template <bool kPacks>
Code search(const LoadedStep& step, std::span<const KernelSet* const> kernels, const KernelEntry** found) {
  const uint32_t* ids = step.model.operands(step.record);
  Fit closest = kOtherOp;
  Code refused = Code::kOk;
  for (const KernelSet* set : kernels)
    for (const KernelEntry* entry : entries_of(*set, step.record.op)) {
      const Fit fit = fit_of<kPacks>(*entry, step.record.rounding, step.operands, ids);
      closest = std::max(closest, fit);
      if (fit != kFits) continue;
      Code code = check_shapes(*entry, step.words, step.operands);  // precedes accepts, which may rely on the shapes
      if (code == Code::kOk && !accepts(*entry, step.words, step.operands)) continue;
      if (code == Code::kOk) code = check_overlap(*entry, step);
      if (code == Code::kOk) {
        *found = entry;
        return code;
      }
      if (refused == Code::kOk) refused = code;
    }
  constexpr Code kWhy[] = {Code::kNoKernel, Code::kOperandCount, Code::kOperandMissing,
                           Code::kRole,     Code::kNoKernel,     Code::kNoKernel};
  return refused != Code::kOk ? refused : kWhy[closest];
}

}  // namespace

Code find_entry(const LoadedStep& step, std::span<const KernelSet* const> kernels, const KernelEntry** found) {
  return search<false>(step, kernels, found);
}

Code find_packing_entry(const LoadedStep& step, std::span<const KernelSet* const> kernels, const KernelEntry** found) {
  return search<true>(step, kernels, found);
}

bool types_fit(const KernelEntry& entry, Rounding rounding, const Operands& operands) {
  return fit_of<false>(entry, rounding, operands, nullptr) == kFits;
}

bool takes(const KernelEntry& entry, Rounding rounding, const Words& words, const Operands& operands) {
  return types_fit(entry, rounding, operands) && check_shapes(entry, words, operands) == Code::kOk &&
         accepts(entry, words, operands);
}

}  // namespace nacre
