// Measures and binds a program, written once for the host alone (program.cc), for kernels that pack weights
// (weight_packing.cc) and for places (places.cc). These three files include it.
//
// Rules say where a step's kernel is looked for, what bytes stand before its call, and whether kernels share their
// work among threads. The host's Rules contain nothing of ports, so a firmware without ports links no code for them.
#pragma once

#include <algorithm>
#include <type_traits>

#include "engine/base/bytes.h"
#include "engine/run/bound_step.h"
#include "engine/run/find_entry.h"
#include "engine/run/program.h"

namespace nacre {

// Returns whether the step holds for every number of rows that a run may have, and aliases keep them (program.cc).
bool holds_for_fewer_rows(const KernelEntry& entry, const LoadedStep& step, uint32_t batch);
bool keeps_rows(const Model& model, const TensorRecord& r);

// Returns whether threads pay in a program: it has one step of eight times Workers::least_work, or 32 times that in
// all. Smaller steps cost more than they gain: KWS, a network of 50 us, took 1.25 times as long with two threads.
constexpr bool threads_pay(const Workers& workers, uint64_t largest, uint64_t work) {
  return largest >= 8 * workers.least_work || work >= 32 * workers.least_work;
}

// One pass over the steps of a program. Checks each step against its kernel and adds up the bytes that it needs. If
// `bound` is given, also writes the step's call, at the offsets that the sums so far give.
template <class Rules>
struct Program::Pass {
  [[no_unique_address]] Rules rules;
  const Model& model;
  std::span<const KernelSet* const> kernels;
  const Machine& machine;
  Program* bound = nullptr;
  std::byte* prepared = nullptr;
  uint64_t call_sum = 0, prepared_sum = 0, scratch = 0, work = 0;
  struct None {};
  [[no_unique_address]] std::conditional_t<Rules::kThreads, uint64_t, None> largest = {};  // work of the largest step

  Status run(const ProgramView& view) {
    call_sum = prepared_sum = scratch = work = 0;
    NACRE_TRY(rules.start(*this, view));
    for (uint32_t i = view.first_step; i < view.first_step + view.step_count; ++i) NACRE_TRY(visit(i));
    return {};
  }

  // Writes all sizes. Called after run().
  void tell(const ProgramView& view, Sizes* sizes) const {
    uint64_t* bytes = sizes->bytes;
    bytes[kCalls] = call_sum;
    bytes[kPrepared] = prepared_sum;
    bytes[kScratch] = scratch + (machine.workers - 1) * uint64_t{scratch_stride(size_t(scratch))};
    sizes->work = work;
    for (uint32_t block = kState; block <= kStepSums; ++block)
      bytes[block] = model.region_bytes(Region(uint32_t(Region::kState) + block - kState));
    for (uint32_t bank = 0; bank < view.banks.size(); ++bank) bytes[kArena + bank] = view.banks[bank];
    rules.tell(sizes);
  }

 private:
  Status visit(uint32_t index) {
    LoadedStep step(model, index);
    const KernelEntry* entry = nullptr;
    Code code = step.load();
    if (code == Code::kOk) code = rules.find(step, kernels, &entry);
    if (code == Code::kOk && bound != nullptr) code = write(step, index, *entry);
    if (code != Code::kOk) return {code, Table::kStep, index};
    call_sum += call_bytes(step.tensor_count() + Rules::kTensorsBefore, machine.pointer_bytes);
    prepared_sum += round_up(prepared_bytes(*entry, step.words, step.operands), kAlignment);
    scratch = std::max(scratch, scratch_bytes(*entry, step.words, step.operands));
    const uint64_t more = work_of(*entry, step.words, step.operands), left = model.work_limit() - work;
    if (more > left) return {Code::kWork, Table::kStep, index, left, more};
    work += more;
    if constexpr (Rules::kThreads) largest = std::max(largest, more);
    return {};
  }

