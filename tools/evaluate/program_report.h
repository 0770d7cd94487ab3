// One program as reports tell it: its layers, their steps, attributes and operands by name, and
// what each costs. The text table, the JSON and the picture of `nacre inspect` are three views of
// this.
//
// Needs no kernel, but names those that there are: a model that this library can open can be reported, even one with
// ops it does not know.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "tools/model/loaded_model.h"

namespace nacre::tools {

struct ReportAttribute {
  const char* name;
  std::vector<std::variant<int32_t, float>> values;
};

struct ReportOperand {
  std::string slot;  // as the op names it: "x", "w", "bias"
  Role role = Role::kIn;
  uint32_t tensor = kNoIndex;  // kNoIndex: absent
};

// Place of a tensor; an alias lies inside the tensor that it is a view of.
struct Location {
  uint32_t root;    // tensor id
  uint64_t offset;  // from the start of the region, bank or segment
};

struct ReportStep {
  uint32_t index = 0;  // in the program
  uint32_t layer = kNoIndex;
  Op op = Op::kNone;
  std::string op_name;
  Rounding rounding = Rounding::kNone;
  uint8_t place = 0;
  std::string kernel;  // "avx2/dense_f32"; "" where none takes it
  std::vector<ReportOperand> operands;
  std::vector<ReportAttribute> attributes;  // in word order; empty where the op is unknown
  uint64_t multiply_accumulates = 0;
  uint64_t weight_bytes = 0;      // of constants that no step before reads
  uint64_t activation_bytes = 0;  // of what it writes

  uint32_t output() const;  // the first tensor it writes, or kNoIndex
};

struct ReportLayer {
  std::string name, source_op;
  Policy policy = {};
  std::vector<uint32_t> steps;  // indices in the program; none: what it did is in other layers'
                                // steps, or costs nothing
  uint64_t multiply_accumulates = 0, weight_bytes = 0, activation_bytes = 0;
};

class ProgramReport {
 public:
  // `target`: whose kernels are named (kernels_for of tools/model/step_kernels.h).
  ProgramReport(const LoadedModel& model, uint32_t program, const std::string& target = "");

  const LoadedModel& loaded() const { return loaded_; }
  uint32_t program() const { return program_; }
  const ProgramView& view() const { return view_; }
  const ProgramNames& names() const { return names_; }
  const std::vector<ReportStep>& steps() const { return steps_; }
  const std::vector<ReportLayer>& layers() const { return layers_; }
  const std::string& kernels() const { return kernels_; }  // "avx2": the set that is asked first
  std::map<std::string, uint32_t> reference_ops() const;   // how many steps of each op are left to the reference

  const TensorRecord& tensor(uint32_t id) const { return loaded_.model().tensors()[id]; }
  Location location(uint32_t id) const;
  std::string shape_text(uint32_t id) const;  // "[1, 25, 5, 64]"
  // "int8" where all are alike, else "float32 x int8 -> float32": activations, weights of a matmul,
  // result.
  std::string types_text(const ReportStep& step) const;
  // Window, stride, clamp, axes: what of the attributes differs from the usual, in a few words.
  std::string summary(const ReportStep& step) const;

  // Who reads what was written by whom: one edge per writer of the bytes of a tensor that a step,
  // or the caller, reads.
  struct Edge {
    int from;     // step, or -1 - index of the program's input
    uint32_t to;  // step, or the number of steps + index of the program's output
    uint32_t written,
        read;  // tensor ids; they differ where the reader sees a view of what was written
  };
  std::vector<Edge> edges() const;

  // Returns for each step the bytes of the arena that hold a tensor while it runs, over all banks. If an output takes
  // over the bytes of an input, they count once.
  std::vector<uint64_t> live_bytes() const;

 private:
  void add_step(uint32_t index, std::vector<bool>* seen);
  void describe_operands(const StepRecord& record, ReportStep* step) const;
  void describe_attributes(const StepRecord& record, ReportStep* step) const;

  const LoadedModel& loaded_;
  uint32_t program_;
  ProgramView view_;
  ProgramNames names_;
  std::string kernels_;
  std::vector<ReportStep> steps_;
  std::vector<ReportLayer> layers_;
};

}  // namespace nacre::tools
