#include "tools/model/static_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <numeric>

#include "engine/run/bound_step.h"
#include "engine/train/step_numbers.h"
#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/option_id.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/ready_entries.h"

namespace nacre::tools {
namespace {

// Binds the program on this machine, in memory of its own.
struct HostBinding {
  Sizes sizes;
  AlignedBytes bytes;
  Memory memory;
  Program program;

  HostBinding(const LoadedModel& model, uint32_t index) {
    const std::vector<const KernelSet*> kernels = kernels_of_target(model.program_names(index).target);
    sizes = measure(model, index);
    bytes.resize(size_t(sizes.total()));
    model.require(Memory::cut(bytes.bytes(), sizes, &memory));
    model.require(program.bind(model.model(), index, kernels, memory));
  }
};

// Places the weights that the programs read, aligned to 16 as in the file. Weights that overlap there overlap here.
class PlacedWeights {
 public:
  void add(const std::byte* data, uint64_t bytes) {
    uint64_t& length = ranges_[data];
    length = std::max(length, bytes);
  }
  void place(AlignedBytes& weights) {
    const std::byte* end = nullptr;
    uint64_t size = 0;
    for (const auto& [data, bytes] : ranges_) {
      if (end == nullptr || data >= end) {
        size = round_up(size, kAlignment) + reinterpret_cast<uintptr_t>(data) % kAlignment;
        offsets_[data] = size;
      } else {
        offsets_[data] = size - uint64_t(end - data);
      }
      size = std::max(size, offsets_[data] + bytes);
      end = std::max(end, data + bytes);
    }
    weights.resize(size_t(round_up(std::max<uint64_t>(size, 1), kAlignment)));
    for (const auto& [data, bytes] : ranges_) std::memcpy(weights.bytes().data() + offsets_[data], data, size_t(bytes));
  }
  uint64_t offset(const std::byte* data) const { return offsets_.at(data); }

 private:
  std::map<const std::byte*, uint64_t> ranges_, offsets_;
};

// Makes the tables of programs over the same blocks of memory.
class Maker {
 public:
  Maker(const LoadedModel& model, const TargetMachine& machine) : model_(model), machine_(machine) {
    std::ranges::copy(model.model().header().hash, tables_.hash);
  }

  void bind(Entry entry, uint32_t index) {
    const HostBinding& binding = bindings_.try_emplace(entry, model_, index).first->second;
    const uint64_t* bytes = binding.sizes.bytes;
    if (bytes[kPrepared] != 0)
      refuse("its weights are made ready when it is bound, and a static program is bound already",
             "convert the network for the target host");
    for (uint32_t block = kStream; block < kBlockCount; ++block)
      if (bytes[block] > UINT32_MAX) refuse("needs more than 4 GB of one memory", "");
    tables_.scratch_bytes = std::max(tables_.scratch_bytes, bytes[kScratch]);
    tables_.banks = std::max(tables_.banks, uint32_t(model_.model().program(index).banks.size()));
    tables_.programs[entry].index = index;
    tables_.programs[entry].call_bytes =
        measure(model_, index, {.pointer_bytes = machine_.pointer_bytes}).bytes[kCalls];
  }

  // Throws if the program has state or derived weights, which tables of inference alone cannot hold.
  void refuse_state() const {
    const uint64_t* bytes = bindings_.at(Entry::kInfer).sizes.bytes;
    if (bytes[kState] != 0 || bytes[kStepSums] != 0)
      refuse("holds what training learns, and a static program that infers has no state",
             "write those that train too: " + option("train") + "; or make a network that infers of it: nacre export " +
                 option("network"));
    if (bytes[kDerived] != 0)
      refuse("its weights are made ready when it is bound, and a static program is bound already",
             "convert the network without " + option("train") + ", for the target host");
  }

  void hold_state() {
    tables_.training.emplace();
    for (const Block block : {kState, kDerived, kStepSums})
      learned_bytes_.push_back(model_.model().region_bytes(Region(uint32_t(Region::kState) + block - kState)));
  }

