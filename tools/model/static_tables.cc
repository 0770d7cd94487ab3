#include "tools/model/static_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "engine/run/bound_step.h"
#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/ready_entries.h"

namespace nacre::tools {
namespace {

// The program as it is bound here, in memory of its own.
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

// Weights that the program reads, each at a multiple of 16 as in the file: what overlaps there overlaps here.
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

class Maker {
 public:
  Maker(const LoadedModel& model, uint32_t index, const TargetMachine& machine)
      : model_(model), binding_(model, index), view_(model.model().program(index)) {
    refuse_what_is_not_static();
    tables_.call_bytes = measure(model, index, {.pointer_bytes = machine.pointer_bytes}).bytes[kCalls];
    tables_.scratch_bytes = binding_.sizes.bytes[kScratch];
    std::ranges::copy(model.model().header().hash, tables_.hash);
  }

  StaticTables make() && {
    each_call([&](const Call& call, int tensors) {
      for (const Tensor& t : std::span(call.operands(), size_t(tensors)))
        if (t.record != nullptr && t.record->region == Region::kWeights)
          weights_.add(bytes_at(t.data), t.record->bytes);
    });
    weights_.place(tables_.weights);
    tables_.block_bytes = {tables_.weights.bytes().size(), binding_.sizes.bytes[kStream]};
    for (uint32_t bank = 0; bank < view_.banks.size(); ++bank)
      tables_.block_bytes.push_back(binding_.sizes.bytes[kArena + bank]);
    each_call([&](const Call& call, int tensors) { add(call, tensors); });
    for (const uint32_t id : view_.inputs) tables_.inputs.push_back(port(id));
    for (const uint32_t id : view_.outputs) tables_.outputs.push_back(port(id));
    tables_.crc = table_crc(BoundTables(tables_).program());
    return std::move(tables_);
  }

 private:
  static const std::byte* bytes_at(const void* data) { return static_cast<const std::byte*>(data); }
  const TensorRecord& record(uint32_t id) const { return model_.model().tensors()[id]; }

  void refuse_what_is_not_static() const {
    const auto refuse = [&](const std::string& fact, const std::string& remedy) {
      throw Error(kUnsupported, model_.path(), fact, remedy);
    };
    const uint64_t* bytes = binding_.sizes.bytes;
    if (bytes[kState] != 0 || bytes[kStepSums] != 0)
      refuse("holds what training learns, and a static program has no state",
             "make a network that infers of it: nacre export --network");
    if (bytes[kDerived] != 0 || bytes[kPrepared] != 0)
      refuse("its weights are made ready when it is bound, and a static program is bound already",
             "convert the network without --train, for the target host");
    for (uint32_t block = kStream; block < kBlockCount; ++block)
      if (bytes[block] > UINT32_MAX) refuse("needs more than 4 GB of one memory", "");
  }

  // f(call, tensors), in order.
  template <class F>
  void each_call(const F& f) const {
    auto* call = reinterpret_cast<const Call*>(binding_.memory.block[kCalls].data());
    for (uint32_t i = 0; i < view_.step_count; ++i) {
      const int tensors = call->step->operand_count + (call->step->guard != kNoIndex ? 1 : 0);
      f(*call, tensors);
      call = reinterpret_cast<const Call*>(call->operands() + tensors);
    }
  }

  void add(const Call& call, int tensors) {
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
    tables_.calls.push_back(std::move(bound));
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
    return {place(binding_.program.bytes(id).data(), record(id)), uint32_t(record(id).bytes), id};
  }

  StaticPlace place(const void* data, const TensorRecord& r) const {
    if (r.region == Region::kWeights) return {StaticTables::kWeightsBlock, uint32_t(weights_.offset(bytes_at(data)))};
    const TensorRecord& root = r.alias_of == kNoIndex ? r : record(r.alias_of);
    const uint32_t block = r.region == Region::kStream ? uint32_t{kStream} : kArena + root.bank;
    const uint32_t table =
        r.region == Region::kStream ? StaticTables::kStreamBlock : StaticTables::kArenaBlock + root.bank;
    return {table, uint32_t(bytes_at(data) - binding_.memory.block[block].data())};
  }

