#include "engine/run/program.h"

#include <algorithm>

#include "engine/base/bytes.h"
#include "engine/base/check.h"

namespace nacre {
namespace {

constexpr int kMaxOperands = 24;  // of one step; their Tensors stand on the stack while a step is checked
constexpr int kMaxOutputs = 3;

constexpr uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Bytes of a bound step: run, step, prepared, and {data, record} per operand and guard.
constexpr uint64_t call_bytes(const StepRecord& step, uint32_t pointer_bytes) {
  return pointer_bytes * (3 + 2 * (uint64_t{step.operand_count} + (step.guard != kNoIndex)));
}

// Where a tensor lies: its block and the offset in it. Aliases lie in their target.
struct Place {
  uint32_t block;
  uint64_t offset;
};

Place place_of(const Model& model, uint32_t id) {
  const TensorRecord* r = &model.tensors()[id];
  uint64_t offset = r->offset;
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

// The operands of a step as a kernel's shape rule sees them: without data.
struct Step {
  const Model& model;
  const StepRecord& record;
  uint32_t index;
  Tensor tensors[kMaxOperands];

  Status refuse(Code code) const { return {code, Table::kStep, index}; }
  Words words() const { return model.words(record); }
  Operands operands() const { return {tensors, record.operand_count, 0}; }
};

Status load(Step* step) {
  if (step->record.operand_count > kMaxOperands) return step->refuse(Code::kOperandCount);
  const uint32_t* ids = step->model.operands(step->record);
  for (int i = 0; i < step->record.operand_count; ++i) {
    const uint32_t id = ids[i] & kOperandIdMask;
    step->tensors[i] = {nullptr, id == kNoOperand ? nullptr : &step->model.tensors()[id]};
  }
  return {};
}

// The entry's type of operand i of `count`: a variadic first operand stands for as many as there are.
const OperandType& type_of(const KernelEntry& entry, int i, int count) {
  if ((entry.operands[0].role & kVariadic) == 0) return entry.operands[i];
  return entry.operands[std::max(0, i - (count - int(entry.operand_count)))];
}

// How far a step fits an entry, from not at all to wholly.
enum Fit : uint8_t { kOtherOp, kOtherCount, kAbsentOperand, kOtherRole, kOtherType, kFits };

Fit fit_of(const KernelEntry& entry, const Step& step) {
  const int count = step.record.operand_count;
  const bool variadic = entry.operand_count > 0 && (entry.operands[0].role & kVariadic) != 0;
  if (entry.op != step.record.op || entry.rounding != step.record.rounding) return kOtherOp;
  if (variadic ? count < int(entry.operand_count) : count != int(entry.operand_count)) return kOtherCount;
  const uint32_t* ids = step.model.operands(step.record);
  Fit fit = kFits;
  for (int i = 0; i < count; ++i) {
    const OperandType& type = type_of(entry, i, count);
    const TensorRecord* record = step.tensors[i].record;
    if (record == nullptr && (type.role & kOptional) == 0) fit = std::min(fit, kAbsentOperand);
    else if (uint32_t(type.role & 3) != ids[i] >> 30) fit = std::min(fit, kOtherRole);
    else if (record != nullptr && record->element != type.element) fit = std::min(fit, kOtherType);
  }
  return fit;
}

// Outputs come last: the index of the first.
int first_output(const KernelEntry& entry, int count) {
  int first = count;
  while (first > 0 && (type_of(entry, first - 1, count).role & 3) == uint8_t(Role::kOut)) --first;
  return first;
}

// The declared shapes of the outputs are those that the rule computes from the inputs, with `rows` rows (0: the batch).
Code check_shapes(const KernelEntry& entry, const Step& step, int rows) {
  const int count = step.record.operand_count, first = first_output(entry, count);
  NACRE_CHECK(count - first <= kMaxOutputs);
  Dims outputs[kMaxOutputs] = {};
  const Code code = entry.shapes(step.words(), {step.tensors, first, rows}, outputs);
  if (code != Code::kOk) return code;
  const Operands all = {step.tensors, count, rows};
  for (int i = first; i < count; ++i) {
    const Shape declared = all[i];
    const Dims& computed = outputs[i - first];
    if (declared.rank != computed.rank) return Code::kShapeOutput;
    for (int axis = 0; axis < computed.rank; ++axis)
      if (declared[axis] != computed.size[axis]) return Code::kShapeOutput;
  }
  return Code::kOk;
}

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
bool lowers(const KernelEntry& entry, const Step& step, uint32_t batch) {
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
  return check_shapes(entry, step, 1) == Code::kOk && check_shapes(entry, step, int(batch) - 1) == Code::kOk;
}

// No output shares bytes with another operand, unless the kernel works in place on exactly the same bytes.
Code check_overlap(const KernelEntry& entry, const Step& step) {
  const uint32_t* ids = step.model.operands(step.record);
  const int count = step.record.operand_count, first = first_output(entry, count);
  for (int out = 0; out < count; ++out) {
    if (ids[out] >> 30 == uint32_t(Role::kIn)) continue;
    const Place a = place_of(step.model, ids[out] & kOperandIdMask);
    const uint64_t a_bytes = step.tensors[out].record->bytes;
    for (int i = 0; i < count; ++i) {
      const TensorRecord* other = step.tensors[i].record;
      if (i == out || other == nullptr || other->region == Region::kWeights) continue;
      const Place b = place_of(step.model, ids[i] & kOperandIdMask);
      if (a.block != b.block || a.offset >= b.offset + other->bytes || b.offset >= a.offset + a_bytes) continue;
      const bool same = a.offset == b.offset && a_bytes == other->bytes;
      const bool input = ids[i] >> 30 == uint32_t(Role::kIn);
      if (!same || !input || out != first || i >= 8 || (entry.in_place >> i & 1) == 0) return Code::kInPlace;
    }
  }
  return Code::kOk;
}

// The first entry that takes the step; else why the first whose types fit does not, or why none fits.
Status find_entry(const Step& step, std::span<const KernelSet* const> kernels, const KernelEntry** found) {
  Fit closest = kOtherOp;
  Code refused = Code::kOk;
  for (const KernelSet* set : kernels)
    for (const KernelEntry* entry : set->entries) {
      const Fit fit = fit_of(*entry, step);
      closest = std::max(closest, fit);
      if (fit != kFits) continue;
      Code code = check_shapes(*entry, step, 0);  // before accepts, which may rely on it
      if (code == Code::kOk && entry->accepts != nullptr && !entry->accepts(step.words(), step.operands())) continue;
      if (code == Code::kOk) code = check_overlap(*entry, step);
      if (code == Code::kOk) {
        *found = entry;
        return {};
      }
      if (refused == Code::kOk) refused = code;
    }
  constexpr Code kWhy[] = {Code::kNoKernel, Code::kOperandCount, Code::kOperandMissing,
                           Code::kRole,     Code::kNoKernel,     Code::kNoKernel};
  return step.refuse(refused != Code::kOk ? refused : kWhy[closest]);
}

uint64_t size_or_zero(size_t (*size)(const Words&, const Operands&), const Step& step) {
  return size == nullptr ? 0 : size(step.words(), step.operands());
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
    Step step = {model, model.steps()[index], index, {}};
    const KernelEntry* entry = nullptr;
    TRY(load(&step));
    TRY(find_entry(step, kernels, &entry));
    if (bound != nullptr) TRY(write(step, *entry));
    call_sum += call_bytes(step.record, machine.pointer_bytes);
    prepared_sum += round_up(size_or_zero(entry->prepared_bytes, step), kAlignment);
    scratch = std::max(scratch, uint64_t{size_or_zero(entry->scratch_bytes, step)} * machine.workers);
    const uint64_t more = entry->work == nullptr ? 0 : entry->work(step.words(), step.operands());
    const uint64_t left = model.work_limit() - work;
    if (more > left) return {Code::kWork, Table::kStep, index, left, more};
    work += more;
    return {};
  }

  Status write(const Step& step, const KernelEntry& entry) const {
    auto* call = reinterpret_cast<Call*>(reinterpret_cast<std::byte*>(bound->calls_) + call_sum);
    *call = {entry.run, &step.record, prepared + prepared_sum};
    const uint32_t* ids = model.operands(step.record);
    Tensor* operand = call->operands();
    for (int i = 0; i < step.record.operand_count; ++i, ++operand) {
      *operand = step.tensors[i];
      if (operand->record != nullptr) operand->data = bound->bytes(ids[i] & kOperandIdMask).data();
    }
    const uint32_t guard = step.record.guard;
    if (guard != kNoIndex) *operand = {bound->bytes(guard).data(), &model.tensors()[guard]};
    const uint32_t batch = bound->view_.batch;
    if (batch > 1 && bound->fixed_step_ == 0 && !lowers(entry, step, batch)) bound->fixed_step_ = step.index + 1;
    const Code code = entry.prepare == nullptr
                          ? Code::kOk
                          : entry.prepare({*call, step.words(), 0, bound->scratch_, bound->workers_});
    return code == Code::kOk ? Status{} : step.refuse(code);
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
  const Place place = place_of(*model_, tensor);
  return {region_[place.block - kState] + place.offset, size_t(r.bytes)};
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
