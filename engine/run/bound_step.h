// Binds one step: computes the bytes that its kernel needs, and writes the call. The operands follow the call in the
// caller's memory. Program binds every step of a program so. Constant folding, tests and benchmarks bind one step alone
// (tools/graph/bound_step.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/kernel.h"

namespace nacre {

constexpr uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Returns the bytes of a call with so many tensors (its operands, and its guard if it has one): run, step, prepared,
// and {data, record} for each tensor.
constexpr uint64_t call_bytes(uint32_t tensors, uint32_t pointer_bytes = sizeof(void*)) {
  return pointer_bytes * (3 + 2 * uint64_t{tensors});
}

// Returns the bytes of scratch that one worker needs.
inline uint64_t scratch_bytes(const KernelEntry& entry, const Words& words, const Operands& operands) {
  return entry.scratch_bytes == nullptr ? 0 : entry.scratch_bytes(words, operands);
}

// Returns the multiply-accumulates of one run.
inline uint64_t work_of(const KernelEntry& entry, const Words& words, const Operands& operands) {
  return entry.work == nullptr ? 0 : entry.work(words, operands);
}

// Writes the call_bytes() at `at`, a multiple of sizeof(void*), except the tensors: the caller writes these, at
// call->operands().
inline Call* write_call(void* at, const KernelEntry& entry, const StepRecord& step, void* prepared) {
  auto* const call = static_cast<Call*>(at);
  *call = {entry.run, &step, prepared};
  return call;
}

inline uint64_t prepared_bytes(const KernelEntry& entry, const Words& words, const Operands& operands) {
  return entry.preparation == nullptr ? 0 : entry.preparation->bytes(words, operands);
}

// Fills the call's `prepared`. Called once, when all tensors of the call are written.
inline Code prepare_step(const KernelEntry& entry, const Args& args) {
  return entry.preparation == nullptr ? Code::kOk : entry.preparation->prepare(args);
}

}  // namespace nacre
