#include "engine/run/program.h"

#include <algorithm>

#include "engine/base/bytes.h"
#include "engine/run/bound_step.h"
#include "engine/run/find_entry.h"

namespace nacre {
namespace {

// Whether the first rows of a tensor are the first rows of what it is an alias of, and no others.
bool keeps_rows(const Model& model, const TensorRecord& r) {
  if (r.alias_of == kNoIndex) return true;
  const TensorRecord& target = model.tensors()[r.alias_of];
  if (((r.flags ^ target.flags) & kBatched) != 0) return false;
  return (r.flags & kBatched) == 0 || r.bytes == target.bytes;
}

// Whether the step holds for every number of rows that a run may have: what is made of batched tensors is batched (of
// one row a broadcast to the whole batch would hold by accident), aliases among them too, and shapes hold for two
// numbers of rows, in which they are linear. Further outputs may be of the rows together: the mean that
// batch_norm_training saves.
bool holds_for_fewer_rows(const KernelEntry& entry, const LoadedStep& step, uint32_t batch) {
  const int count = step.record.operand_count, first = first_output(entry, count);
  bool from_batch = false, to_batch = true;
  for (int i = 0; i < count; ++i) {
    if (step.tensors[i].record == nullptr) continue;
    if (!keeps_rows(step.model, *step.tensors[i].record)) return false;
    const bool batched = (step.tensors[i].record->flags & kBatched) != 0;
    if (i < first) from_batch |= batched;
    else if (i == first) to_batch = batched;
  }
  if (from_batch && !to_batch) return false;
  Operands fewer = step.operands;
  for (const int rows : {1, int(batch) - 1}) {
    fewer.rows = rows;
    if (check_shapes(entry, step.words, fewer) != Code::kOk) return false;
  }
  return true;
}

}  // namespace

// One pass over the steps of a program: checks each against its kernel and adds up what it needs; where `bound` is
// given, writes its call too. The sums so far say where in the blocks that goes.
struct Program::Pass {
  const Model& model;
  std::span<const KernelSet* const> kernels;
  const Machine& machine;
  Program* bound = nullptr;
  std::byte* prepared = nullptr;
  uint64_t call_sum = 0, prepared_sum = 0, scratch = 0, work = 0;

  Status run(const ProgramView& view) {
    call_sum = prepared_sum = scratch = work = 0;
    for (uint32_t i = view.first_step; i < view.first_step + view.step_count; ++i) TRY(visit(i));
    return {};
  }

  // All sizes, after a run.
  void tell(const ProgramView& view, Sizes* sizes) const {
    uint64_t* bytes = sizes->bytes;
    bytes[kCalls] = call_sum;
    bytes[kPrepared] = prepared_sum;
    bytes[kScratch] = scratch;
    sizes->work = work;
    for (uint32_t block = kState; block <= kStepSums; ++block)
      bytes[block] = model.region_bytes(Region(uint32_t(Region::kState) + block - kState));
    for (uint32_t bank = 0; bank < view.banks.size(); ++bank) bytes[kArena + bank] = view.banks[bank];
  }

 private:
  Status visit(uint32_t index) {
    LoadedStep step(model, index);
    const KernelEntry* entry = nullptr;
    Code code = step.load();
    if (code == Code::kOk) code = find_entry(step, kernels, &entry);
    if (code == Code::kOk && bound != nullptr) code = write(step, index, *entry);
    if (code != Code::kOk) return {code, Table::kStep, index};
    call_sum += call_bytes(step.tensor_count(), machine.pointer_bytes);
    prepared_sum += round_up(bytes_asked(entry->prepared_bytes, step.words, step.operands), kAlignment);
    scratch = std::max(scratch, bytes_asked(entry->scratch_bytes, step.words, step.operands) * machine.workers);
    const uint64_t more = work_of(*entry, step.words, step.operands), left = model.work_limit() - work;
    if (more > left) return {Code::kWork, Table::kStep, index, left, more};
    work += more;
    return {};
  }

