#include "engine/train/step_sums.h"

#include <cstring>

#include "engine/run/places.h"
#include "engine/train/trainer.h"

namespace nacre {
namespace {

constexpr Status refuse(Code code, Entry entry) { return {code, Table::kProgram, uint32_t(entry)}; }

constexpr SumKind kind_of(ElementType element) {
  switch (element) {
    case ElementType::kFloat64: return SumKind::kFloat64;
    case ElementType::kInt32: return SumKind::kInt32;
    case ElementType::kUint32: return SumKind::kUint32;
    default: return SumKind::kFloat32;
  }
}

// Calls f(run) for every tensor of the step block that is not a part of another, in the order of offsets.
template <class F>
void each_sum(const Model& model, F f) {
  for (const TensorRecord& r : model.tensors())
    if (r.region == Region::kStep && r.alias_of == kNoIndex) f(SumRun{r.offset, r.bytes, kind_of(r.element)});
}

// Returns an operand of the verdict: gradients, loss, samples or loss scale. Returns null if there is no float
// verdict, or if the operand lies in another region than `region`, or is an alias.
const TensorRecord* judged(const Model& model, uint32_t operand, Region region) {
  for (const StepRecord& step : model.steps()) {
    if (step.op != Op::kVerdict || step.operand_count <= operand) continue;
    const uint32_t id = model.operands(step)[operand] & kOperandIdMask;
    if (id >= model.tensors().size()) continue;
    const TensorRecord& r = model.tensors()[id];
    if (r.region == region && r.alias_of == kNoIndex) return &r;
  }
  return nullptr;
}

}  // namespace

uint32_t sum_runs(const Model& model, std::span<SumRun> runs, uint32_t from) {
  uint32_t count = 0;
  SumRun last = {};
  const auto put = [&] {
    if (last.bytes == 0) return;
    if (count >= from && count - from < runs.size()) runs[count - from] = last;
    ++count;
  };
  each_sum(model, [&](const SumRun& run) {
    if (last.bytes != 0 && last.kind == run.kind && last.first + last.bytes == run.first) {
      last.bytes += run.bytes;
      return;
    }
    put();
    last = run;
  });
  put();
  return count;
}

SumRun gradient_run(const Model& model) {
  const TensorRecord* const r = judged(model, 0, Region::kStep);
  if (r == nullptr || r->element != ElementType::kFloat32) return {0, 0, SumKind::kFloat32};
  return {r->offset, r->bytes, SumKind::kFloat32};
}

float loss_scale(const Model& model, std::span<const std::byte> state) {
  const TensorRecord* const r = judged(model, 3, Region::kState);
  float scale = 1;
  if (r != nullptr && r->element == ElementType::kFloat32 && r->offset + sizeof scale <= state.size())
    std::memcpy(&scale, state.data() + r->offset, sizeof scale);
  return scale;
}

Status join_sums(const Model& model, std::span<std::byte> into, std::span<const std::byte> from) {
  const uint64_t bytes = model.region_bytes(Region::kStep);
  for (const size_t given : {into.size(), from.size()})
    if (given < bytes) return {Code::kMemorySize, Table::kMemory, kStepSums, bytes, given};
  each_sum(model, [&](const SumRun& run) { join(run, 0, bytes, into.data(), from.data()); });
  return {};
}

std::span<std::byte> Trainer::sums() const {
  if (!ready() || immediate()) return {};
  Places* const places = update().places();
  const bool here = places == nullptr || places->training().bring_sums(update()).ok();
  return here ? step_ : std::span<std::byte>();
}

std::span<std::byte> Trainer::sums_at(const Port& port) const {
  Places* const places = update().places();
  if (!ready() || immediate() || places == nullptr) return {};
  const std::span<std::byte> there = places->training().sums_at(update(), port);
  return there.size() < step_.size() ? std::span<std::byte>() : there.first(step_.size());
}

// Finds the step's count of micro-batches, which dropout reads: the tensor that count_step raises in the program of
// gradients. Returns kRegion if that program writes another tensor, of streams or state, that the next micro-batch
// would read.
Status Trainer::find_counter(uint32_t* tensor) const {
  *tensor = kNoIndex;
  const ProgramView& view = feeding().view();
  for (uint32_t i = 0; i < view.step_count; ++i) {
    const StepRecord& step = model_->steps()[view.first_step + i];
    const uint32_t* const operands = model_->operands(step);
    for (uint32_t k = 0; k < step.operand_count; ++k) {
      const uint32_t id = operands[k] & kOperandIdMask;
      if (id >= model_->tensors().size()) continue;
      const Region region = model_->tensors()[id].region;
      if (step.op == Op::kCountStep && region == Region::kStep) *tensor = id;
      const bool writes = operands[k] >> 30 != uint32_t(Role::kIn);
      if (writes && (region == Region::kState || region == Region::kStream)) return {Code::kRegion, Table::kTensor, id};
    }
  }
  return {};
}

Status Trainer::begin_at(uint32_t index) {
  if (!ready()) return refuse(Code::kNotBound, Entry::kGradients);
  if (index != 0 && immediate()) return refuse(Code::kOneMicroBatch, Entry::kUpdate);
  discard();
  if (index == 0) return {};
  uint32_t counter;
  NACRE_TRY(find_counter(&counter));
  if (counter != kNoIndex) std::memcpy(step_.data() + model_->tensors()[counter].offset, &index, sizeof index);
  if (Places* const places = update().places(); places != nullptr)
    places->training().changed(*places, kStepSums, false);
  return {};
}

Status Trainer::merged(uint32_t micro_batches) {
  if (micro_batches == 0 || !ready() || immediate()) return refuse(Code::kNothingAccumulated, Entry::kGradients);
  if (Places* const places = update().places(); places != nullptr)
    places->training().changed(*places, kStepSums, false);
  accumulated_ = micro_batches;
  return {};
}

Status Trainer::merged_at(const Port& port, uint32_t micro_batches) {
  Places* const places = update().places();
  if (micro_batches == 0 || !ready() || immediate() || places == nullptr)
    return refuse(Code::kNothingAccumulated, Entry::kGradients);
  NACRE_TRY(places->training().wrote_sums_at(update(), port, count_));
  accumulated_ = micro_batches;
  return {};
}

Status Trainer::accumulate_apart(std::span<std::byte> keep, uint32_t rows) {
  if (accumulated_ == 0) return accumulate(rows);
  if (immediate()) return refuse(Code::kOneMicroBatch, Entry::kUpdate);
  const std::span<std::byte> all = sums();
  if (all.empty()) return refuse(ready() ? Code::kPortFailed : Code::kNotBound, Entry::kGradients);
  if (keep.size() < all.size()) return {Code::kMemorySize, Table::kMemory, kStepSums, all.size(), keep.size()};
  std::memcpy(keep.data(), all.data(), all.size());
  const uint32_t before = accumulated_;
  NACRE_TRY(begin_at(before));
  if (const Status status = accumulate(rows); !status.ok()) {
    if (status.code != Code::kRows && status.code != Code::kRowsUnsupported) return status;
    std::memcpy(all.data(), keep.data(), all.size());
    NACRE_TRY(merged(before));
    return status;
  }
  // The earlier sums come first, so they are joined in `keep` and copied back.
  if (sums().empty()) {  // a place cannot give them back
    discard();
    return refuse(Code::kPortFailed, Entry::kGradients);
  }
  NACRE_TRY(join_sums(*model_, keep, all));
  std::memcpy(all.data(), keep.data(), all.size());
  return merged(before == ~uint32_t{0} ? before : before + 1);
}

}  // namespace nacre
