// Verifies programs: their plan, their inputs and outputs, their steps, and which step writes which bytes when.
#include <algorithm>
#include <array>

#include "engine/model/flatbuffer.h"
#include "engine/model/verify.h"
#include "engine/model/verify_limits.h"

namespace nacre {
namespace {

constexpr uint8_t bit(Region region) { return uint8_t(1u << unsigned(region)); }

// Regions that a program of each kind may write with role kOut, and with role kUpdate. Only `update` writes state.
constexpr uint8_t kOutRegions[] = {bit(Region::kArena), bit(Region::kArena), bit(Region::kArena),
                                   uint8_t(bit(Region::kArena) | bit(Region::kDerived))};
constexpr uint8_t kUpdateRegions[] = {bit(Region::kStream),
                                      uint8_t(bit(Region::kStream) | bit(Region::kStep) | bit(Region::kArena)),
                                      uint8_t(bit(Region::kState) | bit(Region::kStep) | bit(Region::kArena)), 0};
static_assert(std::size(kOutRegions) == size_t(Entry::kCount) && std::size(kUpdateRegions) == size_t(Entry::kCount));

constexpr bool overlaps(const TensorRecord& a, const TensorRecord& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

}  // namespace

bool Verifier::programs() {
  at(Table::kProgram);
  const auto& programs = *root_->programs();
  // Programs take the steps and the arena records in order, so that each belongs to exactly one program.
  uint32_t tensor = programs.Get(0)->first_tensor(), step = 0;
  if (tensor > view_.tensors_.size()) return refuse(Code::kTensorRange);
  if (!globals(tensor)) return false;
  for (uint32_t i = 0; i < programs.size(); ++i) {
    if (!program(i, tensor, step)) return false;
    tensor += programs.Get(i)->tensor_count();
    step += programs.Get(i)->step_count();
  }
  at(Table::kProgram, programs.size());
  if (tensor != view_.tensors_.size()) return refuse(Code::kTensorRange);
  if (step != view_.steps_.size()) return refuse(Code::kStepRange);
  return true;
}

bool Verifier::program(uint32_t index, uint32_t first_tensor, uint32_t first_step) {
  at(Table::kProgram, index);
  const schema::Program& record = *root_->programs()->Get(index);
  if (record.entry() >= uint8_t(Entry::kCount)) return refuse(Code::kEntry);
  const void* required[] = {record.target(), record.banks(), record.inputs(), record.outputs()};
  for (const void* field : required)
    if (field == nullptr) return refuse(Code::kMissingField);
  if (record.target()->size() > limits_.string_bytes) return refuse(Code::kString);
  for (uint32_t other = 0; other < index; ++other) {
    const schema::Program& o = *root_->programs()->Get(other);
    if (o.entry() == record.entry() && o.target()->size() == record.target()->size() &&
        std::memcmp(o.target()->Data(), record.target()->Data(), o.target()->size()) == 0)
      return refuse(Code::kEntry);
  }
  const uint32_t banks = record.banks()->size();
  if (banks == 0 || banks > uint32_t(kMaxBanks)) return refuse(Code::kBank);
  for (uint32_t i = 0; i < banks; ++i)
    if (record.banks()->Get(i)->bytes() > kMaxFileBytes) return refuse(Code::kOverflow, kMaxFileBytes, i);
  if (record.batch() == 0 || record.batch() > uint32_t(kMaxDim)) return refuse(Code::kBatch);

  const ProgramView p = view_.program(index);
  if (p.first_tensor != first_tensor || !in_range(p.first_tensor, p.tensor_count, view_.tensors_.size()))
    return refuse(Code::kTensorRange);
  if (p.first_step != first_step || p.step_count == 0 || !in_range(p.first_step, p.step_count, view_.steps_.size()))
    return refuse(Code::kStepRange);
  if (p.inputs.size() > p.tensor_count || p.outputs.size() > p.tensor_count)
    return refuse(Code::kCount, p.tensor_count, std::max(p.inputs.size(), p.outputs.size()));
  if (!plan(p)) return false;
  if (!bindings(p, index)) return false;
  for (uint32_t i = 0; i < p.step_count; ++i)
    if (!step(p, p.first_step + i)) return false;
  for (uint32_t i = 0; i < p.step_count; ++i)
    if (!uses(p, p.first_step + i)) return false;
  for (uint32_t i = 0; i < p.tensor_count; ++i)
    if (!written(p, p.first_tensor + i)) return false;
  return true;
}

// Checks the arena records. They are sorted by first step, aliases last, and lie inside their bank. No two that are
// live at the same time share bytes. The exception is an output with exactly the bytes of an operand that its step
// reads last (bind asks the kernel). An input may not take such bytes, because it is there before the first step.
bool Verifier::plan(const ProgramView& p) {
  bool aliases = false;
  for (uint32_t i = 0; i < p.tensor_count; ++i) {
    const uint32_t id = p.first_tensor + i;
    const TensorRecord& r = view_.tensors_[id];
    if (!tensor(id)) return false;
    if (r.region != Region::kArena) return refuse(Code::kRegion);
    if (r.first_step > r.last_step || r.last_step >= p.step_count) return refuse(Code::kLifetime);
    if ((r.flags & kBatched) != 0 && uint32_t(r.dims[0]) != p.batch) return refuse(Code::kBatch);
    if (r.bank >= p.banks.size()) return refuse(Code::kBank);
    if (r.alias_of != kNoIndex) {
      aliases = true;
      if (r.alias_of < p.first_tensor) return refuse(Code::kAliasTarget);  // belongs to another program
      const TensorRecord& target = view_.tensors_[r.alias_of];
      if (r.first_step < target.first_step || r.last_step > target.last_step) return refuse(Code::kLifetime);
      continue;
    }
    if (!in_range(r.offset, r.bytes, p.banks[r.bank])) return refuse(Code::kBounds, p.banks[r.bank], r.offset);
    if (aliases || (i > 0 && view_.tensors_[id - 1].first_step > r.first_step)) return refuse(Code::kOrder);
    for (uint32_t j = p.first_tensor; j < id; ++j) {
      const TensorRecord& other = view_.tensors_[j];
      if (other.last_step < r.first_step || other.bank != r.bank || !overlaps(other, r)) continue;
      const bool handed_over = (r.flags & kInput) == 0 && other.last_step == r.first_step && other.offset == r.offset &&
                               other.bytes == r.bytes;
      if (!handed_over) return refuse(Code::kOverlap);
    }
  }
  return true;
}

bool Verifier::bindings(const ProgramView& p, uint32_t index) {
  const auto mine = [&](uint32_t id) { return id >= p.first_tensor && id - p.first_tensor < p.tensor_count; };
  for (uint32_t i = 0; i < p.inputs.size(); ++i) {
    at(Table::kBinding, i);
    const uint32_t id = p.inputs[i];
    if (!mine(id) || (view_.tensors_[id].flags & kInput) == 0 || view_.tensors_[id].alias_of != kNoIndex ||
        view_.tensors_[id].first_step != 0)
      return refuse(Code::kInputOutput);
    for (uint32_t j = 0; j < i; ++j)
      if (p.inputs[j] == id) return refuse(Code::kDuplicateInput);
  }
  at(Table::kProgram, index);
  // Each tensor marked as an input must be one of the inputs, because no step writes it.
  uint32_t marked = 0;
  for (uint32_t i = 0; i < p.tensor_count; ++i) marked += (view_.tensors_[p.first_tensor + i].flags & kInput) != 0;
  if (marked != p.inputs.size()) return refuse(Code::kInputOutput, p.inputs.size(), marked);
  for (uint32_t i = 0; i < p.outputs.size(); ++i) {
    at(Table::kBinding, i);
    const uint32_t id = p.outputs[i];
    if (!mine(id) || (view_.tensors_[id].flags & kOutput) == 0 || view_.tensors_[id].last_step != p.step_count - 1)
      return refuse(Code::kInputOutput);
    // A tensor that the last step writes may not take over the bytes of an output.
    const uint32_t root = view_.tensors_[id].alias_of == kNoIndex ? id : view_.tensors_[id].alias_of;
    for (uint32_t j = root + 1; j < p.first_tensor + p.tensor_count; ++j) {
      at(Table::kTensor, j);
      const TensorRecord& other = view_.tensors_[j];
      if (other.alias_of == kNoIndex && other.bank == view_.tensors_[root].bank &&
          other.first_step == p.step_count - 1 && overlaps(other, view_.tensors_[root]))
        return refuse(Code::kOverlap);
    }
  }
  at(Table::kProgram, index);
  const schema::Program& record = *root_->programs()->Get(index);
  const struct {
    const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* names;
    size_t count;
  } rows[] = {{record.input_names(), p.inputs.size()},
              {record.output_names(), p.outputs.size()},
              {record.input_layouts(), p.inputs.size()},
              {record.output_layouts(), p.outputs.size()},
              {record.bank_names(), p.banks.size()}};
  for (const auto& row : rows) {
    if (size_of(row.names) != 0 && row.names->size() != row.count)
      return refuse(Code::kCount, row.count, row.names->size());
    for (uint32_t i = 0; i < size_of(row.names); ++i)
      if (row.names->Get(i)->size() > limits_.string_bytes) return refuse(Code::kString);
  }
  return true;
}

bool Verifier::step(const ProgramView& p, uint32_t index) {
  at(Table::kStep, index);
  const StepRecord& s = view_.steps_[index];
  if (s.op == Op::kNone) return refuse(Code::kOpCode);
  if (s.rounding >= Rounding::kCount) return refuse(Code::kRounding);
  if (s.flags != 0 || !all_zero(s.reserved, sizeof s.reserved)) return refuse(Code::kReserved);
  if (s.place >= kMaxBanks) return refuse(Code::kPlace);
  if (!in_range(s.first_word, s.word_count, root_->words()->size())) return refuse(Code::kWordRange);
  if (!in_range(s.first_operand, s.operand_count, root_->operands()->size())) return refuse(Code::kOperandRange);
  if (s.layer != kNoIndex && s.layer >= root_->layers()->size()) return refuse(Code::kLayer);
  if (s.guard != kNoIndex) {
    if (!sees(p, s.guard)) return refuse(Code::kOperandId, s.operand_count, s.guard);
    const TensorRecord& g = view_.tensors_[s.guard];
    if (g.element != ElementType::kUint32 || g.bytes != 4) return refuse(Code::kGuard);
  }
  for (uint32_t i = 0; i < s.operand_count; ++i)
    if (!operand(p, index, i)) return false;
  return true;
}

// Returns whether a tensor exists and is global or this program's. Records of later programs are not checked yet.
bool Verifier::sees(const ProgramView& p, uint32_t id) const {
  return id < root_->programs()->Get(0)->first_tensor() ||
         (id >= p.first_tensor && id - p.first_tensor < p.tensor_count);
}

// Returns whether a tensor is an input of a program, or a part of one.
bool Verifier::is_input(uint32_t id) const {
  const TensorRecord& r = view_.tensors_[id];
  return ((r.alias_of == kNoIndex ? r : view_.tensors_[r.alias_of]).flags & kInput) != 0;
}

bool Verifier::operand(const ProgramView& p, uint32_t index, uint32_t position) {
  const StepRecord& s = view_.steps_[index];
  const uint32_t* operands = view_.operands_ + s.first_operand;
  const uint32_t id = operands[position] & kOperandIdMask;
  const auto role = Role(operands[position] >> 30);
  if (role > Role::kUpdate) return refuse(Code::kRole);
  if (id == kNoOperand) return role == Role::kIn || refuse(Code::kOperandMissing, position, id);
  if (!sees(p, id)) return refuse(Code::kOperandId, position, id);
  const TensorRecord& r = view_.tensors_[id];
  if (role == Role::kOut && (kOutRegions[size_t(p.entry)] & bit(r.region)) == 0)
    return refuse(Code::kRole, position, id);
  if (role == Role::kUpdate && ((kUpdateRegions[size_t(p.entry)] & bit(r.region)) == 0 || is_input(id)))
    return refuse(Code::kRole, position, id);
  if (role == Role::kOut)
    for (uint32_t i = 0; i < position; ++i)
      if (operands[i] == operands[position]) return refuse(Code::kWrittenTwice, position, id);
  // run(rows) sets axis 0 of every batched tensor to `rows`, so each must have the program's batch.
  if ((r.flags & kBatched) != 0 && uint32_t(r.dims[0]) != p.batch) return refuse(Code::kBatch, position, id);
  return true;
}

// ---- Values: which step writes which bytes of the arena, and when. Every index is known to be in range. ----

// Returns whether the first step of an arena tensor writes it, and does so before step `end`.
bool Verifier::writes(const ProgramView& p, uint32_t id, uint32_t end) {
  const uint32_t first = view_.tensors_[id].first_step;
  if (first >= end) return false;
  const StepRecord& s = view_.steps_[p.first_step + first];
  effort_ += s.operand_count;
  for (uint32_t i = 0; i < s.operand_count; ++i)
    if (view_.operands_[s.first_operand + i] == (id | uint32_t(Role::kOut) << 30)) return true;
  return false;
}

// Counts the bytes of an arena tensor that steps before `end` write, directly, through its target, or through other
// aliases of the target. The count exceeds the tensor's bytes if two steps write one byte, and is below if a byte is
// not written.
size_t Verifier::written_bytes(const ProgramView& p, uint32_t id, uint32_t end) {
  const TensorRecord& r = view_.tensors_[id];
  const uint32_t root = r.alias_of == kNoIndex ? id : r.alias_of;
  const size_t from = root == id ? 0 : size_t(r.offset), to = from + r.bytes;
  size_t sum = writes(p, root, end) ? size_t(r.bytes) : 0;
  for (uint32_t other = p.first_tensor + p.tensor_count;
       --other > root && view_.tensors_[other].alias_of != kNoIndex;) {
    const TensorRecord& part = view_.tensors_[other];
    ++effort_;
    if (part.alias_of != root || part.offset >= to || part.offset + part.bytes <= from || !writes(p, other, end))
      continue;
    sum += std::min<size_t>(part.offset + part.bytes, to) - std::max<size_t>(part.offset, from);
  }
  return sum;
}

// Checks the operands and guard of a step: live, written before they are read, written once.
bool Verifier::uses(const ProgramView& p, uint32_t index) {
  at(Table::kStep, index);
  const StepRecord& s = view_.steps_[index];
  const uint32_t now = index - p.first_step;
  for (uint32_t i = 0; i < uint32_t{s.operand_count} + (s.guard != kNoIndex); ++i) {
    const uint32_t word = i < s.operand_count ? view_.operands_[s.first_operand + i] : s.guard;
    const uint32_t id = word & kOperandIdMask;
    if (id == kNoOperand || view_.tensors_[id].region != Region::kArena) continue;
    const TensorRecord& r = view_.tensors_[id];
    const bool input = is_input(id);
    if (now > r.last_step || now < r.first_step) return refuse(Code::kNotLive, i, id);
    if (Role(word >> 30) == Role::kOut) {
      if (input || r.first_step != now || written_bytes(p, id, kNoIndex) != r.bytes)
        return refuse(Code::kWrittenTwice, i, id);
    } else if (!input && written_bytes(p, id, now) != r.bytes) {
      return refuse(Code::kReadBeforeWrite, i, id);
    }
    if (effort_ > 2 * uint64_t{limits_.tensors} * limits_.tensors) return refuse(Code::kCount);
  }
  return true;
}

// Checks that every byte of a tensor that is neither input nor alias is written.
bool Verifier::written(const ProgramView& p, uint32_t id) {
  at(Table::kTensor, id);
  const TensorRecord& r = view_.tensors_[id];
  if (r.alias_of != kNoIndex || (r.flags & kInput) != 0 || written_bytes(p, id, kNoIndex) == r.bytes) return true;
  return refuse((r.flags & kOutput) != 0 ? Code::kOutputUnwritten : Code::kReadBeforeWrite);
}

}  // namespace nacre
