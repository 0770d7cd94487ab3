// Binds static tables to addresses of this machine, as compiler and linker do on a microcontroller's.
#include <algorithm>

#include "engine/run/bound_step.h"
#include "tools/model/static_tables.h"

namespace nacre::tools {

BoundTables::BoundTables(StaticTables& tables) : tables_(tables), blocks_(tables.block_bytes.size()) {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (i != StaticTables::kWeightsBlock) blocks_[i].resize(size_t(tables.block_bytes[i]));
    spans_.push_back(i == StaticTables::kWeightsBlock ? tables.weights.bytes() : blocks_[i].bytes());
    list_.push_back({spans_.back().data(), uint32_t(spans_.back().size())});
  }
  scratch_.resize(size_t(tables.scratch_bytes));
  make_ops();
  for (size_t i = 0; i < ops_.size(); ++i) list_.push_back({ops_[i].data(), uint32_t(tables.ops[i].bytes)});
  for (const auto& [entry, program] : tables.programs) bind(program, programs_[entry]);
  if (tables.training) make_training();
}

void BoundTables::bind(const StaticTables::BoundProgram& from, Bound& to) {
  size_t words = 0;
  for (const StaticTables::BoundStep& step : from.calls) words += call_bytes(uint32_t(step.operands.size())) / 8;
  to.calls.resize(words);
  auto* call = reinterpret_cast<Call*>(to.calls.data());
  for (const StaticTables::BoundStep& step : from.calls) {
    *call = {step.run, &tables_.steps[step.step], step.op == kNoIndex ? nullptr : ops_[step.op].data()};
    Tensor* tensor = call->operands();
    for (const StaticTables::Operand& o : step.operands)
      *tensor++ = {o.place.block == kNoIndex ? nullptr : at(o.place, 0).data(),
                   o.record == kNoIndex ? nullptr : &tables_.records[o.record]};
    call = reinterpret_cast<Call*>(tensor);
  }
  for (const StaticTables::Port& port : from.inputs) to.inputs.push_back(at(port.place, port.bytes));
  for (const StaticTables::Port& port : from.outputs) to.outputs.push_back(at(port.place, port.bytes));
  to.program = {.calls = {reinterpret_cast<const Call*>(to.calls.data()), tables_.words.data(), scratch_.bytes()},
                .call_count = uint32_t(from.calls.size()),
                .inputs = to.inputs,
                .outputs = to.outputs,
                .stream = spans_[StaticTables::kStreamBlock],
                .blocks = list_,
                .first_op = uint32_t(spans_.size()),
                .hash = {},
                .crc = from.crc};
  std::ranges::copy(tables_.hash, to.program.hash);
}

void BoundTables::make_training() {
  const StaticTrainingPart& t = *tables_.training;
  const auto program_or_null = [&](Entry entry) {
    const auto found = programs_.find(entry);
    return found == programs_.end() ? nullptr : &found->second.program;
  };
  const auto number = [&](const StaticPlace& place) { return place.block == kNoIndex ? nullptr : at(place, 0).data(); };
  for (const StaticInitialPart& part : t.initial)
    initial_.push_back({part.offset, part.bytes, tables_.weights.bytes().data() + part.weights_offset});
  training_ = {.infer = program_or_null(Entry::kInfer),
               .gradients = program_or_null(Entry::kGradients),
               .update = program_or_null(Entry::kUpdate),
               .derive = program_or_null(Entry::kDerive),
               .state = spans_[tables_.state_block(kState)],
               .step = spans_[tables_.state_block(kStepSums)],
               .initial = initial_,
               .rows = t.rows,
               .uses = t.uses,
               .samples = number(t.samples),
               .floor = number(t.floor),
               .wide = t.wide};
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