  // First and count of the words, without the zeros that missing ones read as; a run that is there already is used
  // again.
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
  // What run asks of a step whose op is ready.
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
  HostBinding binding_;
  ProgramView view_;
  PlacedWeights weights_;
  StaticTables tables_;
};

}  // namespace

bool StaticTables::keeps_records() const {
  return std::ranges::any_of(calls, [](const BoundStep& call) { return call.op == kNoIndex; });
}

uint64_t StaticTables::table_bytes() const {
  uint64_t bytes = call_bytes + steps.size() * sizeof(StepRecord);
  for (const ReadyOp& op : ops) bytes += op.bytes;
  if (keeps_records()) bytes += records.size() * sizeof(TensorRecord) + words.size() * sizeof(uint32_t);
  return bytes;
}

StaticTables static_tables(const LoadedModel& model, uint32_t program, const TargetMachine& machine) {
  return Maker(model, program, machine).make();
}

BoundTables::BoundTables(StaticTables& tables) : tables_(tables), blocks_(tables.block_bytes.size()) {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (i != StaticTables::kWeightsBlock) blocks_[i].resize(size_t(tables.block_bytes[i]));
    spans_.push_back(i == StaticTables::kWeightsBlock ? tables.weights.bytes() : blocks_[i].bytes());
    list_.push_back({spans_.back().data(), uint32_t(spans_.back().size())});
  }
  scratch_.resize(size_t(tables.scratch_bytes));
  size_t words = 0;
  for (const StaticTables::BoundStep& step : tables.calls) words += call_bytes(uint32_t(step.operands.size())) / 8;
  calls_.resize(words);
  make_ops();
  auto* call = reinterpret_cast<Call*>(calls_.data());
  for (const StaticTables::BoundStep& step : tables.calls) {
    *call = {step.run, &tables.steps[step.step], step.op == kNoIndex ? nullptr : ops_[step.op].data()};
    Tensor* tensor = call->operands();
    for (const StaticTables::Operand& o : step.operands)
      *tensor++ = {o.place.block == kNoIndex ? nullptr : at(o.place, 0).data(),
                   o.record == kNoIndex ? nullptr : &tables.records[o.record]};
    call = reinterpret_cast<Call*>(tensor);
  }
  for (const StaticTables::Port& port : tables.inputs) inputs_.push_back(at(port.place, port.bytes));
  for (const StaticTables::Port& port : tables.outputs) outputs_.push_back(at(port.place, port.bytes));
  for (size_t i = 0; i < ops_.size(); ++i) list_.push_back({ops_[i].data(), uint32_t(tables.ops[i].bytes)});
  program_ = {.calls = {reinterpret_cast<const Call*>(calls_.data()), tables.words.data(), scratch_.bytes()},
              .call_count = uint32_t(tables.calls.size()),
              .inputs = inputs_,
              .outputs = outputs_,
              .stream = spans_[StaticTables::kStreamBlock],
              .blocks = list_,
              .first_op = uint32_t(spans_.size()),
              .hash = {},
              .crc = tables.crc};
  std::ranges::copy(tables.hash, program_.hash);
}

void BoundTables::make_ops() {
  for (const StaticTables::ReadyOp& op : tables_.ops) {
    std::vector<Tensor> operands;
    for (const uint32_t record : op.records)
      operands.push_back({nullptr, record == kNoIndex ? nullptr : &tables_.records[record]});
    ops_.emplace_back((op.bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t));
    op.make(ops_.back().data(), {tables_.words.data() + op.first_word, int(op.word_count)},
            {operands.data(), int(operands.size()), 0});
  }
}

std::span<std::byte> BoundTables::at(const StaticPlace& place, uint64_t bytes) {
  return spans_[place.block].subspan(place.offset, size_t(bytes));
}

}  // namespace nacre::tools