  StaticTables make() && {
    for (const auto& [entry, binding] : bindings_)
      each_call(entry, [&](const Call& call, int tensors) {
        for (const Tensor& t : std::span(call.operands(), size_t(tensors)))
          if (t.record != nullptr && t.record->region == Region::kWeights)
            weights_.add(bytes_at(t.data), t.record->bytes);
      });
    if (tables_.training) add_initial_weights();
    weights_.place(tables_.weights);
    tables_.block_bytes = {tables_.weights.bytes().size(), most(kStream)};
    for (uint32_t bank = 0; bank < tables_.banks; ++bank) tables_.block_bytes.push_back(most(kArena + bank));
    std::ranges::copy(learned_bytes_, std::back_inserter(tables_.block_bytes));
    for (const auto& [entry, binding] : bindings_) {
      binding_ = &binding;
      StaticTables::BoundProgram& program = tables_.programs.at(entry);
      each_call(entry, [&](const Call& call, int tensors) { program.calls.push_back(bound(call, tensors)); });
      for (const uint32_t id : binding.program.view().inputs) program.inputs.push_back(port(id));
      for (const uint32_t id : binding.program.view().outputs) program.outputs.push_back(port(id));
      if (tables_.training && entry == Entry::kUpdate) describe_training();
    }
    const BoundTables here(tables_);
    for (auto& [entry, program] : tables_.programs) program.crc = table_crc(here.program(entry));
    return std::move(tables_);
  }

 private:
  static const std::byte* bytes_at(const void* data) { return static_cast<const std::byte*>(data); }
  const TensorRecord& record(uint32_t id) const { return model_.model().tensors()[id]; }

  [[noreturn]] void refuse(const std::string& fact, const std::string& remedy) const {
    throw Error(kUnsupported, model_.path(), fact, remedy);
  }

  uint64_t most(uint32_t block) const {
    uint64_t bytes = 0;
    for (const auto& [entry, binding] : bindings_) bytes = std::max(bytes, binding.sizes.bytes[block]);
    return bytes;
  }

  // Calls f(call, tensors) for all calls in order.
  template <class F>
  void each_call(Entry entry, const F& f) const {
    const HostBinding& binding = bindings_.at(entry);
    auto* call = reinterpret_cast<const Call*>(binding.memory.block[kCalls].data());
    for (uint32_t i = 0; i < binding.program.view().step_count; ++i) {
      const int tensors = call->step->operand_count + (call->step->guard != kNoIndex ? 1 : 0);
      f(*call, tensors);
      call = reinterpret_cast<const Call*>(call->operands() + tensors);
    }
  }

  // Calls f(record) for each tensor of the state that begins with weights.
  template <class F>
  void each_initial(const F& f) const {
    for (uint32_t id = 0; id < model_.model().tensors().size(); ++id) {
      const TensorRecord& r = record(id);
      if (r.region == Region::kState && r.alias_of == kNoIndex && r.initial != kNoIndex) f(r);
    }
  }
  void add_initial_weights() {
    each_initial([&](const TensorRecord& r) { weights_.add(model_.model().weights(r.initial), r.bytes); });
  }

  // Describes the state of the program `update` as Trainer and Checkpoint know it.
  void describe_training() {
    StaticTrainingPart& training = *tables_.training;
    each_initial([&](const TensorRecord& r) {
      const uint64_t from = weights_.offset(model_.model().weights(r.initial));
      training.initial.push_back({uint32_t(r.offset), uint32_t(from), uint32_t(r.bytes)});
    });
    const StateTable state = state_table(model_.model());
    for (uint32_t i = 0; i < state.count; ++i) {
      StateRow row;
      if (!state.row(state.context, i, &row)) continue;
      training.rows.push_back(row);
      training.uses.push_back(state.use(state.context, i));
    }
    const auto place_of = [&](uint32_t id) {
      return id == kNoIndex ? StaticPlace() : place(binding_->program.bytes(id).data(), record(id));
    };
    const StepNumbers numbers = step_numbers(model_.model(), binding_->program.view());
    training.samples = place_of(numbers.samples);
    training.floor = place_of(numbers.floor);
    training.wide = record(binding_->program.view().outputs[2]).element == ElementType::kFloat64;
  }