  Code write(const LoadedStep& step, uint32_t index, const KernelEntry& entry) const {
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
    return prepare_step(entry, {*call, step.words, 0, bound->scratch_, bound->workers_});
  }
};

Status Program::measure(const Model& model, uint32_t program, std::span<const KernelSet* const> kernels, Sizes* sizes,
                        const Machine& machine) {
  *sizes = Sizes();
  if (!model.opened()) return {Code::kNotBound, Table::kFile};
  if (program >= model.program_count()) return {Code::kNoEntry, Table::kProgram, program};
  const ProgramView view = model.program(program);
  Pass pass = {.model = model, .kernels = kernels, .machine = machine};
  TRY(pass.run(view));
  pass.tell(view, sizes);
  return {};
}

Status Memory::cut(std::span<std::byte> whole, const Sizes& sizes, Memory* memory) {
  const uintptr_t misaligned = reinterpret_cast<uintptr_t>(whole.data()) % kAlignment;
  if (misaligned != 0) return {Code::kMemoryAlignment, Table::kMemory, 0, kAlignment, misaligned};
  const size_t given = bytes_in(whole);
  if (given < sizes.total()) return {Code::kMemorySize, Table::kMemory, 0, sizes.total(), given};
  size_t at = 0;
  for (uint32_t block = 0; block < kBlockCount; ++block) {
    const auto bytes = size_t(sizes.bytes[block]);
    memory->block[block] = whole.subspan(at, bytes);
    at += size_t(round_up(bytes, kAlignment));
  }
  return {};
}

// The caller's blocks are there, aligned and apart from each other and from the model. Out of line: the sizes are on
// the stack of this call only.
[[gnu::noinline]] Status Program::check_memory(const Pass& pass, const ProgramView& view, const Memory& memory) {
  Sizes sizes;
  pass.tell(view, &sizes);
  for (uint32_t i = 0; i < kBlockCount; ++i) {
    const std::span<std::byte> block = memory.block[i];
    const size_t given = bytes_in(block);
    if (given < sizes.bytes[i]) return {Code::kMemorySize, Table::kMemory, i, sizes.bytes[i], given};
    if (sizes.bytes[i] == 0) continue;
    const uintptr_t offset = reinterpret_cast<uintptr_t>(block.data()) % kAlignment;
    if (offset != 0) return {Code::kMemoryAlignment, Table::kMemory, i, kAlignment, offset};
    bool overlaps = pass.model.shares_bytes(block);
    for (uint32_t j = 0; j < i; ++j) overlaps |= sizes.bytes[j] != 0 && share_bytes(block, memory.block[j]);
    if (overlaps) return {Code::kMemoryOverlap, Table::kMemory, i};
  }
  return {};
}

Status Program::bind(const Model& model, uint32_t program, std::span<const KernelSet* const> kernels,
                     const Memory& memory, const Workers* workers) {
  unbind();
  if (!model.opened()) return {Code::kNotBound, Table::kFile};
  if (program >= model.program_count()) return {Code::kNoEntry, Table::kProgram, program};
  const Machine machine = {.workers = workers == nullptr ? 1 : uint32_t(std::max(1, workers->count))};
  view_ = model.program(program);
  Pass pass = {.model = model, .kernels = kernels, .machine = machine};
  Status status = pass.run(view_);
  if (status.ok()) status = check_memory(pass, view_, memory);
  if (!status.ok()) {
    unbind();
    return status;
  }
  for (uint32_t block = kState; block < kBlockCount; ++block) region_[block - kState] = memory.block[block].data();
  model_ = &model;
  workers_ = workers;
  scratch_ = memory.block[kScratch];
  calls_ = reinterpret_cast<Call*>(memory.block[kCalls].data());
  for (const uint32_t id : view_.outputs)
    if (!keeps_rows(model, model.tensors()[id])) fixed_step_ = view_.first_step + view_.step_count;
  pass.bound = this;
  pass.prepared = memory.block[kPrepared].data();
  status = pass.run(view_);
  if (!status.ok()) unbind();
  return status;
}

// Out of line: the temporary is on the stack of this call only.
[[gnu::noinline]] void Program::unbind() { *this = Program(); }

// Of a program with steps the first call knows where its model's record of the step lies: another model has it
// elsewhere.
bool Program::bound() const {
  if (calls_ == nullptr || !model_->opened() || view_.changes != model_->changes()) return false;
  return view_.step_count == 0 || calls_->step == model_->steps().data() + view_.first_step;
}

std::span<std::byte> Program::bytes(uint32_t tensor) const {
  if (!bound() || tensor >= model_->tensors().size()) return {};
  const TensorRecord& r = model_->tensors()[tensor];
  // Weights are constant: roles, checked by open, keep every kernel from writing them.
  if (r.region == Region::kWeights) return {const_cast<std::byte*>(model_->weights(tensor)), size_t(r.bytes)};
  if (r.region == Region::kArena && (tensor < view_.first_tensor || tensor - view_.first_tensor >= view_.tensor_count))
    return {};  // of another program
  const Location at = locate(*model_, tensor);
  return {region_[at.block - kState] + at.offset, size_t(r.bytes)};
}

Status Program::run_rows(uint32_t rows) const {
  if (rows == 0 || rows > view_.batch) return {Code::kRows, Table::kProgram, 0, view_.batch, rows};
  return run(0, view_.step_count, rows);
}

Status Program::run(uint32_t first, uint32_t last, uint32_t rows) const {
  if (!bound()) return {Code::kNotBound, Table::kProgram};
  if (first > last || last > view_.step_count) return {Code::kRange, Table::kProgram, 0, view_.step_count, last};
  if (rows > view_.batch) return {Code::kRows, Table::kProgram, 0, view_.batch, rows};
  if (rows == view_.batch) rows = 0;
  if (rows != 0 && fixed_step_ != 0) return {Code::kRowsUnsupported, Table::kStep, fixed_step_ - 1};
  const Call* call = calls_;
  for (uint32_t i = 0; i < last; ++i) {
    const StepRecord& step = *call->step;
    const Tensor* guard = step.guard == kNoIndex ? nullptr : call->operands() + step.operand_count;
    const bool skip = i < first || (guard != nullptr && *static_cast<const uint32_t*>(guard->data) == 0);
    if (!skip) {
      const Code code = call->run({*call, model_->words(step), int(rows), scratch_, workers_});
      if (code != Code::kOk) return {code, Table::kStep, view_.first_step + i};
    }
    call = reinterpret_cast<const Call*>(call->operands() + step.operand_count + (guard != nullptr ? 1 : 0));
  }
  return {};
}

}  // namespace nacre
