#include "engine/run/program.h"

#include <cstring>

#include "engine/run/bound_calls.h"
#include "engine/run/pass.h"
#include "engine/run/places.h"

namespace nacre {
namespace {

struct HostRules {
  static constexpr uint32_t kTensorsBefore = 0;
  static constexpr bool kThreads = false;  // the reference's kernels do not share a step among threads

  uint32_t alignment() const { return kAlignment; }
  template <class Pass>
  Status start(const Pass&, const ProgramView&) const {
    return {};
  }
  Code find(const LoadedStep& step, std::span<const KernelSet* const> kernels, const KernelEntry** found) const {
    return find_entry(step, kernels, found);
  }
  void tell(Sizes*) const {}
  Status take(Program&, std::span<std::byte>) const { return {}; }
  Code write(const Args& args, const LoadedStep&, const KernelEntry& entry, Call*) const {
    return prepare_step(entry, args);
  }
};

}  // namespace

// Returns whether a tensor's first rows are exactly the first rows of the tensor of which it is an alias.
bool keeps_rows(const Model& model, const TensorRecord& r) {
  if (r.alias_of == kNoIndex) return true;
  const TensorRecord& target = model.tensors()[r.alias_of];
  if (((r.flags ^ target.flags) & kBatched) != 0) return false;
  return (r.flags & kBatched) == 0 || r.bytes == target.bytes;
}

// Returns whether the step holds for every number of rows that a run may have. Results of batched tensors must be
// batched, aliases among them too. (A result of one row that is broadcast to the whole batch would hold by accident.)
// Shapes must hold for 1 and for batch - 1 rows, since they are linear in the rows. Two kinds of outputs may depend on
// all rows: the mean that batch_norm_training saves, and the ends that observe_range finds.
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
  if (from_batch && !to_batch && step.record.op != Op::kObserveRange) return false;
  Operands fewer = step.operands;
  for (const int rows : {1, int(batch) - 1}) {
    fewer.rows = rows;
    if (check_shapes(entry, step.words, fewer) != Code::kOk) return false;
  }
  return true;
}

// This function is weak. An image that links fast kernels, whose tables name weight_packing.cc, uses measure and bind
// of that file. An image without them, such as a firmware, has no byte of code or stack of that file.
[[gnu::weak]] Status Program::measure(const Model& model, uint32_t program, std::span<const KernelSet* const> kernels,
                                      Sizes* sizes, const Machine& machine) {
  return measure_with(HostRules(), model, program, kernels, sizes, machine);
}

[[gnu::weak]] Status Program::bind(const Model& model, uint32_t program, std::span<const KernelSet* const> kernels,
                                   const Memory& memory, const Workers* workers) {
  return bind_with(HostRules(), model, program, kernels, memory, workers);
}

Status Memory::cut(std::span<std::byte> whole, const Sizes& sizes, Memory* memory, uint32_t alignment) {
  const uintptr_t misaligned = reinterpret_cast<uintptr_t>(whole.data()) & (alignment - 1);
  if (misaligned != 0) return {Code::kMemoryAlignment, Table::kMemory, 0, alignment, misaligned};
  const size_t given = bytes_in(whole);
  if (given < sizes.total(alignment)) return {Code::kMemorySize, Table::kMemory, 0, sizes.total(alignment), given};
  size_t at = 0;
  for (uint32_t block = 0; block < kBlockCount; ++block) {
    const auto bytes = size_t(sizes.bytes[block]);
    memory->block[block] = whole.subspan(at, bytes);
    at += (bytes + alignment - 1) & ~size_t{alignment - 1};
  }
  return {};
}

// Not inlined, so that the temporary is on the stack of this call only.
[[gnu::noinline]] void Program::unbind() {
  if (places_ != nullptr) places_->functions_->unbind(*this);
  *this = Program();
}

// Compares the first call's step record with its position in the model: after another model was opened, records lie
// elsewhere.
bool Program::bound() const {
  if (calls_ == nullptr || !model_->opened() || view_.changes != model_->changes()) return false;
  return view_.step_count == 0 || calls_->step == model_->steps().data() + view_.first_step;
}

std::span<std::byte> Program::bytes(uint32_t tensor) const {
  if (!bound() || tensor >= model_->tensors().size()) return {};
  const TensorRecord& r = model_->tensors()[tensor];
  // Casts const away. Weights are constant all the same, because the roles, which open checks, keep every kernel from
  // writing them.
  if (r.region == Region::kWeights) return {const_cast<std::byte*>(model_->weights(tensor)), size_t(r.bytes)};
  if (r.region == Region::kArena && (tensor < view_.first_tensor || tensor - view_.first_tensor >= view_.tensor_count))
    return {};  // belongs to another program
  const Location at = locate(*model_, tensor);
  return {region_[at.block - kState] + at.offset, size_t(r.bytes)};
}

Status Program::start() const {
  if (!bound()) return {Code::kNotBound, Table::kProgram};
  const auto bytes = size_t(model_->region_bytes(Region::kStream));
  if (bytes != 0) std::memset(region_[kStream - kState], 0, bytes);
  return {};
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
  if (places_ != nullptr) return places_->functions_->run(*this, first, last, rows);
  // The words of an empty StepRecord are the first of all words.
  const BoundCalls calls = {calls_, model_->words(StepRecord{}).data, scratch_, workers_};
  uint32_t at = 0;
  const Code code = calls.run(first, last, rows, &at);
  return code == Code::kOk ? Status{} : Status{code, Table::kStep, view_.first_step + at};
}

}  // namespace nacre