  [[gnu::noinline]] Code write(const LoadedStep& step, uint32_t index, const KernelEntry& entry) const {
    std::byte* const at = reinterpret_cast<std::byte*>(bound->calls_) + call_sum;
    Call* const call = write_call(at, entry, step.record, prepared + prepared_sum);
    const uint32_t* ids = model.operands(step.record);
    Tensor* operand = call->operands();
    for (int i = 0; i < step.operands.count; ++i, ++operand) {
      *operand = step.tensors[i];
      if (operand->record != nullptr) operand->data = bound->bytes(ids[i] & kOperandIdMask).data();
    }
    const uint32_t guard = step.record.guard;
    if (guard != kNoIndex) *operand = {bound->bytes(guard).data(), &model.tensors()[guard]};
    const uint32_t batch = bound->view_.batch;
    if (batch > 1 && bound->fixed_step_ == 0 && !holds_for_fewer_rows(entry, step, batch))
      bound->fixed_step_ = index + 1;
    return rules.write({*call, step.words, 0, bound->scratch_, bound->workers_}, step, entry, call);
  }
};

template <class Rules>
[[gnu::always_inline]] inline Status Program::measure_with(const Rules& rules, const Model& model, uint32_t program,
                                                           std::span<const KernelSet* const> kernels, Sizes* sizes,
                                                           const Machine& machine) {
  *sizes = Sizes();
  if (!model.opened()) return {Code::kNotBound, Table::kFile};
  if (program >= model.program_count()) return {Code::kNoEntry, Table::kProgram, program};
  const ProgramView view = model.program(program);
  Pass<Rules> pass = {.rules = rules, .model = model, .kernels = kernels, .machine = machine};
  NACRE_TRY(pass.run(view));
  pass.tell(view, sizes);
  return {};
}

// Checks that the caller's blocks are large enough, aligned, and apart from each other and from the model. Out of
// line: the sizes are on the stack of this call only.
template <class Rules>
[[gnu::noinline]] Status Program::check_memory(const Pass<Rules>& pass, const ProgramView& view, const Memory& memory) {
  Sizes sizes;
  pass.tell(view, &sizes);
  const uint32_t alignment = pass.rules.alignment();
  for (uint32_t i = 0; i < kBlockCount; ++i) {
    const std::span<std::byte> block = memory.block[i];
    const size_t given = bytes_in(block);
    if (given < sizes.bytes[i]) return {Code::kMemorySize, Table::kMemory, i, sizes.bytes[i], given};
    if (sizes.bytes[i] == 0) continue;
    const uintptr_t offset = reinterpret_cast<uintptr_t>(block.data()) & (alignment - 1);
    if (offset != 0) return {Code::kMemoryAlignment, Table::kMemory, i, alignment, offset};
    bool overlaps = pass.model.shares_bytes(block);
    for (uint32_t j = 0; j < i; ++j) overlaps |= sizes.bytes[j] != 0 && share_bytes(block, memory.block[j]);
    if (overlaps) return {Code::kMemoryOverlap, Table::kMemory, i};
  }
  return {};
}

template <class Rules>
Status Program::bind_with(const Rules& rules, const Model& model, uint32_t program,
                          std::span<const KernelSet* const> kernels, const Memory& memory, const Workers* workers) {
  unbind();
  if (!model.opened()) return {Code::kNotBound, Table::kFile};
  if (program >= model.program_count()) return {Code::kNoEntry, Table::kProgram, program};
  const Machine machine = {.workers = workers == nullptr ? 1 : uint32_t(std::max(1, workers->count))};
  view_ = model.program(program);
  Pass<Rules> pass = {.rules = rules, .model = model, .kernels = kernels, .machine = machine};
  Status status = pass.run(view_);
  if (status.ok()) status = check_memory(pass, view_, memory);
  if (!status.ok()) {
    unbind();
    return status;
  }
  for (uint32_t block = kState; block < kBlockCount; ++block) region_[block - kState] = memory.block[block].data();
  model_ = &model;
  workers_ = workers;
  if constexpr (Rules::kThreads)
    if (workers != nullptr && !threads_pay(*workers, pass.largest, pass.work)) workers_ = nullptr;
  scratch_ = memory.block[kScratch].first(size_t(pass.scratch));
  calls_ = reinterpret_cast<Call*>(memory.block[kCalls].data());
  for (const uint32_t id : view_.outputs)
    if (!keeps_rows(model, model.tensors()[id])) fixed_step_ = view_.first_step + view_.step_count;
  pass.bound = this;
  pass.prepared = memory.block[kPrepared].data();
  status = rules.take(*this, memory.block[kCalls]);
  if (status.ok()) status = pass.run(view_);
  if (!status.ok()) unbind();
  return status;
}

}  // namespace nacre
