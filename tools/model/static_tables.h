// Programs bound for a microcontroller, as tables without addresses. `nacre firmware` writes the tables
// (static_source.h); run/static_program.h and train/static_trainer.h run them. They hold one program that infers, and
// for training the programs that train over the same state.
//
// Program::measure and Program::bind first bind the model on this machine. The tables copy its kernels, operands and
// places in the arena. Fields that no kernel reads (lifetimes, names, quantizers) are left out of the records, so that
// steps and operands of one kind share a record.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/run/static_program.h"
#include "engine/train/static_trainer.h"
#include "tools/model/loaded_model.h"
#include "tools/model/machines.h"

namespace nacre::tools {

// A byte of a block. Block 0: weights, 1: stream, 2 + i: bank i of the arena; then for a training state, derived and
// sums of a step. kNoIndex: the operand is absent.
struct StaticPlace {
  uint32_t block = kNoIndex;
  uint32_t offset = 0;
};

struct StaticInitialPart {  // a part of the state that begins as weights
  uint32_t offset, weights_offset, bytes;
};
// Further tables that train/static_trainer.h reads.
struct StaticTrainingPart {
  std::vector<StaticInitialPart> initial;
  std::vector<StateRow> rows;
  std::vector<uint8_t> uses;
  StaticPlace samples, floor;  // absent if `update` has none
  bool wide = false;
};

struct StaticTables {
  static constexpr uint32_t kWeightsBlock = 0, kStreamBlock = 1, kArenaBlock = 2;

  struct Operand {
    StaticPlace place;
    uint32_t record;  // kNoIndex if absent
  };
  struct BoundStep {
    std::string function;  // within nacre: "reference::functions::kDenseI8Double", with an op "reference::ready::.."
    Kernel run;
    uint32_t step;
    uint32_t op;                    // kNoIndex: the kernel reads words and records at every run
    std::vector<Operand> operands;  // then the guard, if any: a tensor; if it is 0, the step has no effect
  };
  // An op made from words and operands' records by Conv2d::from(..). The target's compiler makes it again.
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
  struct BoundProgram {
    uint32_t index;  // in the model
    std::vector<BoundStep> calls;
    std::vector<Port> inputs, outputs;
    uint64_t call_bytes = 0;
    uint32_t crc = 0;

    // Returns whether a call reads words and records at every run.
    bool keeps_records() const;
  };
  std::vector<uint32_t> words;
  std::vector<StepRecord> steps;
  std::vector<TensorRecord> records;
  std::vector<ReadyOp> ops;
  std::map<Entry, BoundProgram> programs;
  std::optional<StaticTrainingPart> training;
  std::vector<uint64_t> block_bytes;
  uint32_t banks = 0;
  AlignedBytes weights;
  uint64_t scratch_bytes = 0;
  uint8_t hash[16] = {};

  // Returns the index of a training's block: kState, kDerived or kStepSums.
  uint32_t state_block(nacre::Block block) const {
    return kArenaBlock + banks + (block == kState ? 0 : block - kDerived + 1);
  }
  const BoundProgram& infer() const { return programs.at(Entry::kInfer); }
  // Returns the bytes of the tables in a device's flash, without weights: calls, ops, steps, programs, and the spans of
  // blocks, ops, inputs and outputs; if a call has no op, also all words and records.
  uint64_t table_bytes(const TargetMachine& machine) const;
  // Returns the bytes of RAM, scratch included.
  uint64_t ram_bytes() const;
};

// Makes the tables of a program that infers. Throws Error for a program with state, derived weights or weights that
// bind prepares, for which there are no tables.
StaticTables static_tables(const LoadedModel& model, uint32_t program, const TargetMachine& machine);

// Makes the tables of all programs that train, and of the one that infers over their state. They are for `target` if
// an `update` is compiled for it, else for the host. Throws if the model has neither.
StaticTables static_training_tables(const LoadedModel& model, const std::string& target, const TargetMachine& machine);

// Binds static tables to the addresses of this machine: the programs run here, and give their CRC.
class BoundTables {
 public:
  explicit BoundTables(StaticTables& tables);
  BoundTables(const BoundTables&) = delete;
  BoundTables& operator=(const BoundTables&) = delete;
  const StaticProgram& program(Entry entry = Entry::kInfer) const { return programs_.at(entry).program; }
  const StaticTraining& training() const { return training_; }

 private:
  struct Bound {
    std::vector<uint64_t> calls;
    std::vector<std::span<std::byte>> inputs, outputs;
    StaticProgram program = {};
  };

  void make_ops();
  void bind(const StaticTables::BoundProgram& from, Bound& to);
  void make_training();
  std::span<std::byte> at(const StaticPlace& place, uint64_t bytes);

  StaticTables& tables_;
  std::vector<AlignedBytes> blocks_;  // memory of each block; empty for the weights, which the tables hold
  AlignedBytes scratch_;
  std::vector<std::vector<uint64_t>> ops_;
  std::vector<std::span<std::byte>> spans_;
  std::vector<StaticBlock> list_;
  std::map<Entry, Bound> programs_;
  std::vector<StaticInitial> initial_;
  StaticTraining training_ = {};
};

}  // namespace nacre::tools
