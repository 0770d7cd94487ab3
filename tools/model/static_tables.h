// A program bound for a microcontroller, as tables without addresses: what `nacre firmware` writes (static_source.h)
// and run/static_program.h runs.
//
// The tables are read off what Program::measure and Program::bind made here of the same model: its kernels, its
// operands, its places in the arena. What no kernel reads (lifetimes, names, quantizers) is left out of the records, so
// that steps and operands of one kind share theirs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/run/static_program.h"
#include "tools/model/loaded_model.h"
#include "tools/model/machines.h"

namespace nacre::tools {

// Block 0: weights, 1: stream, 2 + i: bank i of the arena. kNoIndex: an operand that is absent.
struct StaticPlace {
  uint32_t block = kNoIndex;
  uint32_t offset = 0;
};

struct StaticTables {
  static constexpr uint32_t kWeightsBlock = 0, kStreamBlock = 1, kArenaBlock = 2;

  struct Operand {
    StaticPlace place;
    uint32_t record;  // kNoIndex: absent
  };
  struct BoundStep {
    std::string function;  // of nacre: "reference::functions::kDenseI8Double", with an op "reference::ready::.."
    Kernel run;
    uint32_t step;
    uint32_t op;                    // kNoIndex: words and records say it at every run
    std::vector<Operand> operands;  // and the guard, if any
  };
  // Made of words and of the records of operands: Conv2d::from(..). The compiler of the target makes it again.
  struct ReadyOp {
    std::string type;  // "Conv2d"
    uint32_t first_word, word_count;
    std::vector<uint32_t> records;  // of the operands; kNoIndex: absent
    size_t bytes;
    void (*make)(void* to, const Words& words, const Operands& operands);

    bool same(const ReadyOp& other) const {
      return type == other.type && first_word == other.first_word && word_count == other.word_count &&
             records == other.records;
    }
  };
  struct Port {  // an input or output
    StaticPlace place;
    uint32_t bytes, tensor;
  };

  std::vector<uint32_t> words;
  std::vector<StepRecord> steps;
  std::vector<TensorRecord> records;
  std::vector<ReadyOp> ops;
  std::vector<BoundStep> calls;
  std::vector<uint64_t> block_bytes;
  AlignedBytes weights;
  uint64_t scratch_bytes = 0, call_bytes = 0;
  std::vector<Port> inputs, outputs;
  uint8_t hash[16] = {};
  uint32_t crc = 0;

  // What a device keeps of them in flash, without weights: calls, ops, steps; and, of calls without an op, words and
  // records, all of them where there is one such call.
  uint64_t table_bytes() const;
  bool keeps_records() const;
};

// Throws where a program of this kind is not to be had: one with state, derived weights or prepared kernels.
StaticTables static_tables(const LoadedModel& model, uint32_t program, const TargetMachine& machine);

// The same tables with the addresses of this machine: runs here, and says their CRC.
class BoundTables {
 public:
  explicit BoundTables(StaticTables& tables);
  const StaticProgram& program() const { return program_; }

 private:
  void make_ops();
  std::span<std::byte> at(const StaticPlace& place, uint64_t bytes);

  StaticTables& tables_;
  std::vector<AlignedBytes> blocks_;  // of `weights` the tables' own
  AlignedBytes scratch_;
  std::vector<uint64_t> calls_;
  std::vector<std::vector<uint64_t>> ops_;
  std::vector<std::span<std::byte>> inputs_, outputs_, spans_;
  std::vector<StaticBlock> list_;
  StaticProgram program_ = {};
};

}  // namespace nacre::tools
