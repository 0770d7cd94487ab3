#include "engine/train/trainer.h"

#include <algorithm>
#include <cstring>

#include "engine/base/bytes.h"
#include "engine/run/places.h"
#include "engine/train/object_sizes.h"  // checked in this file
#include "engine/train/step_numbers.h"

namespace nacre {
namespace {

uint32_t alignment_of(const Places* places) { return places == nullptr ? uint32_t(kAlignment) : places->alignment(); }

uint64_t aligned(uint64_t bytes, const Places* places) {
  const uint64_t mask = alignment_of(places) - 1;
  return (bytes + mask) & ~mask;
}

Machine machine_of(const Workers* workers) {
  return {.workers = workers == nullptr ? 1 : uint32_t(std::max(1, workers->count))};
}

Status measure_one(const Model& model, uint32_t program, std::span<const KernelSet* const> kernels, Sizes* sizes,
                   const Machine& machine, Places* places) {
  return places == nullptr ? Program::measure(model, program, kernels, sizes, machine)
                           : places->measure(model, program, kernels, sizes, machine);
}

void zero(std::span<std::byte> bytes) {
  if (!bytes.empty()) std::memset(bytes.data(), 0, bytes.size());
}

template <class T>
T value(std::span<const std::byte> bytes, size_t index = 0) {
  T v;
  std::memcpy(&v, bytes.data() + index * sizeof v, sizeof v);
  return v;
}

bool is(const TensorRecord& r, ElementType element, uint64_t bytes) { return r.element == element && r.bytes == bytes; }

constexpr Status refuse(Code code, Entry entry) { return {code, Table::kProgram, uint32_t(entry)}; }

}  // namespace

// The bytes of each program in the blocks that have a part for each program.
struct Trainer::Parts {
  static_assert(kCalls == 0 && kPrepared == 1);
  size_t bytes[kPrograms][2];
};

// Checks that the shared blocks, and the blocks with a part for each program, do not overlap. Each program's bind
// sees only its own parts. Sizes are measured here, without packed weights if the block kDerived has no room for
// these. It is not inlined, so that the sizes are on the stack of this call only.
[[gnu::noinline]] Status Trainer::check_apart(const Model& model, const char* target,
                                              std::span<const KernelSet* const> kernels, const Memory& memory,
                                              const Workers* workers, Places* places, Parts* parts) {
  Sizes sizes;
  Machine machine = machine_of(workers);
  NACRE_TRY(measure_parts(model, target, kernels, &sizes, machine, places, parts));
  if (bytes_in(memory.block[kDerived]) < sizes.bytes[kDerived]) {
    machine.packs = false;
    if (!measure_parts(model, target, kernels, &sizes, machine, places, parts).ok()) {
      machine.packs = true;  // some program has only packing kernels; its bind says how many bytes that takes
      NACRE_TRY(measure_parts(model, target, kernels, &sizes, machine, places, parts));
    }
  }
  for (uint32_t i = 0; i < kBlockCount; ++i)
    for (uint32_t j = 0; j < i; ++j)
      if (sizes.bytes[i] != 0 && sizes.bytes[j] != 0 && share_bytes(memory.block[i], memory.block[j]))
        return {Code::kMemoryOverlap, Table::kMemory, i};
  return {};
}

// Finds the programs of the model; kNoIndex marks a missing one. Only `update` must be there. All have its target.
Status Trainer::find(const Model& model, const char* target, uint32_t (&index)[kPrograms]) {
  if (!model.opened()) return {Code::kNotBound, Table::kFile};
  uint32_t update;
  NACRE_TRY(model.find(Entry::kUpdate, target, &update));
  for (uint32_t entry = 0; entry < kPrograms; ++entry)
    if (!model.find_beside(update, Entry(entry), &index[entry]).ok()) index[entry] = kNoIndex;
  return check_update(model, update);
}

// Checks `update`. Its last input is the learning rate; its outputs begin with apply, amax, and report in the type of
// the sums.
Status Trainer::check_update(const Model& model, uint32_t index) {
  const ProgramView p = model.program(index);
  const auto tensors = model.tensors();
  const bool holds =
      !p.inputs.empty() && is(tensors[p.inputs.back()], ElementType::kFloat32, 4) && p.outputs.size() >= 3 &&
      is(tensors[p.outputs[0]], ElementType::kUint32, 4) && is(tensors[p.outputs[1]], ElementType::kUint32, 4) &&
      (is(tensors[p.outputs[2]], ElementType::kFloat32, 16) || is(tensors[p.outputs[2]], ElementType::kFloat64, 32));
  return holds ? Status{} : refuse(Code::kTrainingProgram, Entry::kUpdate);
}

Status Trainer::share(Places* places, Sharing phase) {
  return places == nullptr ? Status{} : places->training().share(*places, phase);
}

Status Trainer::measure(const Model& model, const char* target, std::span<const KernelSet* const> kernels, Sizes* sizes,
                        const Machine& machine, Places* places) {
  return measure_parts(model, target, kernels, sizes, machine, places, nullptr);
}

Status Trainer::measure_parts(const Model& model, const char* target, std::span<const KernelSet* const> kernels,
                              Sizes* sizes, const Machine& machine, Places* places, Parts* parts) {
  NACRE_TRY(share(places, Sharing::kMeasure));
  const Status measured = measure_all(model, target, kernels, sizes, machine, places, parts);
  NACRE_TRY(share(places, Sharing::kEnd));
  return measured;
}

Status Trainer::measure_all(const Model& model, const char* target, std::span<const KernelSet* const> kernels,
                            Sizes* sizes, const Machine& machine, Places* places, Parts* parts) {
  *sizes = Sizes();
  if (parts != nullptr) *parts = {};
  uint32_t index[kPrograms];
  NACRE_TRY(find(model, target, index));
  if (places != nullptr) places->training().sum(*places, true);
  for (uint32_t entry = 0; entry < kPrograms; ++entry) {
    if (index[entry] == kNoIndex) continue;
    Sizes one;
    if (const Status s = measure_one(model, index[entry], kernels, &one, machine, places); !s.ok()) {
      *sizes = Sizes();
      return s;
    }
    for (uint32_t block = 0; block < kBlockCount; ++block) {
      const bool own = block == kCalls || block == kPrepared;  // one part per program; the programs share the rest
      const uint64_t bytes = own ? aligned(one.bytes[block], places) : one.bytes[block];
      sizes->bytes[block] = own ? sizes->bytes[block] + bytes : std::max(sizes->bytes[block], bytes);
      if (own && parts != nullptr) parts->bytes[entry][block] = size_t(std::min(bytes, uint64_t{SIZE_MAX}));
    }
    if (Entry(entry) != Entry::kInfer) sizes->work += one.work;
    if (places != nullptr) places->training().sum(*places, false);
  }
  return {};
}

// Binds one program. Its part lies after those of the programs before. It is not inlined, so that the memory is on
// the stack of this call only.
[[gnu::noinline]] Status Trainer::bind_one(uint32_t entry, uint32_t index, std::span<const KernelSet* const> kernels,
                                           const Memory& memory, const Workers* workers, Places* places,
                                           const Parts& parts) {
  Memory own = memory;
  for (const Block block : {kCalls, kPrepared}) {
    size_t at = 0;
    for (uint32_t before = 0; before < entry; ++before) at += parts.bytes[before][block];
    const size_t bytes = parts.bytes[entry][block], whole = memory.block[block].size();
    if (bytes > whole - at) return {Code::kMemorySize, Table::kMemory, block, uint64_t{at} + bytes, whole};
    own.block[block] = memory.block[block].subspan(at, bytes);
  }
  Program& program = programs_[entry];
  return places == nullptr ? program.bind(*model_, index, kernels, own, workers)
                           : places->bind(&program, *model_, index, kernels, own, workers);
}

Status Trainer::bind(const Model& model, const char* target, std::span<const KernelSet* const> kernels,
                     const Memory& memory, const Workers* workers, Places* places) {
  started_ = false;
  present_ = 0;
  state_ = stream_ = step_ = {};
  for (Program& program : programs_) program.unbind();  // their model may be gone
  uint32_t index[kPrograms];
  NACRE_TRY(find(model, target, index));
  Parts parts;
  NACRE_TRY(check_apart(model, target, kernels, memory, workers, places, &parts));
  model_ = &model;
  NACRE_TRY(share(places, Sharing::kBind));
  const Status bound = bind_all(index, kernels, memory, workers, places, parts);
  NACRE_TRY(share(places, Sharing::kEnd));
  NACRE_TRY(bound);
  state_ = memory.block[kState].first(size_t(model.region_bytes(Region::kState)));
  stream_ = memory.block[kStream].first(size_t(model.region_bytes(Region::kStream)));
  step_ = memory.block[kStepSums].first(size_t(model.region_bytes(Region::kStep)));
  const StepNumbers numbers = step_numbers(model, update().view());
  count_ = numbers.samples, floor_ = numbers.floor;
  return {};
}

Status Trainer::bind_all(const uint32_t (&index)[kPrograms], std::span<const KernelSet* const> kernels,
                         const Memory& memory, const Workers* workers, Places* places, const Parts& parts) {
  for (uint32_t entry = 0; entry < kPrograms; ++entry) {
    if (index[entry] == kNoIndex) continue;
    if (const Status s = bind_one(entry, index[entry], kernels, memory, workers, places, parts); !s.ok()) {
      for (Program& program : programs_) program.unbind();
      return s;
    }
    present_ |= 1u << entry;
  }
  return {};
}

Status Trainer::start() {
  if (!update().bound()) return refuse(Code::kNotBound, Entry::kUpdate);
  zero(state_);
  for (uint32_t id = 0; id < model_->tensors().size(); ++id) {
    const TensorRecord& r = model_->tensors()[id];
    if (r.region != Region::kState || r.alias_of != kNoIndex || r.initial == kNoIndex) continue;
    std::memcpy(state_.data() + r.offset, model_->weights(r.initial), size_t(r.bytes));
  }
  return begin();
}

// If a place has a newer state and state() was not called to write it, that state counts: it is copied to the host
// first.
Status Trainer::restored() {
  if (!update().bound()) return refuse(Code::kNotBound, Entry::kUpdate);
  NACRE_TRY(bring_home());
  return begin();
}

Status Trainer::bring_home() const {
  Places* const places = update().places();
  return places == nullptr ? Status{} : places->training().bring_home(update());
}

Status Trainer::begin() {
  if (Places* const places = update().places(); places != nullptr) places->training().changed(*places, kState, false);
  zero(stream_);
  discard();
  refused_in_row_ = 0;
  started_ = true;
  return derive();
}

void Trainer::discard() {
  if (update().bound()) zero(step_);
  if (Places* const places = update().places(); places != nullptr) places->training().changed(*places, kStepSums, true);
  accumulated_ = 0;
}

Status Trainer::accumulate(uint32_t rows) {
  if (!ready()) return refuse(Code::kNotBound, Entry::kGradients);
  if (immediate()) {
    if (accumulated_ != 0) return refuse(Code::kOneMicroBatch, Entry::kUpdate);
    if (rows > update().view().batch)
      return {Code::kRows, Table::kProgram, uint32_t(Entry::kUpdate), update().view().batch, rows};
    rows_ = rows;
  } else if (const Status s = feeding().run(0, feeding().view().step_count, rows); !s.ok()) {
    if (s.code != Code::kRows && s.code != Code::kRowsUnsupported) discard();
    return s;
  }
  if (accumulated_ != ~uint32_t{0}) ++accumulated_;
  return {};
}

Status Trainer::commit(float learning_rate, Report* report) {
  if (!ready()) return refuse(Code::kNotBound, Entry::kUpdate);
  if (!is_rate(learning_rate)) return refuse(Code::kLearningRate, Entry::kUpdate);
  if (accumulated_ == 0 || counts_nothing()) return refuse(Code::kNothingAccumulated, Entry::kUpdate);
  write_rate(learning_rate);
  const Status run = update().run(0, update().view().step_count, immediate() ? rows_ : 0);
  Report told;
  const Status read = run.ok() ? read_report(&told) : run;
  discard();
  NACRE_TRY(read);
  tell(&told, report);
  // Some parameters may have been applied if each has a verdict of its own.
  return told.applied || immediate() ? derive() : Status{};
}

// Returns whether the loss counted no sample: there was no batch, or none of its labels counts.
bool Trainer::counts_nothing() const {
  return !immediate() && count_ != kNoIndex && counts_none(update().bytes(count_).data());
}

void Trainer::write_rate(float learning_rate) const {
  const std::span<std::byte> rate = update().input(uint32_t(update().view().inputs.size()) - 1);
  std::memcpy(rate.data(), &learning_rate, sizeof learning_rate);
}

void Trainer::tell(Report* told, Report* report) {
  refused_in_row_ = told->applied ? 0 : refused_in_row_ + (refused_in_row_ != ~uint32_t{0});
  told->refused_in_row = refused_in_row_;
  if (report != nullptr) *report = *told;
}

// Returns the port that runs all programs of a step as one, or null. The programs stand in the order in which they
// run.
const Port* Trainer::holder() const {
  Places* const places = update().places();
  constexpr auto kFirst = size_t(Entry::kGradients), kLast = size_t(Entry::kDerive);
  return places == nullptr ? nullptr : places->training().holder(*places, {programs_ + kFirst, kLast - kFirst + 1});
}

Status Trainer::step(float learning_rate, Report* report, uint32_t rows) {
  if (!ready()) return refuse(Code::kNotBound, Entry::kUpdate);
  if (!is_rate(learning_rate)) return refuse(Code::kLearningRate, Entry::kUpdate);
  Places* const places = update().places();
  const Port* const port = holder();
  if (port == nullptr || accumulated_ != 0 || !places->training().hold(*places, *port).ok()) {
    NACRE_TRY(accumulate(rows));
    return commit(learning_rate, report);
  }
  Status status = run_held(*port, learning_rate, rows);
  if (status.code == Code::kRows || status.code == Code::kRowsUnsupported) return status;
  if (status.ok() && counts_nothing()) {
    places->training().take_back(*places);
    status = refuse(Code::kNothingAccumulated, Entry::kUpdate);
  }
  Report told;
  if (status.ok()) status = read_report(&told);
  discard();
  if (!status.ok()) {
    if (const Status derived = derive(); !derived.ok()) return derived;  // derived again, from the unchanged state
    return status;
  }
  tell(&told, report);
  return {};
}

// Runs gradients, update and derive, whatever the verdict is; if the state did not change, derive gives the same
// values again. The port already holds.
Status Trainer::run_held(const Port& port, float learning_rate, uint32_t rows) {
  Places& places = *update().places();
  if (immediate()) write_rate(learning_rate);
  Status status = feeding().run(0, feeding().view().step_count, rows);
  if (status.ok() && !immediate()) {
    write_rate(learning_rate);
    status = update().run(0, update().view().step_count, 0);
  }
  if (status.ok()) status = derive();
  const Status released = places.training().release(places, port, !status.ok());
  return status.ok() ? released : status;
}

Status Trainer::read_report(Report* report) const {
  const bool wide = model_->tensors()[update().view().outputs[2]].element == ElementType::kFloat64;
  const std::span<const std::byte> numbers = update().output(2);
  const auto number = [&](size_t i) { return report_number(numbers.data(), i, wide); };
  report->applied = value<uint32_t>(update().output(0)) != 0;
  report->norm = number(1);
  report->loss = number(2);
  report->loss_scale = number(3);
  if (count_ != kNoIndex) report->samples = sample_count(update().bytes(count_).data());
  if (floor_ == kNoIndex || report->applied) return {};
  NACRE_TRY(bring_home());  // the counters of the loss scale are in the state
  report->overflow_at_floor = value<uint32_t>(update().bytes(floor_), 2) != 0;
  return {};
}

}  // namespace nacre