  StaticTables::BoundStep bound(const Call& call, int tensors) {
    const ReadyEntry* const entry = find_ready_entry(call.run);
    if (entry == nullptr)
      throw Error(kUnsupported, model_.path(), "a step runs by a kernel that static programs do not know",
                  "convert the network for the target host");
    const bool ready = entry->ready != nullptr;
    const char* const kind = ready ? "ready" : "functions";
    StaticTables::BoundStep bound = {.function = fmt::format("{}::{}::{}", entry->space, kind, entry->name),
                                     .run = ready ? entry->ready : entry->general,
                                     .step = 0,
                                     .op = ready ? op(*entry, call) : kNoIndex,
                                     .operands = {}};
    bound.step = ready ? bare_step(*call.step) : step(*call.step);
    for (const Tensor& t : std::span(call.operands(), size_t(tensors)))
      bound.operands.push_back(
          t.record == nullptr ? StaticTables::Operand{{}, kNoIndex}
                              : StaticTables::Operand{place(t.data, *t.record), ready ? kNoIndex : shared(*t.record)});
    return bound;
  }

  uint32_t op(const ReadyEntry& entry, const Call& call) {
    const auto [first, count] = words(*call.step);
    StaticTables::ReadyOp made = {entry.type, first, count, {}, entry.bytes, entry.make};
    for (const Tensor& t : std::span(call.operands(), call.step->operand_count))
      made.records.push_back(t.record == nullptr ? kNoIndex : shared(*t.record));
    const auto found = std::ranges::find_if(tables_.ops, [&](const auto& each) { return each.same(made); });
    if (found != tables_.ops.end()) return uint32_t(found - tables_.ops.begin());
    tables_.ops.push_back(std::move(made));
    return uint32_t(tables_.ops.size() - 1);
  }

  StaticTables::Port port(uint32_t id) {
    return {place(binding_->program.bytes(id).data(), record(id)), uint32_t(record(id).bytes), id};
  }

  StaticPlace place(const void* data, const TensorRecord& r) const {
    if (r.region == Region::kWeights) return {StaticTables::kWeightsBlock, uint32_t(weights_.offset(bytes_at(data)))};
    const Block block = block_of(r);
    const auto offset = uint32_t(bytes_at(data) - binding_->memory.block[block].data());
    if (block == kStream) return {StaticTables::kStreamBlock, offset};
    if (block >= kArena) return {StaticTables::kArenaBlock + (block - kArena), offset};
    return {tables_.state_block(block), offset};
  }
  Block block_of(const TensorRecord& r) const {
    if (r.region == Region::kArena) return Block(kArena + (r.alias_of == kNoIndex ? r : record(r.alias_of)).bank);
    return Block(kState + uint32_t(r.region) - uint32_t(Region::kState));
  }

  // Returns first index and count of the step's words. Zeros at the end are left out, since missing words read as 0.
  // A run of words that is already stored is used again.
  std::pair<uint32_t, uint32_t> words(const StepRecord& r) {
    Words words = model_.model().words(r);
    while (words.count > 0 && words.data[words.count - 1] == 0) --words.count;
    if (words.count == 0) return {0, 0};
    const std::span<const uint32_t> run(words.data, size_t(words.count));
    const auto found = std::ranges::search(tables_.words, run).begin();
    const auto first = uint32_t(found - tables_.words.begin());
    if (found == tables_.words.end()) tables_.words.insert(tables_.words.end(), run.begin(), run.end());
    return {first, uint32_t(words.count)};
  }
  uint32_t step(const StepRecord& r) {
    const auto [first, count] = words(r);
    return index_of(tables_.steps, static_step(uint16_t(r.op), uint8_t(r.rounding), r.operand_count, first,
                                               uint8_t(count), r.guard != kNoIndex));
  }
  // Returns the index of the step as run() reads it when its op is ready: its count of operands and guard, no words.
  uint32_t bare_step(const StepRecord& r) {
    return index_of(tables_.steps, static_step(0, 0, r.operand_count, 0, 0, r.guard != kNoIndex));
  }

