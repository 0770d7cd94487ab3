// Binding of one step: the needs of its kernel, and the call that stands in the caller's memory with its operands
// behind it. Program does this for every step of a program; constant folding, tests and benchmarks do it for one
// alone (tools/graph/bound_step.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/kernel.h"

namespace nacre {

constexpr uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Bytes of a call with so many tensors (operands, and the guard if any): run, step, prepared, and {data, record} each.
constexpr uint64_t call_bytes(uint32_t tensors, uint32_t pointer_bytes = sizeof(void*)) {
  return pointer_bytes * (3 + 2 * uint64_t{tensors});
}

// Returns the bytes of scratch that one worker needs.
inline uint64_t scratch_bytes(const KernelEntry& entry, const Words& words, const Operands& operands) {
  return entry.scratch_bytes == nullptr ? 0 : entry.scratch_bytes(words, operands);
}

// Multiply-accumulates of one run.
inline uint64_t work_of(const KernelEntry& entry, const Words& words, const Operands& operands) {
  return entry.work == nullptr ? 0 : entry.work(words, operands);
}

// The call at `at`, a multiple of sizeof(void*), of call_bytes(); its tensors are written by the caller:
// call->operands().
inline Call* write_call(void* at, const KernelEntry& entry, const StepRecord& step, void* prepared) {
  auto* const call = static_cast<Call*>(at);
  *call = {entry.run, &step, prepared};
  return call;
}

inline uint64_t prepared_bytes(const KernelEntry& entry, const Words& words, const Operands& operands) {
  return entry.preparation == nullptr ? 0 : entry.preparation->bytes(words, operands);
}

// Once, when all tensors of the call are written.
inline Code prepare_step(const KernelEntry& entry, const Args& args) {
  return entry.preparation == nullptr ? Code::kOk : entry.preparation->prepare(args);
}

}  // namespace nacre
