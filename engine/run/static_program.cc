#include "engine/run/static_program.h"

#include <cstring>

#include "engine/base/crc32c.h"

namespace nacre {
namespace {

struct Sum {
  const StaticProgram& program;
  uint32_t crc = 0;

  void add(const void* bytes, size_t count) { crc = crc32c({static_cast<const std::byte*>(bytes), count}, crc); }
  // Adds the block and offset of an address. Adds {kNoIndex, 0} for one outside all blocks: of an absent operand,
  // or of a call without a constant op.
  void add_place(const void* address) {
    uint32_t place[2] = {kNoIndex, 0};
    for (uint32_t i = 0; i < program.blocks.size(); ++i) {
      const StaticBlock& block = program.blocks[i];
      const uintptr_t offset = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(block.data);
      if (offset < block.bytes) place[0] = i, place[1] = uint32_t(offset);
    }
    add(place, sizeof place);
  }
  void add_list(std::span<const std::span<std::byte>> list) {
    for (const std::span<std::byte> bytes : list) {
      const auto size = uint32_t(bytes.size());
      add_place(bytes.data());
      add(&size, sizeof size);
    }
  }
};

}  // namespace

void start_stream(const StaticProgram& program) {
  if (!program.stream.empty()) std::memset(program.stream.data(), 0, program.stream.size());
}

uint32_t table_crc(const StaticProgram& program) {
  Sum sum = {program};
  sum.add(program.hash, sizeof program.hash);
  const Call* call = program.calls.first;
  for (uint32_t i = 0; i < program.call_count; ++i) {
    const StepRecord& step = *call->step;
    sum.add(&step, sizeof step);
    sum.add(program.calls.words + step.first_word, step.word_count * sizeof(uint32_t));
    sum.add_place(call->prepared);
    const Tensor* tensor = call->operands();
    for (int left = step.operand_count + (step.guard != kNoIndex ? 1 : 0); left > 0; --left, ++tensor) {
      sum.add_place(tensor->data);
      if (tensor->record != nullptr) sum.add(tensor->record, sizeof *tensor->record);
    }
    call = reinterpret_cast<const Call*>(tensor);
  }
  sum.add_list(program.inputs);
  sum.add_list(program.outputs);
  sum.add(program.blocks[0].data, program.blocks[0].bytes);
  for (const StaticBlock& op : program.blocks.subspan(program.first_op)) sum.add(op.data, op.bytes);
  return sum.crc;
}

}  // namespace nacre