  uint32_t shared(const TensorRecord& r) {
    return index_of(tables_.records, static_record(uint8_t(r.element), uint8_t(r.region), uint8_t(r.layout),
                                                   r.flags & kBatched, r.bytes, {r.dims, r.rank}));
  }

  template <class Record>
  static uint32_t index_of(std::vector<Record>& list, const Record& record) {
    const auto found =
        std::ranges::find_if(list, [&](const Record& each) { return std::memcmp(&each, &record, sizeof record) == 0; });
    if (found != list.end()) return uint32_t(found - list.begin());
    list.push_back(record);
    return uint32_t(list.size() - 1);
  }

  const LoadedModel& model_;
  const TargetMachine& machine_;
  std::map<Entry, HostBinding> bindings_;
  const HostBinding* binding_ = nullptr;  // of the program that is being read
  std::vector<uint64_t> learned_bytes_;   // for a training: state, derived, sums of a step
  PlacedWeights weights_;
  StaticTables tables_;
};

}  // namespace

bool StaticTables::BoundProgram::keeps_records() const {
  return std::ranges::any_of(calls, [](const BoundStep& call) { return call.op == kNoIndex; });
}

uint64_t StaticTables::table_bytes(const TargetMachine& machine) const {
  const uint64_t span = 2 * machine.pointer_bytes, object = machine.pointer_bytes == 4 ? 80 : sizeof(StaticProgram);
  uint64_t bytes = steps.size() * sizeof(StepRecord) + span * (block_bytes.size() + ops.size());
  for (const ReadyOp& op : ops) bytes += op.bytes;
  bool keeps_records = false;
  for (const auto& [entry, program] : programs) {
    bytes += program.call_bytes + object + span * (program.inputs.size() + program.outputs.size());
    keeps_records |= program.keeps_records();
  }
  if (keeps_records) bytes += records.size() * sizeof(TensorRecord) + words.size() * sizeof(uint32_t);
  return bytes;
}

uint64_t StaticTables::ram_bytes() const {
  return std::accumulate(block_bytes.begin() + kStreamBlock, block_bytes.end(), scratch_bytes);
}

StaticTables static_tables(const LoadedModel& model, uint32_t program, const TargetMachine& machine) {
  Maker maker(model, machine);
  maker.bind(Entry::kInfer, program);
  maker.refuse_state();
  return std::move(maker).make();
}

StaticTables static_training_tables(const LoadedModel& model, const std::string& target, const TargetMachine& machine) {
  const auto refuse = [&](const char* fact) {
    throw Error(kUnsupported, model.path(), fact, "convert the network with " + option("train"));
  };
  uint32_t update = kNoIndex, index = kNoIndex;
  if (!model.model().find(Entry::kUpdate, nullptr, &update).ok()) refuse("has no program that trains");
  // The reference kernels run a host's programs on any machine.
  if (!model.model().find(Entry::kUpdate, target.c_str(), &update).ok() &&
      !model.model().find(Entry::kUpdate, "host", &update).ok())
    model.find_program(Entry::kUpdate, target);
  if (!model.model().find_beside(update, Entry::kInfer, &index).ok()) refuse("has no program that infers beside it");
  Maker maker(model, machine);
  for (const Entry entry : {Entry::kInfer, Entry::kGradients, Entry::kUpdate, Entry::kDerive})
    if (model.model().find_beside(update, entry, &index).ok()) maker.bind(entry, index);
  maker.hold_state();
  return std::move(maker).make();
}

}  // namespace nacre::tools
